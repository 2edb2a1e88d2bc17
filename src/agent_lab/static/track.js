// Where everything stands on the timeline: rows, bars, ticks, dots and arrows. Pure.
//
// layout(state, view) gives shapes in pixels, only those between view.left and view.right. Each has
// `seq` (the entry it opens), `ref` (what it is about) and `label` (what a hover says).

import { helds, models, sparse, stands, tools } from "./bars.js";
import { between, dots, outs, queued } from "./marks.js";
import { clip, shortId, signature } from "./format.js";
import { GAP, rowsOf, spansOf } from "./rows.js";

export function layout(state, { scale, now, left, right, turn, ref }) {
  const seen = {
    near: (a, b) => b >= seen.t0 && a <= seen.t1,
    t0: scale.t(Math.max(0, left - 8)),
    t1: scale.t(right + 8),
    scale, now,
  };
  const { waits, runs, chat, events } = spansOf(state, turn);
  const rows = rowsOf(waits.lanes, runs.lanes);
  const bars = [
    ...sparse(models(state, seen, rows.chat)), ...sparse(helds(waits.spans, seen, rows.input, scale.width)), ...sparse(tools(runs.spans, seen, rows.event)),
    ...stands(waits.spans, seen, rows.input, { below: 1 }), ...stands(runs.spans, seen, rows.event), ...stands(chat, seen, rows.chat), ...stands(events, seen, rows.events),
  ];
  return {
    rows,
    bars,
    marks: [...dots(state, seen, rows.you), ...queued(state, seen, rows), ...outs(state, seen, rows.output)],
    arrows: arrows(state, seen, rows, runs.spans, waits.spans, ref),
  };
}

// -- arrows ------------------------------------------------------------------------------------

const MOST_ARROWS = 140;

function arrows(state, seen, rows, runs, waits, ref) {
  let near = between(state.hops, seen.t0, seen.t1, (hop) => hop.t);
  if (near.length > MOST_ARROWS) near = near.filter((hop) => hop.ref === ref).slice(0, MOST_ARROWS);
  const lanes = new Map(runs.filter((span) => span.call).map((span) => [span.call.ref, span.lane]));
  const held = new Map(waits.filter((span) => span.message).map((span) => [span.message.ref, span]));
  return near.map((hop) => {
    const span = held.get(hop.ref);
    const isRelease = hop.isRelease && span?.to;
    const at = seen.scale.x(isRelease ? span.to : hop.t);
    return { key: `h ${hop.seq}`, ref: hop.ref, seq: hop.seq, d: path(at, hop, rows, lanes.get(hop.ref) ?? 0, isRelease ? span.lane + 1 : 0), label: `${NAMES[hop.from]} → ${NAMES[hop.to]}: ${nameOf(state, hop.ref)}` };
  });
}

/** What crossed, in the words of the conversation. */
export function nameOf(state, ref) {
  const message = ref?.startsWith("m:") ? state.messages.get(ref.slice(2)) : null;
  if (message) return `“${clip(message.content, 50)}”`;
  const call = ref?.startsWith("c:") ? state.calls.get(ref.slice(2)) : null;
  return call ? `${shortId(call.id)} ${signature(call.name, call.args, 60)}` : "an item";
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
