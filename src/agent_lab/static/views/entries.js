// The journal, one line an entry. Only the rows near what is in sight are in the page, so 50,000 are fine.

import { h, keyed, mark, say } from "../h.js";
import { createFilter, KINDS, line, tone } from "../filter.js";
import { entryAt } from "../store.js";

const ROW = 26; // px, as in the style
// Rows come and go by so many at once: in between, a scroll is the compositor's alone and costs no script,
// no layout and no paint.
const BLOCK = 12;
const CHIPS = ["all", ...Object.keys(KINDS)];

export function createEntries(root, actions) {
  const chips = CHIPS.map((kind) => h("button", { type: "button", class: "chip", onclick: () => actions.set({ kind }) }, kind));
  const filter = h("input", { id: "filter", type: "search", "aria-label": "Filter", placeholder: "type:tool_* call_2", autocomplete: "off", spellcheck: "false", oninput: () => actions.set({ filter: filter.value }) });
  const found = h("span", { class: "dim found" });
  const near = h("div", { class: "near" });
  const rows = h("div", { class: "rows" }, near);
  const list = h("div", { class: "list mono", tabindex: "0", role: "listbox", "aria-label": "Entries", "data-keys": "own" }, rows);
  const empty = h("p", { class: "empty dim" });
  root.append(h("h2", null, "Entries", found, h("span", { class: "chips", role: "group", "aria-label": "Kinds" }, chips), h("span", { class: "grow" }), filter), list, empty);

  const sieve = createFilter();
  let shown = [];
  let isAtTail = true;
  let last = {};
  let pointed = null; // as last drawn
  let glancing = 0;
  let back = null; // where the list stood before it went along with the pointer
  // Kept, because asking for them makes the browser lay the page out at once.
  let height = 0;
  let top = 0;
  let block = -1; // the first block of rows in the page
  let widths = { seq: 0, at: 0, step: 0, type: 0 };
  let movedAt = -Infinity;
  const sizes = new ResizeObserver((boxes) => {
    for (const box of boxes) if (box.target === list) height = box.contentRect.height;
    if (isAtTail && !back) list.scrollTop = top = tail();
    if (last.view && blockAt(top) !== block) window(last.view);
  });
  sizes.observe(list);
  sizes.observe(rows);
  list.addEventListener("scroll", () => {
    movedAt = performance.now();
    top = list.scrollTop;
    isAtTail = shown.length * ROW - top - height < ROW;
    if (last.view && blockAt(top) !== block) window(last.view);
  });
  rows.addEventListener("pointerdown", (event) => {
    const row = event.target.closest("[data-seq]");
    if (row) actions.select(Number(row.dataset.seq), "entries");
  });
  // Rows that run under a resting pointer are not pointed at.
  rows.addEventListener("pointerover", (event) => performance.now() - movedAt > 150 && actions.point(Number(event.target.closest("[data-seq]")?.dataset.seq) || null, "entries"));
  rows.addEventListener("pointerleave", () => actions.point(null));
  list.addEventListener("keydown", (event) => {
    if (event.key === "Enter") return actions.set({ tab: "inspector" });
    const page = Math.max(1, Math.floor(height / ROW) - 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity, j: 1, k: -1 }[event.key];
    if (by === undefined || !shown.length) return;
    event.preventDefault();
    const now = indexOf(last.view.ui.selected);
    const to = Math.min(shown.length - 1, Math.max(0, now < 0 && by !== -Infinity ? shown.length - 1 : now + by));
    actions.select(shown[to].seq);
  });

  const tail = () => Math.max(0, shown.length * ROW - height);

  function go(to) {
    list.scrollTop = to;
    top = list.scrollTop;
  }

  /** The row of a seq among those shown, or of the first one after it; -1 without one. */
  function indexOf(seq) {
    if (seq === null) return -1;
    let low = 0;
    let high = shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (shown[middle].seq < seq) low = middle + 1;
      else high = middle;
    }
    return low < shown.length ? low : -1;
  }

  function reveal(seq) {
    const at = indexOf(seq);
    if (at < 0) return;
    const y = at * ROW;
    if (y < top) go(y - ROW);
    else if (y + ROW > top + height) go(y + 2 * ROW - height);
  }

  function render(view) {
    const { state, ui } = view;
    const isFiltered = last.kind !== ui.kind || last.filter !== ui.filter;
    const isNew = last.entries !== state.entries || isFiltered;
    if (isNew) {
      shown = sieve(state.entries, ui.kind, ui.filter);
      rows.style.height = `${shown.length * ROW}px`;
      widths = widthsOf(state);
      const all = state.entries.length.toLocaleString("en");
      say(found, shown.length === state.entries.length ? all : `${shown.length.toLocaleString("en")} of ${all}`);
      empty.hidden = shown.length > 0;
      say(empty, state.entries.length ? "No entry fits this filter. Words are searched for in each line; type:, turn:, step:, call:, tool:, queue: and message: take * as any text, and - before a word turns it round." : "Each put, take, call and reply will be a line here.");
      chips.forEach((chip, i) => mark(chip, "aria-pressed", String(CHIPS[i] === ui.kind)));
      if (document.activeElement !== filter && filter.value !== ui.filter) filter.value = ui.filter;
    }
    const isChosen = last.selected !== ui.selected;
    // Who chose an entry wants to read it; scrolling to the end follows again.
    if (isChosen) isAtTail = ui.selected === null;
    if (isChosen) back = null;
    // Where rows were added, the list is scrolled when they have been laid out.
    if (isChosen && isAtTail && !back) go(tail());
    else if (isNew && isAtTail && !back) top = tail();
    last = { entries: state.entries, kind: ui.kind, filter: ui.filter, selected: ui.selected, view };
    if (ui.selected !== null && (isChosen ? ui.from !== "entries" : isFiltered)) reveal(ui.selected);
    if (ui.pointed !== pointed) glance(view);
    if (isNew || isChosen || ui.pointed !== pointed) window(view);
    pointed = ui.pointed;
  }

  /** What the timeline's pointer is on comes into sight, and the list goes back when it has left. */
  function glance({ ui }) {
    clearTimeout(glancing);
    if (ui.pointed !== null && ui.pointedFrom === "timeline") {
      glancing = setTimeout(() => {
        back ??= { top, isAtTail };
        reveal(ui.pointed);
      }, 120);
    } else if (back) {
      go(back.isAtTail ? tail() : back.top);
      back = null;
    }
  }

  const blockAt = (y) => Math.max(0, Math.floor(y / ROW / BLOCK) - 1);

  function window({ state, ui }) {
    block = blockAt(top);
    const first = block * BLOCK;
    const upTo = Math.min(shown.length, first + (Math.ceil(height / ROW / BLOCK) + 3) * BLOCK);
    const refOf = (seq) => (seq === null ? null : (entryAt(state, seq)?.ref ?? null));
    const [ref, beside] = [refOf(ui.selected), refOf(ui.pointed)];
    const start = state.entries[0]?.t ?? 0;
    const { seq, at, step, type } = widths;
    const width = `${start} ${seq} ${at} ${step} ${type}`;
    near.style.top = `${first * ROW}px`;
    const made = keyed(near, shown.slice(first, upTo), (x) => `${x.seq} ${width}`, (x) => row(x, start, widths));
    let place = first;
    for (const part of made.values()) {
      const { item } = part;
      const gap = state.gaps.length ? state.gaps.find((g) => g.to === item.seq - 1) : null;
      const how = item.seq === ui.selected ? "chosen" : ref !== null && item.ref === ref ? "related" : "";
      const pointed = item.seq === ui.pointed ? "entry" : beside !== null && item.ref === beside ? "ref" : null;
      dress(part, { at: place, how, pointed, gap, size: shown.length });
      place++;
    }
    mark(list, "aria-activedescendant", ui.selected !== null && made.has(`${ui.selected} ${width}`) ? `entry-${ui.selected}` : null);
  }

  return { render };
}

/** A row is touched only where it has changed: most have not when the list is scrolled. */
function dress(part, { at, how, pointed, gap, size }) {
  const { node } = part;
  const key = `${at} ${how} ${pointed} ${gap?.from} ${size}`;
  if (part.dressed === key) return;
  part.dressed = key;
  mark(node, "aria-selected", String(how === "chosen"));
  mark(node, "aria-posinset", at + 1);
  mark(node, "aria-setsize", size);
  mark(node, "data-gap", gap ? `${gap.from} to ${gap.to} are not kept` : null);
  mark(node, "data-related", how !== "");
  mark(node, "data-near", pointed);
}

const where = (e) => (e?.turn ? `${e.turn}${e.step ? `.${e.step}` : ""}` : "");

const longestStep = (state) => state.models.reduce((a, b) => (where(b).length > where(a).length ? b : a), state.models.at(-1));

/** As many letters as the longest number, time, turn and type need. */
function widthsOf(state) {
  const { entries } = state;
  const end = entries.at(-1);
  if (!end) return { seq: 0, at: 0, step: 0, type: 0 };
  return {
    seq: Math.max(3, String(end.seq).length),
    at: Math.max(6, moment(end.t - entries[0].t).length),
    step: Math.max(3, where(longestStep(state)).length),
    type: state.counts.permission_requested ? 20 : 14,
  };
}

/** Columns are made of spaces: a grid, and a clip for each cell, cost five times as much to draw. */
function row({ e, t, seq }, start, widths) {
  const space = "  ";
  const node = h("div", { class: "entry", role: "option", id: `entry-${seq}`, "data-seq": seq, title: e.at },
    h("span", { class: "dim" }, String(seq).padStart(widths.seq), space, moment(t - start).padStart(widths.at), space),
    h("span", { class: "dim step" }, where(e).padEnd(widths.step), space),
    h("span", { class: `type ${tone(e)}` }, e.type.padEnd(widths.type)), space, line(e));
  return { node, update: () => {} };
}

/** Since the first entry: 0.942 · 1:40.123 · 2:46:40.123 */
function moment(ms) {
  const seconds = (ms % 60_000) / 1000;
  if (ms < 60_000) return seconds.toFixed(3);
  const minutes = Math.floor(ms / 60_000);
  const rest = seconds.toFixed(3).padStart(6, "0");
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}
