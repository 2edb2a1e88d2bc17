// The timeline's points: messages sent, items in a queue, what went to output. Pure.

import { clip, duration, shortId } from "./format.js";
import { GAP } from "./rows.js";

export function between(list, from, to, timeOf) {
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

export function dots(state, seen, row) {
  const found = [];
  for (const m of state.messages.values()) {
    if (!seen.near(m.acceptedAt, m.acceptedAt)) continue;
    const kind = m.status === "rejected" ? "bad" : m.heldAt !== null ? "held" : "user";
    found.push({ key: `you ${m.id}`, shape: kind === "held" ? "diamond" : kind === "bad" ? "cross" : "dot", kind, x: seen.scale.x(m.acceptedAt), y: row.middle, ref: m.ref, seq: m.seq, label: `you: “${clip(m.content ?? "rejected", 70)}” · ${m.status}` });
  }
  return found;
}

/** At most one mark each few pixels in a row: 50,000 entries are still a picture. */
function thinned(marks) {
  const room = marks.length > 600 ? 5 : 2;
  const last = new Map();
  return marks.filter((mark) => {
    const at = Math.round(mark.x / room);
    if (last.get(`${mark.y}${mark.kind}`) === at) return false;
    last.set(`${mark.y}${mark.kind}`, at);
    return true;
  });
}

export function queued(state, seen, rows) {
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

export function outs(state, seen, row) {
  return thinned(
    between(state.outs, seen.t0, seen.t1, (o) => o.t).map((o) => {
      const isEnd = o.type === "done" || o.type === "error" || o.type === "cancelled";
      const kind = o.bad ? "bad" : OUT_KIND[o.type];
      const shape = isEnd ? { done: "dot", error: "cross", cancelled: "square" }[o.type] : "tick";
      return { key: `o ${o.seq}`, shape, kind, tall: o.type !== "text_delta", x: seen.scale.x(o.t), y: row.middle, ref: o.ref, seq: o.seq, label: `output: ${o.type}` };
    }),
  );
}

