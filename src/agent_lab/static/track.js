// Where everything stands on the timeline: rows, bars, ticks, dots and arrows. Pure.
//
// layout(state, view) gives shapes in pixels, only those between view.left and view.right. Each has
// `seq` (the entry it opens), `ref` (what it is about) and `label` (what a hover says).

import { clip, duration, shortId, signature } from "./format.js";

const GAP = 8;
const AXIS = 24;

export function layout(state, { scale, now, left, right, turn, ref }) {
  const seen = {
    near: (a, b) => b >= seen.t0 && a <= seen.t1,
    t0: scale.t(Math.max(0, left - 8)),
    t1: scale.t(right + 8),
    scale, now,
  };
  const { waits, runs } = spansOf(state, turn);
  const rows = rowsOf(waits.lanes, runs.lanes);
  const bars = [...sparse(models(state, seen, rows.chat)), ...sparse(helds(waits.spans, seen, rows.input, scale.width)), ...sparse(tools(runs.spans, seen, rows.event))];
  return {
    rows,
    bars,
    marks: [...dots(state, seen, rows.you), ...queued(state, seen, rows), ...outs(state, seen, rows.output)],
    arrows: arrows(state, seen, rows, runs.spans, waits.spans, ref),
  };
}

// -- rows --------------------------------------------------------------------------------------

const laneHeight = (lanes) => (lanes <= 5 ? 22 : lanes <= 10 ? 17 : 11);

function rowsOf(waiting, running) {
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

function spansOf(state, turn) {
  let found = packs.get(state);
  if (!found || found.turn !== turn) {
    found = { turn, waits: packed(heldSpans(state, turn)), runs: packed(toolSpans(state, turn)) };
    packs.set(state, found);
  }
  return found;
}

/** Gives each span the first lane that is free when it begins. */
function packed(spans) {
  const ends = [];
  for (const span of spans) {
    let lane = ends.findIndex((end) => end <= span.from);
    if (lane < 0) lane = ends.length;
    ends[lane] = span.to ?? Infinity;
    span.lane = lane;
  }
  return { spans, lanes: ends.length };
}

const someOf = (ids) => ids.slice(0, 2).join(", ") + (ids.length > 2 ? ` +${ids.length - 2}` : "");

const ofTurn = (turn, a, b) => !turn || (b >= turn.startAt && a <= (turn.endAt ?? Infinity));

function heldSpans(state, turn) {
  const spans = [];
  for (const m of state.messages.values()) {
    if (m.heldAt === null) continue;
    const to = m.endAt === null ? null : released(state, m);
    if (ofTurn(turn, m.heldAt, to ?? Infinity)) spans.push({ from: m.heldAt, to, message: m });
  }
  return spans.sort((a, b) => a.from - b.from);
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
  return spans.sort((a, b) => a.from - b.from);
}

// -- bars --------------------------------------------------------------------------------------

function bar(seen, row, { from, to, lane = 0 }) {
  const x = seen.scale.x(from);
  const end = seen.scale.x(to ?? seen.now);
  return { x, y: row.y + GAP / 2 + lane * row.lane + 1, width: Math.max(3, end - x), height: row.lane - 2, isOpen: to === null };
}

function models(state, seen, row) {
  return state.models
    .filter((m) => seen.near(m.startAt, m.endAt ?? seen.now))
    .map((m) => {
      const time = duration((m.endAt ?? seen.now) - m.startAt);
      const how = { failed: " · failed", cut: " · stopped" }[m.status] ?? "";
      return {
        ...bar(seen, row, { from: m.startAt, to: m.endAt }),
        key: m.ref, ref: m.ref, seq: m.seq, kind: m.status === "failed" ? "bad" : "model", isCut: m.status === "cut",
        text: [`model call ${m.number} · ${time}${how}`, `model ${m.number} · ${time}`, `${m.number}`],
        firstX: m.firstAt === null ? null : seen.scale.x(m.firstAt),
        label: `model call ${m.number}${how} · ${time}${m.firstAt ? ` · first word after ${duration(m.firstAt - m.startAt)}` : ""}`,
      };
    });
}

function helds(spans, seen, row, width) {
  return spans
    .filter((span) => seen.near(span.from, span.to ?? seen.now + 1e9))
    .map((span) => {
      const m = span.message;
      const time = duration((span.to ?? seen.now) - span.from);
      const shape = bar(seen, row, { ...span, lane: span.lane + 1 });
      const waits = `waits for ${someOf(m.blockedBy)}`;
      return {
        ...shape, key: `held ${m.id}`, ref: m.ref, seq: m.heldSeq, kind: "held", rest: span.to === null ? width - shape.x - shape.width : 0,
        text: [`held ${time}: ${waits}`, `held ${time}`, "held"],
        label: `“${clip(m.content, 60)}” held ${time}, ${span.to === null ? "waits" : "waited"} for ${m.blockedBy.join(", ")}`,
      };
    });
}

const FAILED = new Set(["error", "timeout", "lost", "unknown_tool", "bad_arguments", "truncated"]);

function tools(spans, seen, row) {
  return spans
    .filter((span) => seen.near(span.from, span.to ?? seen.now))
    .map((span) => {
      const { call } = span;
      const time = duration((span.to ?? seen.now) - span.from);
      const whole = signature(call.name, call.args, 48);
      const how = call.status === "running" || call.status === "result" ? "" : ` · ${call.status}`;
      const isBad = FAILED.has(call.status) || (call.isError && call.status !== "cancelled");
      return {
        ...bar(seen, row, span), key: call.ref, ref: call.ref, seq: call.startSeq, kind: isBad ? "bad" : "tool", isCut: call.status === "cancelled",
        text: row.lane < 14 ? [] : [`${whole} · ${time}${how}`, `${call.name} · ${time}${how}`, `${clip(call.name, 18)} ${isBad ? "✕" : ""}`.trim(), ""],
        label: `${shortId(call.id)} ${signature(call.name, call.args, 80)} · ${time}${how}`,
      };
    });
}

/** Bars too narrow to be told apart are drawn once: a thousand turns are a band. */
function sparse(bars) {
  const ends = new Map();
  return bars.filter((shape) => {
    const key = `${shape.y}${shape.kind}`;
    const end = shape.x + shape.width;
    if (shape.width < 4 && end < (ends.get(key) ?? -Infinity) + 2) return false;
    ends.set(key, end);
    return true;
  });
}

// -- marks -------------------------------------------------------------------------------------

function between(list, from, to, timeOf) {
  const first = lower(list, from, timeOf);
  return list.slice(first, lower(list, to + 1e-6, timeOf));
}

function lower(list, t, timeOf) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timeOf(list[middle]) < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

function dots(state, seen, row) {
  const found = [];
  for (const m of state.messages.values()) {
    if (!seen.near(m.acceptedAt, m.acceptedAt)) continue;
    const kind = m.status === "rejected" ? "bad" : m.heldAt !== null ? "held" : "user";
    found.push({ key: `you ${m.id}`, shape: kind === "held" ? "diamond" : kind === "bad" ? "cross" : "dot", kind, x: seen.scale.x(m.acceptedAt), y: row.middle, ref: m.ref, seq: m.seq, label: `you: “${clip(m.content ?? "rejected", 70)}” · ${m.status}` });
  }
  return found;
}

/** At most one mark each two pixels in a row: 50,000 entries are still a picture. */
function thinned(marks) {
  const last = new Map();
  return marks.filter((mark) => {
    const at = Math.round(mark.x / 2);
    if (last.get(`${mark.y}${mark.kind}`) === at) return false;
    last.set(`${mark.y}${mark.kind}`, at);
    return true;
  });
}

function queued(state, seen, rows) {
  const near = between(state.blocks, seen.t0 - 60_000, seen.t1, (b) => b.putAt).filter((b) => seen.near(b.putAt, b.takeAt ?? seen.now));
  return thinned(
    near.map((b) => {
      const row = rows[b.queue];
      const x = seen.scale.x(b.putAt);
      const width = Math.max(4, seen.scale.x(b.takeAt ?? seen.now) - x);
      const time = b.takeAt === null ? `waits since ${duration(seen.now - b.putAt)}` : `stayed ${duration(b.takeAt - b.putAt)}`;
      return { key: `q ${b.putSeq}`, shape: "block", kind: b.ref?.startsWith("m:") ? "user" : "tool", x, y: row.y + GAP / 2 + 2, width, height: Math.min(row.lane - 4, 14), ref: b.ref, seq: b.putSeq, label: `${shortId(b.item)} in ${b.queue} · ${time}` };
    }),
  );
}

const OUT_KIND = { text_delta: "model", model_request: "model", model_response: "model", assistant: "model", tool_call: "tool", tool_reply: "tool", late_reply: "tool", done: "ok", error: "bad", cancelled: "dim" };

function outs(state, seen, row) {
  return thinned(
    between(state.outs, seen.t0, seen.t1, (o) => o.t).map((o) => {
      const isEnd = o.type === "done" || o.type === "error" || o.type === "cancelled";
      const kind = o.bad ? "bad" : OUT_KIND[o.type];
      const shape = isEnd ? { done: "dot", error: "cross", cancelled: "square" }[o.type] : "tick";
      return { key: `o ${o.seq}`, shape, kind, tall: o.type !== "text_delta", x: seen.scale.x(o.t), y: row.middle, ref: o.ref, seq: o.seq, label: `output: ${o.type}` };
    }),
  );
}

// -- arrows ------------------------------------------------------------------------------------

const MOST_ARROWS = 140;

function arrows(state, seen, rows, runs, waits, ref) {
  let near = between(state.hops, seen.t0, seen.t1, (hop) => hop.t);
  if (near.length > MOST_ARROWS) near = near.filter((hop) => hop.ref === ref).slice(0, MOST_ARROWS);
  const lanes = new Map(runs.map((span) => [span.call.ref, span.lane]));
  const held = new Map(waits.map((span) => [span.message.ref, span]));
  return near.map((hop) => {
    const span = held.get(hop.ref);
    const isRelease = hop.isRelease && span?.to;
    const at = seen.scale.x(isRelease ? span.to : hop.t);
    return { key: `h ${hop.seq}`, ref: hop.ref, seq: hop.seq, d: path(at, hop, rows, lanes.get(hop.ref) ?? 0, isRelease ? span.lane + 1 : 0), label: `${NAMES[hop.from]} → ${NAMES[hop.to]}` };
  });
}

const NAMES = { you: "you", input: "input", chat: "ChatAgent", events: "events", event: "EventAgent" };

function path(px, hop, rows, lane, waitLane) {
  const x = Math.round(px * 10) / 10;
  const top = (row, at = 0) => row.y + GAP / 2 + at * row.lane;
  const bottom = (row, at = row.lanes - 1) => row.y + GAP / 2 + (at + 1) * row.lane;
  if (hop.from === "you") return `M${x} ${rows.you.middle + 6}V${top(rows.input, waitLane)}`;
  if (hop.from === "event") {
    const y0 = top(rows.event, lane);
    const y1 = bottom(rows.input) + 2;
    return `M${x} ${y0}C${x + 13} ${y0 - 26} ${x + 13} ${y1 + 26} ${x + 1.5} ${y1}`;
  }
  if (hop.to === "event") return `M${x} ${bottom(rows.events)}V${top(rows.event, lane)}`;
  if (hop.from === "chat") return `M${x} ${bottom(rows.chat)}V${top(rows.events)}`;
  return `M${x} ${bottom(rows.input, waitLane)}V${top(rows.chat)}`;
}
