// The journal, one line an entry. Only the rows in sight are in the page, so 50,000 are fine.

import { h, keyed, mark, say } from "../h.js";
import { createFilter, KINDS, line, tone } from "../filter.js";
import { entryAt } from "../store.js";

const ROW = 26;
const CHIPS = ["all", ...Object.keys(KINDS)];

export function createEntries(root, actions) {
  const chips = CHIPS.map((kind) => h("button", { type: "button", class: "chip", onclick: () => actions.set({ kind }) }, kind));
  const filter = h("input", { id: "filter", type: "search", "aria-label": "Filter", placeholder: "type:tool_* call_2", autocomplete: "off", spellcheck: "false", oninput: () => actions.set({ filter: filter.value }) });
  const found = h("span", { class: "dim found" });
  const rows = h("div", { class: "rows" });
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
  let height = 0; // kept, because asking for it makes the browser lay the page out at once
  new ResizeObserver(([box]) => {
    height = box.contentRect.height;
    if (isAtTail) list.scrollTop = shown.length * ROW;
    if (last.view) window(last.view);
  }).observe(list);
  list.addEventListener("scroll", () => {
    isAtTail = list.scrollHeight - list.scrollTop - list.clientHeight < ROW;
    if (last.view) window(last.view);
  });
  rows.addEventListener("pointerdown", (event) => {
    const row = event.target.closest("[data-seq]");
    if (row) actions.select(Number(row.dataset.seq), "entries");
  });
  rows.addEventListener("pointerover", (event) => actions.point(Number(event.target.closest("[data-seq]")?.dataset.seq) || null, "entries"));
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
    const top = at * ROW;
    if (top < list.scrollTop) list.scrollTop = top - ROW;
    else if (top + ROW > list.scrollTop + height) list.scrollTop = top + 2 * ROW - height;
  }

  function render(view) {
    const { state, ui } = view;
    const isFiltered = last.kind !== ui.kind || last.filter !== ui.filter;
    const isNew = last.entries !== state.entries || isFiltered;
    if (isNew) {
      shown = sieve(state.entries, ui.kind, ui.filter);
      rows.style.height = `${shown.length * ROW}px`;
      columns(state);
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
    if ((isNew || isChosen) && isAtTail && !back) list.scrollTop = shown.length * ROW;
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
        back ??= { top: list.scrollTop, isAtTail };
        reveal(ui.pointed);
      }, 120);
    } else if (back) {
      list.scrollTop = back.isAtTail ? shown.length * ROW : back.top;
      back = null;
    }
  }

  /** As wide as the longest time and turn need. */
  function columns(state) {
    const end = state.entries.at(-1);
    if (!end) return;
    list.style.setProperty("--at", `${Math.max(6, moment(end.t - state.entries[0].t).length)}ch`);
    list.style.setProperty("--step", `${Math.max(3, where(longestStep(state)).length)}ch`);
    list.style.setProperty("--type", state.counts.permission_requested ? "20ch" : "15ch");
    list.style.setProperty("--seq", `${Math.max(3, String(end.seq).length)}ch`);
  }

  function window({ state, ui }) {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 6);
    const upTo = Math.min(shown.length, first + Math.ceil(height / ROW) + 12);
    const refOf = (seq) => (seq === null ? null : (entryAt(state, seq)?.ref ?? null));
    const [ref, near] = [refOf(ui.selected), refOf(ui.pointed)];
    const start = state.entries[0]?.t ?? 0;
    const made = keyed(rows, shown.slice(first, upTo), (x) => x.seq, (x) => row(x, start));
    let at = first;
    for (const part of made.values()) {
      const { item } = part;
      const gap = state.gaps.length ? state.gaps.find((g) => g.to === item.seq - 1) : null;
      const how = item.seq === ui.selected ? "chosen" : ref !== null && item.ref === ref ? "related" : "";
      const pointed = item.seq === ui.pointed ? "entry" : near !== null && item.ref === near ? "ref" : null;
      dress(part, { at, how, pointed, gap, size: shown.length });
      at++;
    }
    mark(list, "aria-activedescendant", ui.selected !== null && made.has(ui.selected) ? `entry-${ui.selected}` : null);
  }

  return { render };
}

/** A row is touched only where it has changed: most have not when the list is scrolled. */
function dress(part, { at, how, pointed, gap, size }) {
  const { node } = part;
  const key = `${at} ${how} ${pointed} ${gap?.from} ${size}`;
  if (part.dressed === key) return;
  part.dressed = key;
  node.style.transform = `translateY(${at * ROW}px)`;
  mark(node, "aria-selected", String(how === "chosen"));
  mark(node, "aria-posinset", at + 1);
  mark(node, "aria-setsize", size);
  mark(node, "data-gap", gap ? `${gap.from} to ${gap.to} are not kept` : null);
  mark(node, "data-related", how !== "");
  mark(node, "data-near", pointed);
}

const where = (e) => (e?.turn ? `${e.turn}${e.step ? `.${e.step}` : ""}` : "");

const longestStep = (state) => state.models.reduce((a, b) => (where(b).length > where(a).length ? b : a), state.models.at(-1));

function row({ e, t, seq }, start) {
  const node = h("div", { class: "entry", role: "option", id: `entry-${seq}`, "data-seq": seq, title: e.at },
    h("span", { class: "seq" }, seq), h("span", { class: "dim at" }, moment(t - start)), h("span", { class: "dim step", title: e.turn ? "turn.step" : null }, where(e)),
    h("span", { class: `type ${tone(e)}` }, e.type), h("span", { class: "what" }, line(e)));
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
