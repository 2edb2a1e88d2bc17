// The conversation, read like a chat. Its parts are made once and then only changed.

import { h, keyed, mark, say } from "../h.js";
import { count } from "../format.js";
import { entryAt } from "../store.js";
import { endView, gapView, lateView, pastView } from "./ends.js";
import { answerView, userView, weightOf } from "./items.js";
import { createWelcome } from "./welcome.js";

const WINDOW = 150; // messages and calls shown; earlier ones on request
const MAKE = { user: userView, answer: answerView, end: endView, gap: gapView, late: lateView, past: pastView };

export function createConversation(root, actions) {
  const log = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": "Messages" });
  const earlier = h("button", { type: "button", class: "quiet earlier", onclick: () => ((shown += 300), actions.set({})) });
  const newer = h("button", { type: "button", class: "newer", hidden: true, onclick: toTail }, "↓ newest");
  const welcome = createWelcome(actions);
  const scroll = h("div", { class: "scroll", tabindex: "0", "data-keys": "own", "aria-label": "Conversation, scrolls" }, welcome.node, earlier, log);
  root.append(h("h2", null, "Conversation"), scroll, newer);

  let shown = WINDOW;
  let isAtTail = true;
  let last = {};
  let chosen = null;
  let pointed = null;
  scroll.addEventListener("scroll", () => {
    isAtTail = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 40;
    if (isAtTail) newer.hidden = true;
  });
  log.addEventListener("click", (event) => {
    const part = event.target.closest("[data-seq]");
    if (!part || event.target.closest("button, summary, textarea, a") || String(getSelection())) return;
    actions.select(Number(part.dataset.seq), "conversation");
  });
  log.addEventListener("pointerover", (event) => actions.point(Number(event.target.closest("[data-seq]")?.dataset.seq) || null, "conversation"));
  log.addEventListener("pointerleave", () => actions.point(null));
  // A reader at the tail stays there, when the log grows and when the composer takes some of its height.
  const follow = new ResizeObserver(() => isAtTail && toTail());
  follow.observe(scroll);
  follow.observe(log);

  function toTail() {
    scroll.scrollTop = scroll.scrollHeight;
    newer.hidden = true;
  }

  return {
    render(view) {
      const { state, ui, outbox } = view;
      welcome.render(view, !state.items.length && !state.tail.length && !outbox.length);
      const { state: line, isResting } = view.link;
      if (state !== last.state || outbox !== last.outbox || ui.editing !== last.editing || shown !== last.shown || line !== last.line || isResting !== last.isResting) {
        const isMore = last.shown !== undefined && shown !== last.shown;
        const height = isMore ? scroll.scrollHeight : 0;
        draw(view);
        if (isMore) scroll.scrollTop += scroll.scrollHeight - height;
        else if (!isAtTail && state.lastSeq !== last.state?.lastSeq) newer.hidden = false;
        for (const button of log.querySelectorAll("button.act")) button.disabled = line !== "open"; // nobody would hear it
        last = { state, outbox, editing: ui.editing, shown, line, isResting };
      }
      if (ui.pointed !== pointed) point(view);
      if (ui.selected !== chosen?.seq || (ui.selected !== null && state.items !== chosen.items)) choose(view);
    },
  };

  /** A message that goes while it is edited leaves what was typed, and the focus, to the composer. */
  function saveEditor({ state, ui }) {
    const id = ui.editing;
    if (id === null || state.waiting.includes(id)) return;
    ui.editing = null;
    const area = log.querySelector(".editor textarea");
    const m = state.messages.get(id);
    if (!area) return;
    const isChanged = area.value !== area.defaultValue && area.value.trim() !== "";
    const how = `It was ${m?.status ?? "gone"} while you changed it.`;
    actions.giveBack(isChanged ? area.value : "", isChanged ? `${how} What you wrote is here, not sent.` : how, area.selectionEnd);
  }

  function draw(view) {
    saveEditor(view);
    const { state, ui, outbox } = view;
    let first = state.items.length;
    for (let room = shown; first > 0 && room > 0; first--) room -= weightOf(state.items[first - 1], state);
    earlier.hidden = first === 0;
    say(earlier, `show earlier messages (${count(first, "item")} above)`);
    const parts = state.items.slice(first).map((item) => ({ item }));
    for (const id of state.tail) parts.push({ item: { kind: "user", key: `m:${id}`, id } });
    for (const m of outbox) if (!state.messages.has(m.id)) parts.push({ item: { kind: "user", key: `m:${m.id}`, id: m.id }, unsent: m });
    const context = { state, ui, actions };
    keyed(log, parts, (part) => part.item.key, (part) => {
      const made = MAKE[part.item.kind](part.item, actions);
      made.update(part, context);
      return { node: made.node, update: (next) => made.update(next, { state: actions.link.state, ui, actions }) };
    });
  }

  function point({ state, ui }) {
    pointed = ui.pointed;
    const ref = pointed === null ? null : (entryAt(state, pointed)?.ref ?? null);
    for (const node of log.querySelectorAll("[data-refs]")) mark(node, "data-near", ref !== null && node.dataset.refs.split(" ").includes(ref));
  }

  function choose({ state, ui }) {
    const isNew = ui.selected !== chosen?.seq;
    chosen = { seq: ui.selected, items: state.items };
    const ref = ui.selected === null ? null : (entryAt(state, ui.selected)?.ref ?? null);
    let found = null;
    for (const node of log.querySelectorAll("[data-refs]")) {
      const is = ref !== null && node.dataset.refs.split(" ").includes(ref);
      mark(node, "data-chosen", is);
      if (is) found = node;
    }
    if (found && isNew && ui.from !== "conversation") found.scrollIntoView({ block: "nearest" });
  }
}
