// What each entry changes: one function a type, (draft, entry, time) -> what the entry is about.
//
// That "ref" is the thread through the page: "m:ID" a message, "c:KEY" a tool call, "r:KEY" a model
// call, "t:N" a turn. Records in the maps are replaced, never changed, so a view may compare them.
//
// Items of the conversation: {kind: "user", key, id} · {kind: "answer", key, id} ·
// {kind: "late", key, …} · {kind: "end", key, n} · {kind: "gap", key, from, to}.

import { forget, paused, permission_requested, permission_resolved, refOfItem, unparked } from "./gate.js";

const change = (map, key, fields) => {
  const old = map.get(key);
  if (old) map.set(key, { ...old, ...fields });
};
const changeLast = (list, fields) => {
  if (list.length) list[list.length - 1] = { ...list.at(-1), ...fields };
};
const hop = (d, t, from, to, e, ref) => d.hops.push({ t, from, to, seq: e.seq, ref });
const out = (d, e, t, ref) => d.outs.push({ t, type: e.type, seq: e.seq, ref, bad: e.is_error === true && e.kind !== "cancelled" });

// -- messages ----------------------------------------------------------------------------------

function accepted(d, e, t) {
  const ref = `m:${e.message_id}`;
  if (d.messages.has(e.message_id)) return ref;
  d.messages.set(e.message_id, {
    id: e.message_id, content: e.content, mode: e.mode, status: "accepted", ref, seq: e.seq,
    acceptedAt: t, heldAt: null, blockedBy: [], endAt: null, position: null, turn: null, reason: null, isEdited: false,
  });
  d.waiting.push(e.message_id);
  d.tail.push(e.message_id);
  hop(d, t, "you", "input", e, ref);
  return ref;
}

function held(d, e, t) {
  const at = d.messages.get(e.message_id)?.heldAt ?? t;
  change(d.messages, e.message_id, { status: "held", heldAt: at, blockedBy: e.blocked_by, heldSeq: e.seq });
  return `m:${e.message_id}`;
}

const place = (d, id) => d.items.push({ kind: "user", key: `m:${id}`, id });

/** Delivered, it takes its place in the history; taken back, it stays where it stood among those that wait. */
function ended(d, e, fields) {
  const id = e.message_id;
  change(d.messages, id, fields);
  d.waiting = d.waiting.filter((other) => other !== id);
  if (fields.status === "delivered") {
    d.tail = d.tail.filter((other) => other !== id);
    place(d, id);
  } else if (!d.tail.includes(id)) d.tail.push(id);
  while (d.tail.length && d.messages.get(d.tail[0]).endAt !== null) place(d, d.tail.shift());
  return `m:${id}`;
}

function delivered(d, e, t) {
  const message = d.messages.get(e.message_id);
  if (!message || message.status === "delivered") return `m:${e.message_id}`;
  if (message.heldAt !== null) d.hops.push({ t, from: "input", to: "chat", seq: e.seq, ref: message.ref, isRelease: true });
  return ended(d, e, { status: "delivered", endAt: t, position: e.position, turn: e.turn, endSeq: e.seq });
}

function withdrawn(d, e, t) {
  if (!d.messages.has(e.message_id)) return `m:${e.message_id}`;
  return ended(d, e, { status: "withdrawn", endAt: t, reason: e.reason, endSeq: e.seq });
}

function rejected(d, e, t) {
  const known = d.messages.get(e.message_id);
  // The same id with other content is refused, and says nothing of the message that has the id.
  if (known && (e.code === "id_reused" || known.endAt !== null)) return known.ref;
  const fields = { status: "rejected", endAt: t, reason: e.code, note: e.message, retryAfter: e.retry_after, endSeq: e.seq };
  if (!known) {
    d.messages.set(e.message_id, {
      id: e.message_id, content: null, mode: null, ref: `m:${e.message_id}`, seq: e.seq,
      acceptedAt: t, heldAt: null, blockedBy: [], position: null, turn: null, isEdited: false,
    });
  }
  return ended(d, e, fields);
}

function edited(d, e) {
  if (d.messages.has(e.item)) {
    if (typeof e.after === "string") change(d.messages, e.item, { content: e.after, isEdited: true });
    return `m:${e.item}`;
  }
  const key = d.callKeys.get(e.item);
  if (key && typeof e.after === "object") change(d.calls, key, { args: e.after, isEdited: true });
  return key ? `c:${key}` : null;
}

// -- queues ------------------------------------------------------------------------------------

function queue(d, e, t) {
  const ref = refOfItem(d, e.item);
  d.depth[e.queue] = e.depth;
  if (e.op === "put") {
    d.blocks.push({ queue: e.queue, item: e.item, ref, putAt: t, takeAt: null, putSeq: e.seq, takeSeq: null });
    if (e.queue === "events") hop(d, t, "chat", "events", e, ref);
    else if (ref?.startsWith("c:")) hop(d, t, "event", "input", e, ref);
  } else {
    const at = d.blocks.findLastIndex((b) => b.queue === e.queue && b.item === e.item && b.takeAt === null);
    if (at >= 0) d.blocks[at] = { ...d.blocks[at], takeAt: t, takeSeq: e.seq };
    hop(d, t, e.queue, e.queue === "events" ? "event" : "chat", e, ref);
  }
  return ref;
}

// -- the model ---------------------------------------------------------------------------------

const stepKey = (e) => `${e.turn ?? 0}.${e.step ?? 0}`;

function answerOf(d, e, t) {
  const id = stepKey(e);
  if (!d.answers.has(id)) {
    d.answers.set(id, {
      id, turn: e.turn, step: e.step, text: "", isStreaming: true, isPartial: false, calls: [],
      seq: e.seq, at: t, refs: [], model: d.models.at(-1)?.model ?? null,
    });
    d.items.push({ kind: "answer", key: `a:${id}`, id });
  }
  return d.answers.get(id);
}

function model_request(d, e, t) {
  closeModel(d, t, "cut");
  const key = `${stepKey(e)}.${e.seq}`;
  const number = d.models.length + 1;
  d.models.push({
    key, ref: `r:${key}`, number, turn: e.turn, step: e.step, dialect: e.dialect, model: e.model, seq: e.seq,
    startAt: t, firstAt: null, pieces: 0, endAt: null, status: "open", usage: null, finish: null, retry: null,
  });
  const turn = d.turns.at(-1);
  if (turn) changeLast(d.turns, { models: turn.models + 1 });
  d.requests.push(e.seq);
  out(d, e, t, `r:${key}`);
  return `r:${key}`;
}

function closeModel(d, t, status, fields) {
  const last = d.models.at(-1);
  if (last && last.endAt === null) changeLast(d.models, { endAt: t, status, ...fields });
}

const currentModel = (d) => d.models.at(-1)?.ref ?? null;

function text_delta(d, e, t) {
  const answer = answerOf(d, e, t);
  d.answers.set(answer.id, { ...answer, text: answer.text + e.text, isStreaming: true });
  const last = d.models.at(-1);
  if (last) changeLast(d.models, { firstAt: last.firstAt ?? t, pieces: last.pieces + 1 });
  out(d, e, t, currentModel(d));
  return currentModel(d);
}

/** What can be read of a model's thinking, whatever its provider calls it. */
const thoughts = (parts) => (parts ?? []).map((part) => part.text ?? part.summary?.join("\n\n") ?? "").filter(Boolean).join("\n\n");

function assistant(d, e, t) {
  const answer = answerOf(d, e, t);
  d.answers.set(answer.id, {
    ...answer, text: e.content ?? "", isStreaming: false, isPartial: e.partial === true, seq: e.seq,
    thinking: thoughts(e.thinking),
  });
  closeModel(d, t, e.partial ? "cut" : "done");
  out(d, e, t, currentModel(d));
  return currentModel(d);
}

function model_response(d, e, t) {
  const last = d.models.at(-1);
  d.spent = e.session_spent ?? d.spent;
  if (e.turn_spent && d.turns.length) changeLast(d.turns, { spent: e.turn_spent });
  if (last) changeLast(d.models, { endAt: last.endAt ?? t, status: "done", usage: e.usage ?? null, finish: e.finish_reason });
  out(d, e, t, currentModel(d));
  return currentModel(d);
}

function retrying(d, e, t) {
  const id = stepKey(e);
  if (d.answers.has(id)) change(d.answers, id, { text: "", isStreaming: true });
  closeModel(d, t, "failed", { retry: { attempt: e.attempt, delay: e.delay, code: e.code, message: e.message, at: t } });
  return currentModel(d);
}

// -- tools -------------------------------------------------------------------------------------

function tool_call(d, e, t) {
  const key = `${e.round}/${e.call_id}`;
  const ref = `c:${key}`;
  if (d.calls.has(key)) return ref;
  const answer = answerOf(d, e, t);
  d.calls.set(key, {
    key, ref, id: e.call_id, name: e.name, args: e.arguments, turn: e.turn, step: e.step, seq: e.seq, status: "called",
    calledAt: t, startedAt: null, endAt: null, timeout: null, content: null, isError: false, late: null, isEdited: false, decision: null,
  });
  d.callKeys.set(e.call_id, key);
  d.open.push(key);
  d.answers.set(answer.id, { ...answer, calls: [...answer.calls, key], isStreaming: false });
  const turn = d.turns.at(-1);
  if (turn) changeLast(d.turns, { calls: turn.calls + 1 });
  out(d, e, t, ref);
  return ref;
}

const latest = (d, id) => d.callKeys.get(id);

function tool_started(d, e, t) {
  const key = latest(d, e.call_id);
  if (!key) return null;
  change(d.calls, key, { status: "running", startedAt: t, timeout: e.timeout ?? null, startSeq: e.seq });
  return `c:${key}`;
}

function tool_reply(d, e, t) {
  const key = latest(d, e.call_id);
  out(d, e, t, key ? `c:${key}` : null);
  if (!key) return null;
  d.open = d.open.filter((other) => other !== key);
  forget(d, t, key);
  change(d.calls, key, { status: e.kind, endAt: d.calls.get(key).endAt ?? t, content: e.content, isError: e.is_error, replySeq: e.seq });
  return `c:${key}`;
}

function late_reply(d, e, t) {
  const key = latest(d, e.call_id);
  out(d, e, t, key ? `c:${key}` : null);
  if (key) change(d.calls, key, { late: { content: e.content, at: t, seq: e.seq } });
  else d.items.push({ kind: "late", key: `l:${e.seq}`, seq: e.seq, id: e.call_id, name: e.name, content: e.content });
  return key ? `c:${key}` : null;
}

// -- ends --------------------------------------------------------------------------------------

const STATUS = { done: "done", error: "failed", cancelled: "cut" };

function end(d, e, t) {
  const ref = `t:${e.turn}`;
  closeModel(d, t, STATUS[e.type]);
  const last = d.answers.get(stepKey(e)) ?? [...d.answers.values()].at(-1);
  if (last?.isStreaming) d.answers.set(last.id, { ...last, isStreaming: false, isPartial: true });
  for (const key of d.open) change(d.calls, key, { status: "cancelled", endAt: t });
  d.open = [];
  forget(d, t);
  const at = d.turns.findLastIndex((turn) => turn.n === e.turn);
  if (at < 0 || d.turns[at].end) return ref;
  d.turns[at] = {
    ...d.turns[at], endAt: t, end: e.type, endSeq: e.seq, reason: e.reason ?? null, pending: e.pending, by: e.by ?? null,
    code: e.code, message: e.message, hint: e.hint,
  };
  d.items.push({ kind: "end", key: `t:${e.turn}`, n: e.turn });
  out(d, e, t, ref);
  return ref;
}

// -- a history that was opened -----------------------------------------------------------------

/** Each stands in the conversation as it was given, with what became of it. */
function imported(d, e) {
  const key = `i:${e.seq}`;
  const { index, fate, why } = e;
  d.items.push({ kind: "past", key, seq: e.seq, e: { ...e.message, index, fate, why, thinking: thoughts(e.message.thinking) } });
  return key;
}

export const HANDLERS = {
  accepted, held, delivered, withdrawn, rejected, edited, queue, model_request, text_delta, assistant, model_response,
  retrying, tool_call, tool_started, tool_reply, late_reply, paused, resumed: unparked, dropped: unparked,
  permission_requested, permission_resolved, imported,
  done: end, error: end, cancelled: end,
};
