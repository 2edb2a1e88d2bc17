// The windows: keys, the list of sessions, the verdicts on the history, the opening of a history.

import { h, show } from "../h.js";
import { clip, clockTime, count } from "../format.js";
import { KEYS } from "../keys.js";
import { createChecking } from "./checking.js";
import { legend } from "./legend.js";
import { createLine } from "./line.js";
import { createOpening } from "./opening.js";

export function createDialogs(actions) {
  const keys = dialog("Keys", h("dl", { class: "keys" }, KEYS.map(([key, what]) => h("div", null, h("dt", null, h("kbd", null, key)), h("dd", null, what)))), h("h3", null, "Colours and shapes"), legend());
  const list = h("div", { class: "sessions" });
  const fresh = h("button", { class: "primary", type: "button", onclick: () => (sessions.close(), actions.openSession(null)) }, "New session");
  const past = h("button", { type: "button", onclick: () => (sessions.close(), opening.node.showModal()) }, "Open a history …");
  const sessions = dialog("Sessions", list, h("p", { class: "row" }, fresh, past));
  const checking = createChecking(actions, dialog);
  const opening = createOpening(actions, dialog);
  const line = createLine(actions, dialog);
  const windows = { keys, sessions, checking: checking.node, opening: opening.node, line: line.node };
  keys.classList.add("wide");
  document.body.append(...Object.values(windows));

  let seen = null;
  return {
    open(name) {
      if (name === "sessions") actions.loadSessions();
      windows[name].showModal();
      if (name === "line") line.look();
      actions.set({});
    },
    render(view) {
      const { ui, state } = view;
      checking.render(view);
      if (ui.sessions === seen || !sessions.open) return;
      seen = ui.sessions;
      const now = state.session?.session_id;
      if (!seen?.length) return show(list, h("p", { class: "dim" }, "No session yet. The first message opens one."));
      show(list, seen.map((s) => h("button", { type: "button", class: "session", "aria-current": s.session_id === now ? "true" : null, onclick: () => (sessions.close(), s.session_id === now || actions.openSession(s.session_id)) },
        h("span", { class: "title" }, clip(s.title, 80) || "no message yet"),
        h("span", { class: "dim" }, `${STATES[s.state] ?? s.state} · ${s.agent} · ${count(s.turn ?? 0, "turn")} · ${count(s.last_seq ?? 0, "entry", "entries")}${s.started_at ? ` · since ${clockTime(Date.parse(s.started_at))}` : ""}`),
        h("span", { class: "mono dim" }, s.session_id))));
    },
  };
}

const STATES = { running: "◌ running", idle: "○ idle", closed: "■ closed" };

function dialog(title, ...body) {
  const close = h("button", { class: "quiet", type: "button", "aria-label": "Close", onclick: () => node.close() }, "✕");
  const node = h("dialog", { "aria-label": title, onclick: (event) => event.target === node && node.close() },
    h("div", { class: "sheet" }, h("h2", null, title, h("span", { class: "grow" }), close), body));
  return node;
}
