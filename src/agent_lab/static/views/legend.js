// How to read the timeline: a picture of a turn that never was, and what each colour and shape means.

import { h, mark, s } from "../h.js";
import { sampleEntries } from "../sample.js";
import { EMPTY, reduce } from "../store.js";
import { createScale, windowOf } from "../timescale.js";
import { layout } from "../track.js";
import { LABELS, namesOf, paint } from "./paint.js";
import { arrowShape, barShapes, markShape, rowShapes } from "./shapes.js";

const MEANINGS = [
  ["user", "dot", "you: a message"],
  ["model", "bar", "a model call, pale until its first word"],
  ["tool", "bar", "a tool call, from start to reply"],
  ["held", "bar", "held: your message waits until the open tools have replied, so that the provider accepts the history"],
  ["bad", "cross", "something failed"],
  ["dim", "arrow", "a hop from one place to the next"],
];

export function legend() {
  return h("ul", { class: "legend" }, MEANINGS.map(([tone, shape, text]) => h("li", null, sign(tone, shape), text)));
}

function sign(tone, shape) {
  const shapes = {
    dot: () => [s("circle", { class: `mark ${tone}`, cx: 14, cy: 8, r: 5 })],
    cross: () => [s("path", { class: `mark ${tone} cross`, d: "M9 3l10 10m0-10l-10 10" })],
    arrow: () => [s("path", { class: "arrow", d: "M4 8H20", "marker-end": "url(#head)" })],
    bar: () => [s("rect", { class: `bar ${tone}`, x: 1, y: 2, width: 26, height: 12, rx: 3 }), tone === "held" ? s("rect", { class: "hatch", x: 1, y: 2, width: 26, height: 12, rx: 3 }) : null],
  };
  return s("svg", { width: 28, height: 16, "aria-hidden": "true" }, shapes[shape]());
}

/** {node, draw(width)}: the picture with its legend; nothing in it can be chosen. */
export function createSample() {
  const plot = s("svg", { role: "img", "aria-label": "An example of a turn: two tools run, and a message is held until the slow one has replied" });
  const node = h("div", { class: "sample", hidden: true },
    h("p", null, h("b", null, "Time will run to the right here,"), " one row for each place a message can be. A turn looks like this:"), plot, legend());
  const state = reduce(EMPTY, [{ type: "session", session_id: "sample", state: "idle", last_seq: 0 }, ...sampleEntries()]);
  let drawn = 0;
  return {
    node,
    draw(width) {
      if (width === drawn) return;
      drawn = width;
      const now = state.entries.at(-1).t;
      const inner = Math.max(120, width - LABELS);
      const scale = createScale(windowOf(state, { scope: "session", turn: null, now }), inner);
      const { rows, bars, marks, arrows } = layout(state, { scale, now, left: 0, right: inner, turn: null, ref: null });
      const picked = { seq: null, ref: undefined, near: undefined };
      const obstacles = [...bars, ...marks.filter((m) => m.shape === "block")];
      mark(plot, "viewBox", `${-LABELS} 14 ${width} ${rows.height - 14}`);
      mark(plot, "width", width);
      mark(plot, "height", rows.height - 14);
      const names = namesOf(rows, state).map((shape) => ({ ...shape, attrs: { ...shape.attrs, x: shape.attrs.x - LABELS } }));
      const shapes = [...rowShapes(rows, 0, inner), ...arrows.flatMap((arrow) => arrowShape(arrow, picked)), ...bars.flatMap((bar) => barShapes(bar, obstacles, picked, 0, inner)), ...marks.map((m) => markShape(m, picked)), ...names];
      paint(plot, shapes.filter((shape) => shape.attrs.class !== "hit").map(({ attrs: { "data-seq": _, "data-label": __, ...attrs }, ...shape }) => ({ ...shape, attrs })));
    },
  };
}
