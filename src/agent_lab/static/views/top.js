// The bar at the top, the sentence below it, the tabs of a narrow window.

import { h, mark, say, show } from "../h.js";
import { shortId } from "../format.js";
import { context } from "../spent.js";
import { isBusy } from "../store.js";
import { pill, why } from "../why.js";
import { badge } from "./verdicts.js";

const THEMES = ["system", "light", "dark"];
const PANELS = ["conversation", "timeline", "entries", "inspector"];

export function nextTheme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % 3];
  if (next === "system") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    localStorage.setItem("agent-lab.theme", next);
  } catch {
    // The choice then lasts as long as the page.
  }
  document.dispatchEvent(new CustomEvent("theme"));
}

export function createTop(root, sentence, status, tabs, actions, dialogs) {
  const agent = h("select", { "aria-label": "Agent", onchange: () => actions.chooseAgent(agent.value) });
  const session = h("span", { class: "mono" });
  const sessions = h("button", { class: "quiet", type: "button", title: "Sessions (s)", "aria-label": "Sessions", onclick: () => dialogs.open("sessions") }, h("span", { "aria-hidden": "true" }, "☰ "), session);
  const line = h("button", { class: "quiet wide", type: "button", title: "Agents: who runs, who waits (l)", onclick: () => dialogs.open("line") }, "line");
  const state = pillView();
  const link = h("span", { class: "link" }, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { class: "wide" }));
  const verdictText = h("span");
  const verdictMore = h("span", { class: "more-words" });
  const verdict = h("button", { class: "quiet verdict-badge", type: "button", hidden: true, onclick: () => dialogs.open("checking") }, verdictText, verdictMore);
  const spent = h("span", { class: "dim wide spent", title: "What the fullest request filled of the model's context, and what the session cost" });
  const cancel = h("button", { class: "danger", type: "button", title: "Cancel the turn (x)", onclick: () => actions.link.cancel(false) }, "Cancel");
  const drop = h("button", { class: "danger drop", type: "button", title: "Cancel the turn and withdraw what waits (Shift+X)", onclick: () => actions.link.cancel(true) });
  const theme = h("button", { class: "icon theme", type: "button", onclick: () => nextTheme() });
  const help = h("button", { class: "icon help", type: "button", title: "Keys (?)", "aria-label": "Keys", onclick: () => dialogs.open("keys") }, "?");
  show(root, h("h1", { class: "brand" }, "agent_lab"), agent, line, sessions, state.node, h("span", { class: "grow" }), drop, cancel, verdict, spent, link, theme, help);

  const nameTheme = () => {
    const name = document.documentElement.dataset.theme ?? "system";
    say(theme, { system: "◐", light: "☼", dark: "☾" }[name]);
    mark(theme, "aria-label", `Theme: ${name}`);
    mark(theme, "title", `Theme: ${name} (t)`);
  };
  document.addEventListener("theme", nameTheme);
  nameTheme();

  const tabButtons = PANELS.map((name) => h("button", { type: "button", onclick: () => actions.set({ tab: name }) }, name[0].toUpperCase() + name.slice(1)));
  show(tabs, tabButtons);

  let agentsSeen = null;
  let words = "";
  return {
    render(view) {
      const { state: s, ui, now } = view;
      if (agentsSeen !== ui.agents) {
        agentsSeen = ui.agents;
        show(agent, ui.agents.map((a) => h("option", { value: a.name }, a.name)));
      }
      const name = s.session?.agent?.name ?? ui.agent;
      if (name && agent.value !== name) agent.value = name;
      mark(agent, "hidden", !ui.agents.length);
      say(session, s.session ? shortId(s.session.session_id) : "sessions");
      const p = pill(s, view.link, now);
      state.render(p);
      say(status, p.text); // without the ticking time: a screen reader hears changes of state only
      mark(cancel, "hidden", !isBusy(s));
      cancel.disabled = drop.disabled = view.link.state !== "open";
      mark(drop, "hidden", !isBusy(s) || !s.waiting.length);
      say(drop, `Cancel and drop ${s.waiting.length}`);
      say(spent, context(s.spent));
      const b = s.session ? badge(ui.verdicts) : null;
      mark(verdict, "hidden", !b);
      if (b) for (const [name, value] of [["data-tone", b.tone], ["title", b.title]]) mark(verdict, name, value);
      say(verdictText, b?.text ?? "");
      say(verdictMore, b?.more ?? "");
      connection(link, view.link, s);
      const parts = why(s, view.link, now);
      const text = JSON.stringify(parts);
      if (text !== words) show(sentence, parts.map(part));
      words = text;
      mark(sentence, "data-tone", p.tone);
      tabButtons.forEach((button, i) => mark(button, "aria-pressed", String(PANELS[i] === ui.tab)));
    },
  };
}

function part(p) {
  if (typeof p === "string") return p;
  return h(p.strong ? "b" : "span", { class: [p.mono ? "mono" : null, p.tone].filter(Boolean).join(" ") || null }, p.text);
}

function pillView() {
  const icon = h("span", { "aria-hidden": "true" });
  const text = h("span", { class: "what" });
  const time = h("span", { class: "time" });
  const bound = h("span", { class: "bound" });
  const node = h("span", { class: "pill" }, icon, text, time, bound);
  return {
    node,
    render(p) {
      mark(node, "data-tone", p.tone);
      say(icon, p.icon);
      say(text, p.text);
      say(time, p.time ?? "");
      say(bound, p.bound ?? "");
    },
  };
}

function connection(node, link, s) {
  const [tone, text] = link.state === "lost" || link.state === "refused" ? ["bad", "disconnected"]
    : link.state === "connecting" ? ["model", "connecting"]
    : link.isBehind ? ["model", "catching up"]
    : link.state === "open" ? ["ok", "connected"] : ["dim", "closed"];
  mark(node, "hidden", !s.session && link.state === "off"); // the first message opens the line
  mark(node, "data-tone", tone);
  mark(node, "title", text);
  say(node.lastChild, text);
}
