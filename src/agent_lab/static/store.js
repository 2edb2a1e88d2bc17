// Entries in, state out. Pure: no DOM, no clock, no randomness, and the state given is not changed.
//
// reduce(state, frames) takes frames as the socket gives them. An entry that was seen before (its
// seq is not above the last one) is ignored, so a reconnect or a reload may repeat as it likes.

import { HANDLERS } from "./handlers.js";

export const EMPTY = Object.freeze({
  session: null, //  {session_id, agent, epoch, state, last_seq}
  lastSeq: 0,
  entries: [], //    {seq, t, type, ref, e}: the entry `e`, its time in ms, and what it is about
  gaps: [], //       {from, to, read_at}
  items: [], //      the conversation in order: {kind, key, …}, see handlers.js
  waiting: [], //    ids of accepted messages that are not delivered, in order of arrival
  tail: [], //       what stands below the items: these, and what was taken back behind one of them
  messages: new Map(), // by message id
  answers: new Map(), //  by "turn.step"
  calls: new Map(), //    by "round/call_id"
  callKeys: new Map(), // call_id -> key of the latest call with it
  open: [], //       keys of calls without a reply, oldest first
  turns: [], //      {n, startAt, endAt, end, seq, endSeq, …}
  models: [], //     model calls: {key, turn, step, startAt, endAt, status, …}
  blocks: [], //     stays in a queue: {queue, item, ref, putAt, takeAt, putSeq, takeSeq}
  outs: [], //       what went to output: {t, type, seq}
  hops: [], //       hand-offs that are drawn as arrows: {t, from, to, seq, ref}
  depth: { input: 0, events: 0 },
  spent: null, //    what the session came to, as the provider counted: see spent.js
  parked: new Map(), // hops parked at the gate, by their seq
  asked: new Map(), //  tool calls that wait for a person's permission, by request_id
  stands: [], //     what stood at the gate or waited for permission: {key, kind, hop, from, to, how, …}
  requests: [], //   seqs of model_request entries
  counts: {}, //     entries by type
});

const ARRAYS = ["entries", "gaps", "items", "waiting", "tail", "open", "turns", "models", "blocks", "outs", "hops", "requests", "stands"];
const MAPS = ["messages", "answers", "calls", "callKeys", "parked", "asked"];

export function reduce(state, frames) {
  const draft = copy(state);
  for (const frame of frames) apply(draft, frame);
  return draft;
}

/** Copied once a batch, not once an entry: 10,000 entries arrive in a few dozen batches. */
function copy(state) {
  const draft = { ...state, depth: { ...state.depth }, counts: { ...state.counts } };
  for (const name of ARRAYS) draft[name] = state[name].slice();
  for (const name of MAPS) draft[name] = new Map(state[name]);
  return draft;
}

function apply(draft, frame) {
  if (Number.isInteger(frame.seq)) entry(draft, frame);
  else if (frame.type === "session") session(draft, frame);
  else if (frame.type === "gap") gap(draft, frame.from, frame.to, frame.read_at ?? null);
}

function session(draft, frame) {
  const known = draft.session;
  // Numbering starts again with another epoch: what was seen belongs to the old one.
  if (known && (known.epoch !== frame.epoch || known.session_id !== frame.session_id)) Object.assign(draft, copy(EMPTY));
  draft.session = frame;
}

function gap(draft, from, to, readAt) {
  if (to <= draft.lastSeq) return;
  draft.gaps.push({ from, to, read_at: readAt });
  draft.items.push({ kind: "gap", key: `g:${from}`, from, to });
  draft.lastSeq = to;
}

function entry(draft, e) {
  if (e.seq <= draft.lastSeq) return;
  if (e.seq > draft.lastSeq + 1) gap(draft, draft.lastSeq + 1, e.seq - 1, null);
  draft.lastSeq = e.seq;
  draft.counts[e.type] = (draft.counts[e.type] ?? 0) + 1;
  const t = Date.parse(e.at);
  const x = { seq: e.seq, t, type: e.type, ref: null, e };
  draft.entries.push(x);
  openTurn(draft, e, t);
  x.ref = HANDLERS[e.type]?.(draft, e, t) ?? null;
}

/** A turn begins with the first entry that carries its number. */
function openTurn(draft, e, t) {
  const last = draft.turns.at(-1);
  if (!Number.isInteger(e.turn) || e.turn <= (last?.n ?? 0)) return;
  draft.turns.push({ n: e.turn, startAt: t, endAt: null, end: null, seq: e.seq, endSeq: null, models: 0, calls: 0 });
}

// -- questions about a state -----------------------------------------------------------------------

/** The turn that runs now, or null. */
export function runningTurn(state) {
  const last = state.turns.at(-1);
  return last && last.endAt === null && state.session?.state !== "closed" ? last : null;
}

/** Whether a cancel would find anything to stop. */
export const isBusy = (state) => runningTurn(state) !== null || state.waiting.length > 0;

/** A message's number in the request, as the provider counts: with the system message, if it is in the list. */
export function numberOf(state, m) {
  const body = state.requests.length ? entryAt(state, state.requests[0])?.e.body : null;
  const first = (body?.messages ?? body?.input ?? body?.contents)?.[0];
  const hasSystem = body ? first?.role === "system" || first?.role === "developer" : Boolean(state.session?.agent?.instructions);
  return m.position + (hasSystem ? 1 : 0);
}

/** Calls that have no reply yet, oldest first. */
export const openCalls = (state) => state.open.map((key) => state.calls.get(key));

/** The model call that runs now, or null. */
export function openModel(state) {
  const last = state.models.at(-1);
  return last && last.endAt === null ? last : null;
}

/** The entry with this seq, by bisection: there may be gaps. */
export function entryAt(state, seq) {
  let low = 0;
  let high = state.entries.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = state.entries[middle];
    if (found.seq === seq) return found;
    if (found.seq < seq) low = middle + 1;
    else high = middle - 1;
  }
  return null;
}

/** Everything in the journal about the same message, call, model call or turn, in order. */
export const storyOf = (state, ref) => (ref ? state.entries.filter((x) => x.ref === ref) : []);

/** The state as if these entries had come in order; fills what a gap left out. */
export function withEntries(state, more) {
  const bySeq = new Map(state.entries.map((x) => [x.seq, x.e]));
  for (const e of more) bySeq.set(e.seq, e);
  const ordered = [...bySeq.values()].sort((a, b) => a.seq - b.seq);
  const fresh = reduce(EMPTY, state.session ? [state.session, ...ordered] : ordered);
  return { ...fresh, lastSeq: Math.max(fresh.lastSeq, state.lastSeq) };
}
