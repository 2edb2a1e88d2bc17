// Keys for everything; each is listed under "?".

import { entryAt, isBusy } from "./store.js";
import { nextTheme } from "./views/top.js";

export const KEYS = [
  ["m", "write a message"],
  ["Enter", "send it; Shift+Enter is a new line"],
  ["Alt+1, 2, 3, 4", "steer, follow up, interrupt, reject"],
  ["g", "go to what asks or is paused"],
  ["x", "cancel the turn"],
  ["Shift+X", "cancel the turn and drop what waits"],
  ["↑ ↓ or k j", "entry before, entry after"],
  ["Home End", "first entry, last entry"],
  ["/", "filter the entries"],
  ["i", "read the chosen entry in the inspector"],
  ["c, Shift+C, p", "copy the chosen entry as JSON, curl, Python"],
  ["e, w", "edit, withdraw the message that waits longest"],
  ["[ ]", "turn before, turn after"],
  ["a", "one turn or the whole session"],
  ["+ − 0", "zoom the timeline in, out, fit; Ctrl+wheel does it too"],
  ["Shift+← →", "move the timeline; dragging does it too"],
  ["f", "follow what happens now"],
  ["v", "would a provider accept this history? explain an error"],
  ["s", "sessions"],
  ["l", "agents: who runs, who waits, what was asked"],
  ["o", "open a history"],
  ["n", "new session"],
  ["t", "theme: system, light, dark"],
  ["Esc", "leave a field, close a window, choose nothing"],
];

const FIELDS = "textarea, input, select";
const QUIET = 1000; // ms

/**
 * Whether a key was meant for a field that went away while somebody typed in it: so is each that
 * comes within a second of the one before. A field that was left is still there and loses nothing.
 */
function lostField() {
  let field = null;
  let at = -Infinity;
  const note = (event) => {
    if (!event.target.matches?.(FIELDS)) return;
    field = event.target;
    at = performance.now();
  };
  for (const type of ["focusin", "focusout", "keydown", "input"]) document.addEventListener(type, note, true);
  document.addEventListener("pointerdown", () => (field = null), true); // who clicks is not typing
  return () => {
    if (!field || field.checkVisibility() || performance.now() - at > QUIET) return false;
    at = performance.now();
    return true;
  };
}

export function bindKeys(actions, ui, link, dialogs) {
  /** At once, or what is typed next would be taken for commands. */
  const go = (tab, selector) => {
    actions.set({ tab });
    document.getElementById("main").dataset.tab = tab;
    document.querySelector(selector)?.focus();
  };
  const turnBy = (step) => {
    const turns = link.state.turns;
    if (!turns.length) return;
    const at = ui.turn === null ? turns.length - 1 : turns.findIndex((turn) => turn.n === ui.turn);
    const to = Math.min(turns.length - 1, Math.max(0, at + step));
    actions.set({ turn: to === turns.length - 1 ? null : turns[to].n, isFollowing: to === turns.length - 1, scope: "turn" });
  };
  const waits = () => link.state.waiting[0];
  const pan = (by) => {
    const track = document.querySelector(".track");
    track.scrollLeft += (by * track.clientWidth) / 4;
  };
  const zoom = (factor) => actions.set({ zoom: factor ? Math.min(200, Math.max(1, ui.zoom * factor)) : 1 });
  const commands = {
    m: () => go("conversation", "#message"),
    g: () => go("conversation", ".asks .decide"),
    x: () => isBusy(link.state) && link.cancel(false),
    X: () => isBusy(link.state) && link.cancel(true),
    "/": () => go("entries", "#filter"),
    i: () => go("inspector", "#inspector .body"),
    c: () => actions.copy(0),
    C: () => actions.copy(1),
    p: () => actions.copy(2),
    e: () => waits() && actions.set({ tab: "conversation", editing: waits() }),
    w: () => waits() && link.withdraw(waits()),
    "[": () => turnBy(-1),
    "]": () => turnBy(1),
    a: () => actions.set({ scope: ui.scope === "turn" ? "session" : "turn" }),
    "+": () => zoom(1.5),
    "=": () => zoom(1.5),
    "-": () => zoom(1 / 1.5),
    0: () => zoom(0),
    f: () => actions.set({ isFollowing: !ui.isFollowing, turn: null }),
    v: () => dialogs.open("checking"),
    o: () => dialogs.open("opening"),
    s: () => dialogs.open("sessions"),
    l: () => dialogs.open("line"),
    n: () => actions.openSession(null),
    t: () => nextTheme(actions),
    "?": () => dialogs.open("keys"),
    Escape: () => actions.select(null),
    j: () => step(1),
    k: () => step(-1),
    ArrowLeft: (event) => event.shiftKey && pan(-1),
    ArrowRight: (event) => event.shiftKey && pan(1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    Home: () => actions.select(link.state.entries[0]?.seq ?? null),
    End: () => actions.select(link.state.entries.at(-1)?.seq ?? null),
  };
  function step(by) {
    const { entries } = link.state;
    if (!entries.length) return;
    const now = ui.selected === null ? null : entryAt(link.state, ui.selected);
    const at = now ? entries.indexOf(now) + by : entries.length - 1;
    actions.select(entries[Math.min(entries.length - 1, Math.max(0, at))].seq);
  }
  const isLost = lostField();
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (event.key === "Escape" && target.closest(FIELDS)) return target.blur();
    if (target.closest(`${FIELDS}, dialog`)) return;
    if (isLost()) return event.preventDefault();
    // A scrolled panel keeps its own arrow keys; the entries list and the page body move the choice.
    if (/^(Arrow|Home|End)/.test(event.key) && target.closest("[data-keys=own]")) return;
    // Caps Lock alone does not make x the key that also drops what waits.
    const key = /^[a-z]$/i.test(event.key) ? (event.shiftKey ? event.key.toUpperCase() : event.key.toLowerCase()) : event.key;
    const command = commands[key];
    if (!command) return;
    event.preventDefault();
    command(event);
  });
}
