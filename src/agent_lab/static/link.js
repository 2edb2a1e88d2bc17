// The page's side of one session: attach, catch up, send each message until it has its receipt.
//
// A message goes into the outbox before it is sent and leaves it when a receipt with its id is seen.
// After a cut the page first catches up, then sends again what is still there; the id is what keeps
// the server from running it twice.

import { createClock } from "./clock.js";
import { memory, newId } from "./memory.js";
import { createSocket } from "./socket.js";
import { EMPTY, reduce, runningTurn, withEntries } from "./store.js";

const CLOSED = new Set(["session_closed", "session_failed", "bad_model", "closing"]); // nothing will be taken here
const RECEIPTS = new Set(["accepted", "held", "delivered", "withdrawn", "rejected"]);

export function createLink({ token, onChange, onNotice, onRefused, onReturned }) {
  const clock = createClock();
  const link = { state: "off", retryAt: 0, isBehind: false };
  let state = EMPTY;
  let sessionId = memory.read("session", null);
  let outbox = memory.read("outbox", []);
  let refusedTexts = memory.read("refused", {});
  let sent = new Set(); // ids sent on this connection
  const edits = new Map(); // message id -> the text that was saved and is not yet on record
  let lateAt = -Infinity; // when one of them turned out to have come too late
  let hasSession = false; // the session frame came on this connection
  let failures = 0;
  let stoppedAt = 0; // when the server turned out to be another one
  let restUntil = 0; // messages came too fast for the server, and go on then
  let resting = 0;

  const socket = createSocket({ token, hello, onFrames, onStatus });

  function hello() {
    sent = new Set();
    hasSession = false;
    if (sessionId && state.session?.session_id === sessionId) return { type: "attach", session_id: sessionId, after: state.lastSeq, epoch: state.session.epoch };
    if (sessionId) return { type: "attach", session_id: sessionId, after: 0 };
    const first = outbox[0];
    sent.add(first.id);
    return { type: "run", agent: first.agent, content: first.content, message_id: first.id, mode: first.mode, session_id: null };
  }

  function onStatus(status) {
    // While it tries again it is still lost; it is found again when the session frame is here.
    if (status.state === "connecting" && link.state === "lost") link.retryAt = performance.now();
    else if (!(status.state === "open" && link.state === "lost")) Object.assign(link, status);
    if (status.state === "lost" && ++failures > 1) probe();
    onChange();
  }

  /** A refused upgrade looks like a broken line; an HTTP answer tells which it is. */
  async function probe() {
    const answer = await get("/api/agents").catch(() => null);
    if (answer?.status === 401 || answer?.status === 403) {
      stoppedAt = clock.now();
      socket.close("refused");
      onRefused();
    }
  }

  function onFrames(frames) {
    const batch = [];
    for (const frame of frames) {
      if (frame.type === "session" && frame.seq === undefined) welcome(frame);
      else if (frame.type === "error" && frame.scope === "frame") {
        refused(frame);
        if (!hasSession) return;
      }
      if (frame.type === "gap" && frame.read_at) fill(frame);
      if (RECEIPTS.has(frame.type)) settle(frame);
      if (frame.at) clock.observe(Date.parse(frame.at));
      batch.push(frame);
    }
    state = reduce(state, batch);
    for (const [id, content] of edits) saved(id, content);
    link.isBehind = state.session !== null && state.lastSeq < state.session.last_seq;
    pump();
    onChange();
  }

  function welcome(frame) {
    failures = 0;
    hasSession = true;
    link.state = "open";
    // The numbers of another epoch begin at 1 again, and so may its clock; the store starts anew.
    if (state.session && state.session.epoch !== frame.epoch) clock.reset();
    if (frame.now) clock.observe(Date.parse(frame.now));
    if (sessionId !== frame.session_id) remember(frame.session_id);
  }

  function refused(frame) {
    if (isLateEdit(frame)) return; // the composer says it
    if (frame.code === "rate_limited" && frame.message_id) return rest(frame);
    if (hasSession && !(CLOSED.has(frame.code) && giveBackAll(frame))) onNotice(frame);
    if (hasSession) return;
    if (frame.code === "resume_gone" && state.lastSeq > 0) {
      state = EMPTY;
      return socket.reopen();
    }
    socket.close();
    if (!giveBackAll(frame)) onNotice(frame);
    remember(null); // what was read stays in sight; the next message opens a new session
  }

  /** What came too fast was not accepted: it goes again, under its id, when the server has room. */
  function rest({ message_id: id, retry_after: seconds }) {
    sent.delete(id);
    sent.delete(`edit ${id}`);
    restUntil = Math.max(restUntil, performance.now() + (seconds ?? 1) * 1000);
    clearTimeout(resting);
    resting = setTimeout(() => (pump(), onChange()), restUntil - performance.now() + 5); // a timer may be a little early
  }

  /** What could not be sent goes back to who wrote it; says whether there was any. */
  function giveBackAll({ message, hint }) {
    const texts = outbox.map((m) => m.content);
    if (!texts.length) return false;
    outbox = [];
    memory.write("outbox", null);
    onReturned(texts.join("\n"), `Not sent: ${message}${hint ? ` → ${hint}` : ""}`);
    return true;
  }

  async function fill(gap) {
    const found = [];
    for (let after = gap.from - 1; after < gap.to; after = found.at(-1).seq) {
      const path = `/api/sessions/${encodeURIComponent(sessionId)}/entries?after=${after}&limit=${Math.min(1000, gap.to - after)}`;
      const answer = await get(path).then((a) => (a.ok ? a.json() : null)).catch(() => null);
      if (!answer?.entries?.length) break;
      found.push(...answer.entries);
    }
    if (!found.length || state.session?.session_id !== found[0].session_id) return;
    state = withEntries(state, found);
    onChange();
  }

  function remember(id) {
    sessionId = id;
    memory.write("session", id);
  }

  function settle(frame) {
    const mine = outbox.find((m) => m.id === frame.message_id);
    if (!mine) return;
    // The journal keeps no text of what was refused; the page does, so that it can be sent again.
    if (frame.type === "rejected") memory.write("refused", (refusedTexts = { ...refusedTexts, [mine.id]: mine.content }));
    drop(mine.id);
  }

  function drop(id) {
    outbox = outbox.filter((m) => m.id !== id);
    memory.write("outbox", outbox.length ? outbox : null);
    onChange();
  }

  /** An edit is on record, or it came too late, and its text goes back to who wrote it. */
  function saved(id, content) {
    const m = state.messages.get(id);
    if (m?.content !== content && m?.endAt === null) return;
    edits.delete(id);
    if (!m || m.content === content) return;
    lateAt = performance.now();
    onReturned(content, `Too late to change it: it was ${m.status} before. What you wrote is here.`);
  }

  const isLateEdit = (frame) => frame.code === "not_waiting" && (edits.size > 0 || performance.now() - lateAt < 2000);

  /** Sends what waits in the outbox, once a connection, and only when the journal has been read. */
  function pump() {
    if (!hasSession || link.isBehind || performance.now() < restUntil) return;
    for (const [id, content] of edits) if (!sent.has(`edit ${id}`) && socket.send({ type: "edit", message_id: id, content })) sent.add(`edit ${id}`);
    for (const m of outbox) {
      if (sent.has(m.id)) continue;
      if (!socket.send({ type: "user_message", content: m.content, message_id: m.id, mode: m.mode })) return;
      sent.add(m.id);
    }
  }

  function leave(id) {
    socket.close();
    state = EMPTY;
    hasSession = false;
    link.isBehind = false;
    edits.clear();
    outbox = [];
    memory.write("outbox", null);
    clock.reset();
    remember(id);
    if (id) socket.open();
    onChange();
  }

  function get(path) {
    return fetch(path, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" }).then((answer) => {
      clock.observe(Date.parse(answer.headers.get("Date")));
      return answer;
    });
  }

  const post = (path, body) => fetch(path, { method: "POST", headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" }, cache: "no-store", body: JSON.stringify(body) });

  if (sessionId || outbox.length) socket.open();

  return {
    get state() { return state; },
    get link() { return { ...link, retryIn: Math.max(0, link.retryAt - performance.now()), isResting: performance.now() < restUntil }; },
    get outbox() { return outbox; },
    get sessionId() { return sessionId; },
    /** A run whose server is gone stands still; one that is only out of reach goes on. */
    now: () => (link.state === "refused" ? stoppedAt : clock.now()),
    get,
    post,
    send(content, mode, agent) {
      outbox = [...outbox, { id: newId(), content, mode, agent }];
      memory.write("outbox", outbox);
      if (hasSession) pump();
      else if (link.state === "lost") socket.hurry();
      else if (link.state !== "connecting" && link.state !== "open") socket.open();
      onChange();
    },
    textOf: (id) => refusedTexts[id] ?? null,
    discard: drop,
    retry: () => socket.hurry(),
    withdraw: (id) => socket.send({ type: "withdraw", message_id: id }),
    edit(id, content) {
      if (!hasSession || !socket.send({ type: "edit", message_id: id, content })) return false;
      edits.set(id, content);
      sent.add(`edit ${id}`);
      return true;
    },
    permit: (id, decision, fields) => socket.send({ type: "permission", request_id: id, decision, ...fields }),
    release: (hop, edit) => socket.send({ type: "release", hop, ...(edit === undefined ? {} : { edit }) }),
    drop: (hop) => socket.send({ type: "drop", hop }),
    cancelTool: (id) => socket.send({ type: "cancel_tool", call_id: id }),
    cancel(dropWaiting) {
      const turn = runningTurn(state)?.n ?? (state.turns.at(-1)?.n ?? 0) + 1;
      return socket.send({ type: "cancel", turn, drop_waiting: dropWaiting });
    },
    attach: leave,
    leave: () => leave(null),
  };
}
