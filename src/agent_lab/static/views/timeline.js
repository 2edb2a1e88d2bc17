// The timeline: one row for each place a message can be, time to the right.

import { h, mark, s, say } from "../h.js";
import { count, duration, span } from "../format.js";
import { entryAt, runningTurn } from "../store.js";
import { axisTicks, createScale, windowOf } from "../timescale.js";
import { layout } from "../track.js";
import { createSample } from "./legend.js";
import { LABELS, namesOf, paint } from "./paint.js";
import { bindPointing } from "./pointing.js";
import { arrowShape, axisShapes, barShapes, defs, markShape, pointFor, rowShapes } from "./shapes.js";

export function createTimeline(root, actions) {
  const title = h("span", { class: "dim range" });
  const turnBack = h("button", { class: "icon", type: "button", title: "Turn before ([)", "aria-label": "Turn before" }, "‹");
  const turnOn = h("button", { class: "icon", type: "button", title: "Turn after (])", "aria-label": "Turn after" }, "›");
  const scopes = ["turn", "session"].map((scope) => h("button", { type: "button", title: "One turn or all (a)", onclick: () => actions.set({ scope, zoom: 1 }) }, scope));
  const zooms = [["−", 1 / 1.5, "Zoom out (−)"], ["+", 1.5, "Zoom in (+)"]].map(([text, by, name]) => h("button", { type: "button", title: name, "aria-label": name, onclick: () => zoomBy(by) }, text));
  const follow = h("button", { class: "toggle", type: "button", title: "Keep now in view (f)", onclick: () => actions.set({ isFollowing: !last.ui.isFollowing, turn: null }) }, "follow");
  const names = s("svg", { class: "names", "aria-hidden": "true" });
  const plot = s("svg", { class: "plot", role: "img", "aria-label": "Queues and workers over time" });
  document.body.append(s("svg", { class: "unseen", "aria-hidden": "true" }, defs())); // for every picture of the page
  const layers = ["rows", "arrows", "bars", "marks", "now"].map((name) => s("g", { class: name }));
  plot.append(...layers);
  const spacer = h("div", { class: "spacer" }, plot);
  const scroll = h("div", { class: "track", tabindex: "0", "data-keys": "own", "aria-label": "Timeline: arrow left and right choose entries, with Shift they move the picture" }, spacer);
  const sample = createSample();
  const tooltip = h("div", { class: "tooltip", hidden: true });
  root.append(
    h("h2", null, "Timeline", title, h("span", { class: "grow" }), turnBack, turnOn, h("span", { class: "seg" }, scopes), h("span", { class: "seg" }, zooms), follow),
    h("div", { class: "canvas" }, names, scroll), sample.node, tooltip);
  turnBack.addEventListener("click", () => goTurn(-1));
  turnOn.addEventListener("click", () => goTurn(1));

  let last = null;
  let left = 0;
  let width = 0; // kept, because asking for it makes the browser lay the page out at once
  new ResizeObserver(([box]) => {
    width = Math.max(0, Math.floor(box.contentRect.width) - LABELS);
    actions.set({});
  }).observe(root);
  scroll.addEventListener("scroll", () => {
    if (scroll.scrollLeft === left) return;
    left = scroll.scrollLeft;
    actions.set(isAtNow() ? {} : { isFollowing: false });
  });
  bindPointing(scroll, plot, { select: (seq) => actions.select(seq, "timeline"), hover, zoom: zoomBy });
  scroll.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    if (event.shiftKey) return (scroll.scrollLeft += by * width * 0.25);
    const { entries } = last.state;
    const at = last.ui.selected === null ? entries.length : entries.indexOf(entryAt(last.state, last.ui.selected));
    const next = entries[Math.min(entries.length - 1, Math.max(0, at + by))];
    if (next) actions.select(next.seq);
  });

  const isAtNow = () => last?.nowX === undefined || (last.nowX >= left && last.nowX <= left + width);

  function zoomBy(by, at = width / 2) {
    const zoom = Math.min(200, Math.max(1, last.ui.zoom * by));
    keep = { share: (left + at) / (width * last.ui.zoom), at };
    actions.set({ zoom });
  }
  let keep = null;

  function goTurn(by) {
    const { turns } = last.state;
    const to = turns[turns.findIndex((turn) => turn.n === last.shownTurn?.n) + by];
    if (to) actions.set({ turn: to === turns.at(-1) ? null : to.n, isFollowing: to === turns.at(-1), scope: "turn" });
  }

  function hover(node, event) {
    actions.point(node?.dataset.seq ? Number(node.dataset.seq) : null, "timeline");
    tooltip.hidden = !node;
    if (!node) return;
    say(tooltip, node.dataset.label);
    const box = root.getBoundingClientRect();
    const x = Math.min(event.clientX - box.left + 12, box.width - tooltip.offsetWidth - 8);
    tooltip.style.transform = `translate(${Math.max(4, x)}px, ${event.clientY - box.top + 16}px)`;
  }

  /** The turn that is shown: the chosen entry's, one gone to with [ and ], or the latest. */
  function turnOf({ state, ui }) {
    if (ui.turn !== null) return state.turns.find((turn) => turn.n === ui.turn) ?? state.turns.at(-1);
    if (ui.selected !== null && !(ui.isFollowing && runningTurn(state))) {
      const n = turnNumber(state, entryAt(state, ui.selected));
      return state.turns.find((turn) => turn.n === n) ?? state.turns.at(-1);
    }
    return state.turns.at(-1);
  }

  let seen = {};
  function render(view) {
    const { state, ui, now } = view;
    const isLive = runningTurn(state) !== null;
    const isSame = seen.state === state && seen.width === width && seen.left === left && seen.ui === uiKey(ui) && !isLive;
    if (isSame || !width) return;
    seen = { state, width, left, ui: uiKey(ui) };
    const turn = turnOf(view);
    const window = windowOf(state, { scope: ui.scope, turn, now });
    sample.node.hidden = window !== null;
    if (!window) sample.draw(width + LABELS - 28);
    names.parentNode.hidden = window === null;
    scopes.forEach((button, i) => mark(button, "aria-pressed", String(["turn", "session"][i] === ui.scope)));
    mark(follow, "aria-pressed", String(ui.isFollowing));
    const at = state.turns.indexOf(turn);
    turnBack.disabled = at <= 0;
    turnOn.disabled = at < 0 || at === state.turns.length - 1;
    last = { state, ui: { ...ui }, shownTurn: turn };
    if (!window) return say(title, "");
    say(title, heading(state, turn, ui.scope, now));
    draw(view, window, turn, isLive);
  }

  function draw({ state, ui, now }, window, turn, isLive) {
    const full = Math.round(width * ui.zoom);
    const scale = createScale(window, full);
    const isNowShown = isLive && (ui.scope === "session" || turn.endAt === null);
    spacer.style.width = `${full}px`;
    if (keep) {
      scroll.scrollLeft = left = Math.max(0, keep.share * full - keep.at);
      keep = null;
    } else if (isNowShown && ui.isFollowing && ui.zoom > 1) scroll.scrollLeft = left = Math.max(0, scale.x(now) - width * 0.8);
    last.nowX = isNowShown ? scale.x(now) : undefined;
    const chosen = ui.selected === null ? null : entryAt(state, ui.selected);
    const right = left + width;
    const shapes = layout(state, { scale, now, left, right, turn: ui.scope === "turn" ? turn : null, ref: chosen?.ref });
    const { rows } = shapes;
    mark(plot, "width", width);
    mark(plot, "height", rows.height);
    mark(names, "height", rows.height);
    mark(plot, "viewBox", `${left} 0 ${width} ${rows.height}`);
    const near = ui.pointed === null ? null : entryAt(state, ui.pointed);
    const picked = { seq: ui.selected, ref: chosen?.ref ?? null, near: near?.ref ?? null };
    paint(layers[0], [...rowShapes(rows, left, right), ...axisShapes(axis(state, scale, ui.scope, turn, left, right), rows), ...gaps(state, scale, rows, left, right), ...pointFor(chosen, scale, rows, left, right)]);
    paint(layers[1], shapes.arrows.flatMap((arrow) => arrowShape(arrow, picked)));
    const obstacles = [...shapes.bars, ...shapes.marks.filter((m) => m.shape === "block"), ...edges(state, scale, ui.scope, rows)];
    paint(layers[2], shapes.bars.flatMap((bar) => barShapes(bar, obstacles, picked, left, right)));
    paint(layers[3], shapes.marks.map((m) => markShape(m, picked)));
    paint(layers[4], isNowShown ? nowShapes(scale.x(now), rows) : []);
    paint(names, namesOf(rows, state));
  }

  return { render };
}

const uiKey = (ui) => `${ui.selected} ${ui.pointed} ${ui.scope} ${ui.zoom} ${ui.isFollowing} ${ui.turn} ${ui.tab}`;

/** An accepted message has no turn of its own yet: it belongs to the one that begins with it. */
function turnNumber(state, x) {
  if (!x) return null;
  const message = x.ref?.startsWith("m:") ? state.messages.get(x.ref.slice(2)) : null;
  return x.e.turn ?? message?.turn ?? null;
}

function heading(state, turn, scope, now) {
  if (scope === "session") {
    const from = state.entries[0].t;
    return `${count(state.turns.length, "turn")} · ${span((runningTurn(state) ? now : state.entries.at(-1).t) - from)}, idle times folded`;
  }
  return turn ? `turn ${turn.n} · ${duration((turn.endAt ?? now) - turn.startAt)}` : "";
}

/** Where entries are missing, that is said in the picture too. */
function gaps(state, scale, rows, left, right) {
  return state.gaps.flatMap((gap) => {
    const behind = entryAt(state, gap.to + 1);
    const x = behind ? Math.round(scale.x(behind.t)) : -1;
    if (x < left || x > right) return [];
    return [
      { key: `gap ${gap.from}`, tag: "line", attrs: { class: "gapline", x1: x, x2: x, y1: 20, y2: rows.height - 4 } },
      { key: `gaptext ${gap.from}`, tag: "text", attrs: { class: "gaptext", x: x + 5, y: rows.you.middle + 4 }, text: `⋯ ${gap.from} to ${gap.to} are not kept` },
    ];
  });
}

function axis(state, scale, scope, turn, left, right) {
  const found = { ticks: [], folds: [], turns: [] };
  for (const piece of scale.pieces) {
    if (piece.x1 < left - 60 || piece.x0 > right + 60) continue;
    if (piece.isFold) {
      found.folds.push({ x0: piece.x0, x1: piece.x1, text: span(piece.t1 - piece.t0) });
      continue;
    }
    const zero = scope === "turn" ? (turn?.startAt ?? piece.t0) : piece.t0;
    if (piece.x1 - piece.x0 < 40) continue;
    for (const tick of axisTicks(piece, zero, scale.perMs)) {
      const x = scale.x(tick.t);
      if (x > left - 60 && x < right + 60) found.ticks.push({ x, text: tick.label });
    }
  }
  if (scope === "session") for (const t of state.turns) {
    const x = scale.x(t.startAt);
    if (x >= left - 60 && x <= right) found.turns.push({ x, n: t.n });
  }
  return found;
}

/** Where a turn begins and where time is folded: no label runs on from one turn into another. */
function edges(state, scale, scope, rows) {
  const wall = (x, width) => ({ x, y: 0, width: Math.max(width, 1), height: rows.height });
  const turns = scope === "session" ? state.turns.slice(1).map((turn) => wall(scale.x(turn.startAt), 1)) : [];
  return [...turns, ...scale.pieces.filter((piece) => piece.isFold).map((piece) => wall(piece.x0, piece.x1 - piece.x0))];
}

function nowShapes(x, rows) {
  return [
    { key: "now", tag: "line", attrs: { class: "nowline", x1: x, x2: x, y1: 20, y2: rows.height - 6 } },
    { key: "nowtext", tag: "text", attrs: { class: "nowtext", x: x + 4, y: 32 }, text: "now" },
  ];
}
