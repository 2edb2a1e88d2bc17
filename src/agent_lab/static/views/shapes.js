// From the layout's boxes to SVG: {key, tag, attrs, text}. Pure but for measuring text.

import { s } from "../h.js";

export function defs() {
  return s("defs", null,
    s("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { x1: 0, y1: 0, x2: 0, y2: 7, class: "hatchline" })),
    s("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, s("path", { d: "M0 0 8 4 0 8z", class: "headfill" })),
    s("marker", { id: "head-chosen", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, s("path", { d: "M0 0 8 4 0 8z", class: "headfill chosen" })));
}

const round = (n) => Math.round(n * 10) / 10;

const measured = { 400: new Map(), 600: new Map() }; // by weight
let pen = null;
let family = "";

/** A text's width at the bars' 11.5 px, character by character: texts that tick are new each time. */
function widthOf(text, weight = 400) {
  let width = 0;
  for (const letter of text) width += measured[weight].get(letter) ?? measure(letter, weight);
  return width;
}

function measure(letter, weight) {
  if (!pen) {
    pen = document.createElement("canvas").getContext("2d");
    family = getComputedStyle(document.body).fontFamily;
  }
  pen.font = `${weight} 11.5px ${family}`;
  measured[weight].set(letter, pen.measureText(letter).width);
  return measured[weight].get(letter);
}

const weightOf = (bar) => (bar.kind === "held" ? 600 : 400); // as in panels.css

const isPicked = (shape, picked) => (shape.ref !== null && shape.ref === picked.ref ? (shape.seq === picked.seq ? "entry" : "ref") : null);

/** Pointed at somewhere else on the page. */
const isNear = (shape, picked) => shape.ref !== null && shape.ref !== undefined && shape.ref === picked.near;

export function rowShapes(rows, left, right) {
  const found = [];
  for (const row of Object.values(rows)) {
    if (!row.name) continue;
    if (row.name === "input" || row.name === "events") {
      found.push({ key: row.name, tag: "rect", attrs: { class: "rail", x: left - 20, y: row.y, width: right - left + 40, height: row.height, rx: 5 } });
    } else found.push({ key: row.name, tag: "line", attrs: { class: "floor", x1: left, x2: right, y1: row.y + row.height + 3.5, y2: row.y + row.height + 3.5 } });
  }
  return found;
}

export function axisShapes({ ticks, folds, turns }, rows) {
  const bottom = rows.height - 4;
  const shapes = [];
  let free = -Infinity;
  let lineFree = -Infinity;
  for (const { x, n } of turns) {
    if (x < lineFree) continue;
    lineFree = x + 8;
    shapes.push({ key: `turn ${n}`, tag: "line", attrs: { class: "turnline", x1: round(x), x2: round(x), y1: 4, y2: bottom } });
    const text = `turn ${n}`;
    if (x < free) continue;
    shapes.push({ key: `turntext ${n}`, tag: "text", attrs: { class: "turntext", x: round(x + 4), y: 14 }, text });
    free = x + widthOf(text) + 14;
  }
  for (const { x0, x1, text } of folds) {
    if (x1 - x0 < 3) continue;
    shapes.push({ key: `fold ${x0}`, tag: "rect", attrs: { class: "fold", x: round(x0), y: 20, width: round(x1 - x0), height: bottom - 20, "data-label": `nothing happened for ${text}` } });
    if (x1 - x0 > widthOf(text)) shapes.push({ key: `foldtext ${x0}`, tag: "text", attrs: { class: "dim foldtext", x: round((x0 + x1) / 2), y: rows.you.middle + 4, "text-anchor": "middle" }, text });
  }
  ticks.forEach(({ x, text }, i) => {
    shapes.push({ key: `tick ${i}`, tag: "line", attrs: { class: "gridline", x1: round(x), x2: round(x), y1: 20, y2: bottom } });
    const wide = widthOf(text);
    if (shapes.length > 600 || crowds(turns, x - wide - 12, x)) return;
    shapes.push({ key: `ticktext ${i}`, tag: "text", attrs: { class: "dim", x: round(x - 4), y: 14, "text-anchor": "end" }, text });
  });
  return shapes;
}

/** Whether a turn's name stands between `from` and `to`; turns come in order of x. */
function crowds(turns, from, to) {
  let low = 0;
  let high = turns.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (turns[middle].x + 56 < from) low = middle + 1;
    else high = middle;
  }
  return low < turns.length && turns[low].x - 4 < to;
}

export function arrowShape(arrow, picked) {
  const chosen = isPicked(arrow, picked);
  const attrs = { d: arrow.d, "data-seq": arrow.seq, "data-label": arrow.label };
  return [
    { key: `${arrow.key} hit`, tag: "path", attrs: { ...attrs, class: "hit" } },
    { key: arrow.key, tag: "path", attrs: { ...attrs, class: "arrow", "data-chosen": chosen, "data-near": isNear(arrow, picked), "marker-end": chosen || isNear(arrow, picked) ? "url(#head-chosen)" : "url(#head)" } },
  ];
}

/** A bar, its label inside or, where that is too narrow and there is room, to the right of it. */
export function barShapes(bar, obstacles, picked, left, right) {
  const box = { x: round(bar.x), y: bar.y, width: round(bar.width), height: bar.height };
  const attrs = { "data-seq": bar.seq, "data-label": bar.label };
  const shapes = [];
  if (bar.rest > 0) shapes.push({ key: `${bar.key} rest`, tag: "rect", attrs: { class: "rest", x: round(bar.x + bar.width), y: bar.y, width: round(bar.rest), height: bar.height } });
  shapes.push({ key: bar.key, tag: "rect", attrs: { ...attrs, ...box, class: `bar ${bar.kind}`, rx: Math.min(4, bar.width / 3), "data-open": bar.isOpen, "data-cut": bar.isCut === true, "data-chosen": isPicked(bar, picked), "data-near": isNear(bar, picked) } });
  if (bar.kind === "held") shapes.push({ key: `${bar.key} hatch`, tag: "rect", attrs: { ...box, class: "hatch", rx: 3 } });
  // Pale until the first word came.
  const pale = (bar.firstX ?? bar.x) - bar.x - 1.5;
  if (pale > 1) shapes.push({ key: `${bar.key} waiting`, tag: "rect", attrs: { class: "waiting", x: round(bar.x + 1), y: bar.y + 1, width: round(pale), height: bar.height - 2, rx: 3 } });
  const label = place(bar, obstacles, left, right);
  if (label) {
    if (bar.kind === "held" && label.isInside) shapes.push({ key: `${bar.key} plate`, tag: "rect", attrs: { class: "plate", x: round(label.x - 3), y: bar.y + 2, width: round(widthOf(label.text, weightOf(bar)) + 6), height: bar.height - 4, rx: 3 } });
    shapes.push({ key: `${bar.key} text`, tag: "text", attrs: { class: `bartext ${bar.kind}${label.isInside ? "" : " outside"}`, x: round(label.x), y: bar.y + bar.height / 2 + 4 }, text: label.text });
  }
  return shapes;
}

function place(bar, obstacles, left, right) {
  const start = Math.max(bar.x, left); // what has begun out of sight is named where it comes into it
  const stop = Math.min(bar.x + bar.width, right);
  // Where the first word came the bar has an edge: a label stands on one side of it.
  const edge = bar.firstX > start && bar.firstX < stop ? bar.firstX : stop;
  const sides = [[start, edge], [edge, stop]].sort((a, b) => b[1] - b[0] - (a[1] - a[0]));
  for (const text of bar.text) for (const [from, to] of sides) if (text && widthOf(text, weightOf(bar)) + 14 <= to - from) return { text, x: from + 7, isInside: true };
  const text = bar.text.find(Boolean);
  if (!text || bar.rest > 0) return null;
  const end = bar.x + bar.width;
  if (obstacles.length > 200) return null;
  let next = right;
  for (const other of obstacles) {
    const isLevel = other.y < bar.y + bar.height && other.y + other.height > bar.y;
    if (isLevel && other !== bar && other.x >= bar.x && other.x + other.width > end) next = Math.min(next, other.x);
  }
  const fits = bar.text.find((t) => t && end + widthOf(t, weightOf(bar)) + 12 <= next);
  return fits ? { text: fits, x: end + 6, isInside: false } : null;
}

const FORMS = {
  dot: ({ x, y }) => ["circle", { cx: round(x), cy: y, r: 5 }],
  diamond: ({ x, y }) => ["path", { d: `M${round(x)} ${y - 6}l6 6-6 6-6-6z` }],
  cross: ({ x, y }) => ["path", { d: `M${round(x) - 5} ${y - 5}l10 10m0-10l-10 10` }],
  square: ({ x, y }) => ["rect", { x: round(x) - 5, y: y - 5, width: 10, height: 10, rx: 1.5 }],
  block: ({ x, y, width, height }) => ["rect", { x: round(x), y, width: round(width), height, rx: 2 }],
  tick: ({ x, y, tall }) => ["rect", { x: round(x) - 1, y: y - (tall ? 7 : 5), width: tall ? 4 : 2.5, height: tall ? 14 : 10, rx: 1 }],
};

export function markShape(m, picked) {
  const [tag, form] = FORMS[m.shape](m);
  return { key: m.key, tag, attrs: { ...form, class: `mark ${m.kind} ${m.shape}`, "data-seq": m.seq, "data-label": m.label, "data-chosen": isPicked(m, picked), "data-near": isNear(m, picked) } };
}

/** A thin line at the time of the chosen entry. */
export function pointFor(chosen, scale, rows, left, right) {
  if (!chosen) return [];
  const x = round(scale.x(chosen.t));
  if (x < left || x > right || !Number.isFinite(x)) return [];
  return [{ key: "chosen", tag: "line", attrs: { class: "chosenline", x1: x, x2: x, y1: 20, y2: rows.height - 4 } }];
}
