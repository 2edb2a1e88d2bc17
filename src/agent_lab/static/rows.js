// The timeline's rows, and which lane each span of time has in its row. Pure.

export const GAP = 8;
const AXIS = 24;

const laneHeight = (lanes) => (lanes <= 5 ? 22 : lanes <= 10 ? 17 : 11);

export function rowsOf(waiting, running) {
  const rows = {};
  let y = AXIS;
  const row = (name, label, lanes, lane) => {
    const height = lanes * lane + GAP;
    rows[name] = { name, label, y, height, lane, lanes, middle: y + height / 2 };
    y += height + 8;
  };
  row("you", "you", 1, 16);
  // The first lane of input is for what passes through, those below it for what is held.
  row("input", "input", 1 + Math.max(1, waiting), waiting > 5 ? 14 : 18);
  row("chat", "ChatAgent", 1, 22);
  row("events", "events", 1, 16);
  row("event", "EventAgent", Math.max(2, running), laneHeight(running));
  row("output", "output", 1, 14);
  rows.height = y;
  return rows;
}

const packs = new WeakMap(); // state -> what spans time in it; what is open has no end yet

export function spansOf(state, turn) {
  let found = packs.get(state);
  if (!found || found.turn !== turn) {
    const stands = standSpans(state, turn);
    const of = (place) => stands.filter((span) => span.place === place);
    found = {
      turn, waits: packed([...heldSpans(state, turn), ...of("input")]), runs: packed([...toolSpans(state, turn), ...of("event")]),
      chat: of("chat").map((span) => ({ ...span, lane: 0 })), events: of("events").map((span) => ({ ...span, lane: 0 })),
    };
    packs.set(state, found);
  }
  return found;
}

/** Gives each span the first lane that is free when it begins. */
function packed(spans) {
  spans.sort((a, b) => a.from - b.from);
  const ends = [];
  for (const span of spans) {
    let lane = ends.findIndex((end) => end <= span.from);
    if (lane < 0) lane = ends.length;
    ends[lane] = span.to ?? Infinity;
    span.lane = lane;
  }
  return { spans, lanes: ends.length };
}

const ofTurn = (turn, a, b) => !turn || (b >= turn.startAt && a <= (turn.endAt ?? Infinity));

function heldSpans(state, turn) {
  const spans = [];
  for (const m of state.messages.values()) {
    if (m.heldAt === null) continue;
    const to = m.endAt === null ? null : released(state, m);
    if (ofTurn(turn, m.heldAt, to ?? Infinity)) spans.push({ from: m.heldAt, to, message: m });
  }
  return spans;
}

/** A held message is free when the last call that blocked it has its reply. */
function released(state, m) {
  let last = -Infinity;
  for (const id of m.blockedBy) {
    const call = state.calls.get(state.callKeys.get(id));
    if (call?.endAt) last = Math.max(last, call.endAt);
  }
  return last <= m.endAt && m.endAt - last < 250 ? last : m.endAt;
}

function toolSpans(state, turn) {
  const spans = [];
  for (const call of state.calls.values()) {
    if (call.startedAt === null) continue;
    if (ofTurn(turn, call.startedAt, call.endAt ?? Infinity)) spans.push({ from: call.startedAt, to: call.endAt, call });
  }
  return spans;
}


/** What stands at the gate, or waits for a person's permission, in the row where it stands. */
function standSpans(state, turn) {
  return state.stands
    .filter((stand) => ofTurn(turn, stand.from, stand.to ?? Infinity))
    .map((stand) => ({ from: stand.from, to: stand.to, stand, place: { model: "chat", tool: "event", thread: "event" }[stand.hop] ?? stand.queue }));
}
