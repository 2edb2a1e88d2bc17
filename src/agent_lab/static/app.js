// Boots the page: token, link, views, and one loop that draws when something changed.

import { h, mark, say } from "./h.js";
import { bindKeys } from "./keys.js";
import { createChecks } from "./checks.js";
import { createLink } from "./link.js";
import { memory, takeToken } from "./memory.js";
import { isBusy, runningTurn } from "./store.js";
import { ticking } from "./format.js";
import { createWatch, merge } from "./watch.js";
import { createAsks } from "./views/asks.js";
import { createConversation } from "./views/conversation.js";
import { createComposer } from "./views/composer.js";
import { createDialogs } from "./views/dialogs.js";
import { createEntries } from "./views/entries.js";
import { createInspector } from "./views/inspector.js";
import { createTimeline } from "./views/timeline.js";
import { createTop } from "./views/top.js";
import { showTokenPage } from "./views/token.js";

const byId = (id) => document.getElementById(id);

function boot(token) {
  const ui = {
    selected: null, //   seq of the chosen entry
    from: null, //       the view in which it was chosen, which need not scroll to it
    pointed: null, //    seq of the entry under the pointer, in whichever view
    pointedFrom: null,
    agents: [], agent: memory.read("agent", null), sessions: null,
    mode: "steer", editing: null, tab: "conversation",
    scope: "turn", zoom: 1, isFollowing: true, turn: null,
    kind: "all", filter: "", verdicts: null,
  };
  let isDue = false;
  const draw = () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(render);
  };
  const link = createLink({ token, onChange: draw, onNotice: toast, onReturned: (text, note) => actions.giveBack(text, note), onRefused: () => (link.state.entries.length ? draw() : showTokenPage("refused")) }); // what was read stays in sight
  const actions = createActions(ui, link, draw);
  actions.watch = createWatch(token);
  const checks = (actions.checks = createChecks(link, draw));
  const dialogs = createDialogs(actions);
  const inspector = createInspector(byId("inspector"), actions);
  actions.copy = inspector.copy;
  const views = [
    createTop(byId("top"), byId("why"), byId("status"), byId("tabs"), actions, dialogs),
    createConversation(byId("conversation"), actions),
    createAsks(byId("conversation"), actions),
    createComposer(byId("conversation"), actions),
    createTimeline(byId("timeline"), actions),
    createEntries(byId("entries"), actions),
    inspector,
    dialogs,
  ];

  const stillness = matchMedia("(prefers-reduced-motion: reduce)");
  let beat = 0;
  let lastTick = 0;
  let lastWhole = -Infinity;
  let isEmpty = true; // what comes first is shown at once
  function render() {
    isDue = false;
    if (!byId("main")) return; // the token page has taken its place
    checks.look(link.state);
    ui.verdicts = checks.verdicts;
    const view = { state: link.state, link: link.link, outbox: link.outbox, ui, now: link.now() };
    mark(byId("main"), "data-tab", ui.tab);
    mark(byId("main"), "data-still", view.link.state === "refused");
    // While thousands of entries come in, the panels are drawn now and then, and the bar always.
    const rest = view.link.isBehind && link.state.session.last_seq - link.state.lastSeq > 5000 ? 1500 : 500;
    const isFlood = view.link.isBehind && !isEmpty && performance.now() - lastWhole < rest;
    if (!isFlood) lastWhole = performance.now();
    isEmpty = !link.state.entries.length;
    for (const part of isFlood ? views.slice(0, 1) : views) part.render(view);
    tick(view.now);
    // A running turn moves, though not at each picture: that would keep a core busy. An idle page costs nothing.
    clearTimeout(beat);
    if (runningTurn(view.state) && !document.hidden && view.link.state !== "refused") beat = setTimeout(draw, stillness.matches ? 250 : 100);
  }

  function tick(now) {
    const stamp = performance.now();
    if (stamp - lastTick < 90) return;
    lastTick = stamp;
    for (const node of document.querySelectorAll("[data-since]")) say(node, ticking(now - Number(node.dataset.since)));
  }

  setInterval(() => (isBusy(link.state) || link.link.state === "lost" || link.state.turns.length) && draw(), 1000);
  document.addEventListener("visibilitychange", draw);
  addEventListener("resize", draw);
  bindKeys(actions, ui, link, dialogs);
  loadAgents(ui, link, draw);
  draw();
}

async function loadAgents(ui, link, draw) {
  const answer = await link.get("/api/agents").catch(() => null);
  if (answer?.status === 401 || answer?.status === 403) return showTokenPage("refused");
  if (!answer?.ok) return setTimeout(() => loadAgents(ui, link, draw), 2000);
  ui.agents = (await answer.json()).agents;
  if (!ui.agents.some((agent) => agent.name === ui.agent)) ui.agent = ui.agents[0]?.name ?? null;
  draw();
}

function createActions(ui, link, draw) {
  let news = []; // told since the list of sessions was asked for
  const set = (fields) => {
    Object.assign(ui, fields);
    draw();
  };
  return {
    set,
    link,
    agents: () => ui.agents,
    agent: () => ui.agent,
    select(seq, from = null) {
      // In a narrow window, where one panel is shown, who taps an entry wants to read it.
      const isNarrow = from === "entries" && matchMedia("(max-width: 760px)").matches;
      set({ selected: seq, from, ...(isNarrow ? { tab: "inspector" } : {}) });
    },
    /** Marks an entry everywhere for as long as the pointer is on it. */
    point(seq, from = null) {
      if (ui.pointed !== seq) set({ pointed: seq, pointedFrom: from });
    },
    send(content, mode) {
      link.send(content, mode, ui.agent);
      set({ isFollowing: true, turn: null });
    },
    /** Puts a text into the composer, behind what is there, and says why. */
    giveBack(text, note = "", caret = text.length) {
      const area = byId("message");
      const active = document.activeElement;
      const before = area.value.trim() && text ? `${area.value}\n` : area.value;
      // Who writes here goes on where he was, who writes in another field stays there.
      const at = active === area && area.value ? area.selectionEnd : before.length + caret;
      area.value = before + text;
      area.dispatchEvent(new CustomEvent("given", { detail: note }));
      if (!active.matches("textarea, input, select") || active.closest(".editor")) area.focus();
      area.setSelectionRange(at, at);
    },
    chooseAgent(name) {
      memory.write("agent", name);
      set({ agent: name });
      if (link.sessionId) this.openSession(null);
    },
    openSession(id) {
      byId("toasts").replaceChildren(); // they were about the session that is left
      set({ selected: null, turn: null, isFollowing: true, editing: null });
      if (id) link.attach(id);
      else link.leave();
    },
    async loadSessions() {
      const mine = (news = []);
      const answer = await link.get("/api/sessions").catch(() => null);
      const found = answer?.ok ? (await answer.json()).sessions : [];
      if (mine === news) set({ sessions: mine.reduce(merge, found) }); // what was told since is newer than the answer
    },
    /** What the server tells of agents and sessions. */
    heard(frame) {
      news.push(frame);
      if (ui.sessions) set({ sessions: merge(ui.sessions, frame) });
      if (frame.gone?.length) this.loadSessions(); // out of memory, and perhaps in the store
      const known = new Set(ui.agents.map((agent) => agent.name));
      if (frame.agents.some((agent) => !known.has(agent.name))) loadAgents(ui, link, draw);
    },
  };
}

/** A short message that goes away by itself; a refused frame says what was wrong with it. */
function toast({ code, message, hint }) {
  const node = h("div", { class: "toast" },
    h("b", null, code ?? "error"), h("span", null, message ?? ""), hint ? h("span", { class: "dim" }, hint) : null,
    h("button", { class: "quiet", type: "button", "aria-label": "Close this message", onclick: () => node.remove() }, "✕"));
  byId("toasts").append(node);
  setTimeout(() => node.remove(), 9000);
}

const token = takeToken();
// Another address with a token, pasted into this tab, is taken at once.
addEventListener("hashchange", () => location.hash.includes("token=") && (takeToken(), location.reload()));
if (token) boot(token);
else showTokenPage("missing");
