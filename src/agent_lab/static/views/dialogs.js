// The windows: keys, the list of sessions, the verdicts on the history, the opening of a history.

import { h, keyed, mark, say } from "../h.js";
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
  const none = h("p", { class: "dim", hidden: true }, "No session yet. The first message opens one.");
  const agents = h("button", { type: "button", onclick: () => (sessions.close(), windows.line.showModal(), line.open()) }, "Agents and their line");
  const sessions = dialog("Sessions", none, list, h("p", { class: "row" }, fresh, past, agents));
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
      if (name === "sessions") actions.watch.follow(sessions, (frame) => actions.heard(frame), () => {});
      windows[name].showModal();
      if (name === "line") line.open();
      actions.set({});
    },
    render(view) {
      const { ui, state } = view;
      checking.render(view);
      if (ui.sessions === seen || !sessions.open) return;
      seen = ui.sessions;
      const now = state.session?.session_id;
      none.hidden = seen.length > 0;
      for (const part of keyed(list, seen, (s) => s.session_id, (s) => sessionView(s, choose)).values()) mark(part.node, "aria-current", part.item.session_id === now ? "true" : null);
    },
  };

  function choose(id) {
    sessions.close();
    if (id !== actions.link.sessionId) actions.openSession(id);
  }
}

function sessionView(session, choose) {
  const title = h("span", { class: "title" });
  const facts = h("span", { class: "dim" });
  const node = h("button", { type: "button", class: "session", onclick: () => choose(session.session_id) }, title, facts, h("span", { class: "mono dim" }, session.session_id));
  const update = (s) => {
    say(title, clip(s.title, 80) || "no message yet");
    say(facts, `${STATES[s.state] ?? s.state} · ${s.agent} · ${count(s.turn ?? 0, "turn")} · ${count(s.last_seq ?? 0, "entry", "entries")}${s.started_at ? ` · since ${clockTime(Date.parse(s.started_at))}` : ""}`);
  };
  update(session);
  return { node, update };
}

const STATES = { running: "◌ running", idle: "○ idle", closed: "■ closed" };

function dialog(title, ...body) {
  const close = h("button", { class: "quiet", type: "button", "aria-label": "Close", onclick: () => node.close() }, "✕");
  const node = h("dialog", { "aria-label": title, onclick: (event) => event.target === node && node.close() },
    h("div", { class: "sheet" }, h("h2", null, title, h("span", { class: "grow" }), close), body));
  return node;
}
