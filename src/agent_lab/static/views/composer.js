// The composer works at any time, and says before the message is sent when it will be delivered.

import { h, mark, say } from "../h.js";
import { memory } from "../memory.js";
import { openCalls, runningTurn } from "../store.js";
import { promise } from "../why.js";
import { DEMO_AGENT } from "./welcome.js";

const MODES = [
  ["steer", "steer", "goes in as soon as the open calls have replied"],
  ["follow_up", "follow up", "goes in after this turn, as the next one"],
  ["interrupt", "interrupt", "stops what runs, then goes in"],
  ["reject", "reject", "goes in only if nothing runs, and is refused otherwise"],
];
const LONGEST = 1_000_000;

export function createComposer(root, actions) {
  const area = h("textarea", { id: "message", "aria-label": "Message", rows: "2", placeholder: "Write a message", value: memory.read("draft", "") });
  const modes = MODES.map(([mode, text, title], i) => h("button", { type: "button", title: `${title} (Alt+${i + 1})`, onclick: () => actions.set({ mode }) }, text));
  const hint = h("span", { class: "promise" });
  const send = h("button", { type: "submit", class: "primary" }, "Send");
  const tip = h("div", { class: "tip", hidden: true });
  const note = h("p", { class: "note", role: "status" });
  const form = h("form", { class: "composer" }, tip, note, area,
    h("div", { class: "row" }, h("span", { class: "seg", role: "group", "aria-label": "When it is delivered" }, modes), send), hint);
  root.append(form);
  let ui = null;

  // What was typed elsewhere may be given back here; its Enter was not meant to send it.
  let givenAt = -Infinity;
  area.addEventListener("given", (event) => {
    if (event.detail) givenAt = performance.now();
    changed();
    if (event.detail) say(note, event.detail);
  });
  const changed = () => {
    if (!area.value) say(note, "");
    memory.write("draft", area.value.slice(0, 100_000) || null);
    actions.set({});
  };

  const submit = () => {
    const content = area.value;
    if (performance.now() - givenAt < 1000) return;
    if (!content.trim() || content.length > LONGEST) return;
    actions.send(content, ui.mode);
    area.value = "";
    changed();
    closeTip();
    actions.set({ mode: "steer" });
  };
  form.addEventListener("submit", (event) => (event.preventDefault(), submit()));
  area.addEventListener("input", changed);
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) return event.preventDefault(), submit();
    if (event.altKey && MODES[event.key - 1]) return event.preventDefault(), actions.set({ mode: MODES[event.key - 1][0] });
  });

  // The tip is shown once a tab, while the first tool runs, and goes when a message was sent.
  let isTipped = memory.read("tipped", false);
  const closeTip = () => {
    if (tip.hidden) return;
    isTipped = true;
    tip.hidden = true;
    memory.write("tipped", true);
  };
  const example = "And in Rome?";
  tip.append(
    h("p", null, h("b", null, "A tool runs. Write something now."), " Your message will be held until the tool has replied, and the history stays one the provider accepts."),
    h("div", { class: "row" },
      h("button", { type: "button", class: "small held", onclick: () => ((area.value = example), submit()) }, `Send “${example}”`),
      h("button", { type: "button", class: "small quiet", onclick: () => closeTip() }, "not now")));

  return {
    render(view) {
      ui = view.ui;
      const { state } = view;
      const isRunning = runningTurn(state) !== null;
      modes.forEach((button, i) => mark(button, "aria-pressed", String(MODES[i][0] === ui.mode)));
      mark(form, "data-mode", isRunning ? ui.mode : "idle");
      const isLong = area.value.length > LONGEST;
      const isClosed = state.session?.state === "closed" || view.link.state === "refused";
      say(hint, isLong ? `Too long: ${area.value.length.toLocaleString("en")} of 1,000,000 characters.` : isClosed ? "Nothing can be sent here any more." : view.link.state === "lost" ? "Sent as soon as the server answers again." : promise(state, ui.mode));
      send.disabled = !area.value.trim() || isLong || isClosed || (!ui.agent && !state.session);
      area.placeholder = isRunning ? "Write while it runs …" : "Write a message";
      const isDemo = state.session?.agent?.name === DEMO_AGENT;
      const isFirst = isDemo && !isTipped && state.turns.length === 1 && state.messages.size === 1 && openCalls(state).some((c) => c.startedAt !== null);
      if (isFirst && !isClosed) tip.hidden = false;
      else if (!tip.hidden && (!isRunning || isClosed)) closeTip();
    },
  };
}
