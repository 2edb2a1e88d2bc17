// The timeline's bars: model calls, held messages, tool calls, and what stands at the gate. Pure.

import { clip, duration, shortId, signature } from "./format.js";
import { GAP } from "./rows.js";

const someOf = (ids) => ids.slice(0, 2).join(", ") + (ids.length > 2 ? ` +${ids.length - 2}` : "");

function bar(seen, row, { from, to, lane = 0 }) {
  const x = seen.scale.x(from);
  const end = seen.scale.x(to ?? seen.now);
  return { x, y: row.y + GAP / 2 + lane * row.lane + 1, width: Math.max(3, end - x), height: row.lane - 2, isOpen: to === null };
}

export function models(state, seen, row) {
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

export function helds(spans, seen, row, width) {
  return spans
    .filter((span) => span.message && seen.near(span.from, span.to ?? seen.now + 1e9))
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

export function tools(spans, seen, row) {
  return spans
    .filter((span) => span.call && seen.near(span.from, span.to ?? seen.now))
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

/** What stands at the gate or waits for permission, hatched like all that is held. */
export function stands(spans, seen, row, { below = 0 } = {}) {
  return spans
    .filter((span) => span.stand && seen.near(span.from, span.to ?? seen.now))
    .map((span) => {
      const { stand } = span;
      const time = duration((span.to ?? seen.now) - span.from);
      const what = stand.kind === "ask" ? (stand.to === null ? `asks permission: ${stand.name}` : `asked: ${stand.how ?? "closed"}`) : `${stand.to === null ? "paused" : stand.how}: ${stand.hop}`;
      return {
        ...bar(seen, row, { ...span, lane: span.lane + below }), key: stand.key, ref: stand.ref, seq: stand.seq, kind: "held",
        text: row.lane < 14 ? [] : [`${what} · ${time}`, what, stand.kind === "ask" ? "asks" : "paused"],
        label: `${what} ${shortId(stand.item)} · ${time}`,
      };
    });
}

/** Bars too narrow to be told apart are drawn once: a thousand turns are a band. */
export function sparse(bars) {
  const room = Math.min(16, Math.max(2, bars.length / 150));
  const ends = new Map();
  return bars.filter((shape) => {
    const key = `${shape.y}${shape.kind}`;
    const end = shape.x + shape.width;
    if (shape.width < room + 2 && end < (ends.get(key) ?? -Infinity) + room) return false;
    ends.set(key, end);
    return true;
  });
}
