// What waits for a person: tools that ask for permission, and hops that stand at the gate. The cards
// are between the conversation and the composer, in sight wherever the conversation was scrolled to.

import { h, keyed, mark, say } from "../h.js";
import { clip, hopWords, shortId } from "../format.js";
import { nameOf } from "../track.js";
import { textBlock } from "./text.js";

const DEAD = 400; // ms: a button that has just come under the pointer decides nothing

export function createAsks(root, actions) {
  const node = h("div", { class: "asks", "aria-live": "assertive", hidden: true });
  root.append(node);
  let cards = new Map();
  let shown = "";
  let timer = 0;

  /** The buttons are dead for a moment whenever the cards or the window have moved. */
  function arm() {
    clearTimeout(timer);
    for (const { arm: set } of cards.values()) set(false);
    timer = setTimeout(() => document.hidden || cards.forEach((card) => card.arm(true)), DEAD);
  }
  document.addEventListener("visibilitychange", arm);
  addEventListener("focus", arm);

  return {
    render({ state, link }) {
      const asks = [...state.asked.values()].map((ask) => ({ key: `a ${ask.id}`, ask, state }));
      const hops = [...state.parked.values()].map((hop) => ({ key: `p ${hop.seq}`, hop, state }));
      const items = state.session?.state === "closed" ? [] : [...asks, ...hops];
      cards = keyed(node, items, (item) => item.key, (item) => (item.ask ? permission(item, actions) : parked(item, actions)));
      for (const card of cards.values()) card.hear(link.state === "open");
      const keys = items.map((item) => item.key).join(" ");
      if (keys === shown) return;
      shown = keys;
      node.hidden = !items.length;
      arm();
    },
  };
}

/** A card whose buttons can be dead, sent, or without a line to the server. */
function card(className, head, body, buttons) {
  const note = h("p", { class: "dim", role: "status" });
  const node = h("section", { class: `ask ${className}`, "aria-label": head.label }, h("p", { class: "head" }, head.parts), body, buttons, note);
  const is = { armed: false, open: true, sent: false };
  const set = (fields) => {
    Object.assign(is, fields);
    for (const button of node.querySelectorAll("button.decide")) button.disabled = !is.armed || !is.open || is.sent;
    mark(node, "data-armed", is.armed);
  };
  const hear = (open) => open === is.open || set({ open });
  /** Sends; if nothing came of it after a while, it can be decided anew. */
  const decide = (send, words) => {
    if (!send()) return say(note, "Not sent: the line to the server is broken.");
    set({ sent: true });
    say(note, words);
    setTimeout(() => (set({ sent: false }), say(note, "")), 3000);
  };
  set({});
  return { node, arm: (armed) => set({ armed }), hear, decide, note, update: () => {} };
}

const button = (text, className, onclick) => h("button", { type: "button", class: `small decide ${className}`, disabled: true, onclick }, text);

function permission({ ask }, actions) {
  const args = argumentsEditor(ask.args);
  const message = h("input", { type: "text", "aria-label": "What the model is told if you deny", placeholder: "why not (the model reads it)", maxlength: "2000" });
  const answer = (decision, words) => () => {
    const allows = decision.startsWith("allow");
    const changed = allows ? args.changed() : undefined;
    if (changed === null) return say(made.note, "These arguments are not a JSON object.");
    const fields = { ...(ask.sha256 ? { sha256: ask.sha256 } : {}), ...(changed ? { arguments: changed } : {}), ...(!allows && message.value.trim() ? { message: message.value.trim() } : {}) };
    made.decide(() => actions.link.permit(ask.id, decision, fields), `${words}; the server is told.`);
  };
  const parts = ["? ", h("b", { class: "mono" }, ask.name), " asks for your permission ", h("span", { class: "time", "data-since": ask.at })];
  const body = h("div", null, args.node, ask.error ? h("p", { class: "dim" }, "It asks because its own needs_approval raised: ", h("span", { class: "mono" }, clip(ask.error, 300))) : null);
  const buttons = h("div", { class: "row" },
    button("Allow", "primary", answer("allow", "Allowed")),
    button("Allow for this session", "", answer("allow_always", "Allowed for this session")),
    args.toggle);
  const denial = h("div", { class: "row" },
    button("Deny", "danger", answer("deny", "Denied")),
    button("Deny and stop", "danger", answer("deny_and_interrupt", "Denied, and the turn is to stop")),
    message);
  const made = card("permission", { label: `Permission for ${ask.name}`, parts }, body, h("div", { class: "answers" }, buttons, denial));
  mark(made.node, "data-seq", ask.seq);
  return made;
}

function parked({ hop, state }, actions) {
  const message = hop.ref?.startsWith("m:") ? state.messages.get(hop.ref.slice(2)) : null;
  const call = hop.ref?.startsWith("c:") ? state.calls.get(hop.ref.slice(2)) : null;
  const editor = message ? contentEditor(message.content) : call ? argumentsEditor(call.args) : null;
  const release = () => {
    const edit = editor?.changed();
    if (edit === null) return say(made.note, "These arguments are not a JSON object.");
    made.decide(() => actions.link.release(hop.seq, edit), "Released; the server is told.");
  };
  const drop = () => made.decide(() => actions.link.drop(hop.seq), "Dropped; the server is told.");
  const what = `${hop.hop}${hop.queue ? ` ${hop.queue}` : ""}`;
  const [words, where] = hopWords(hop);
  const item = hop.ref ? nameOf(state, hop.ref) : hop.hop === "model" ? null : h("span", { class: "mono" }, shortId(hop.item));
  const parts = ["‖ The gate holds ", h("b", null, words), item ? [" of ", item] : null, `${where} `, h("span", { class: "time", "data-since": hop.at })];
  const buttons = h("div", { class: "row" }, button("Release", "primary", release), editor ? button("Drop", "danger", drop) : null, editor?.toggle ?? null);
  const made = card("parked", { label: `Paused: ${what}`, parts }, editor?.node ?? null, buttons);
  mark(made.node, "data-seq", hop.seq);
  return made;
}

/** {node, toggle, changed()}: undefined if nothing was changed, null if what stands there is no object. */
function argumentsEditor(args) {
  return editor(JSON.stringify(args, null, 2), "edit arguments", (text) => {
    try {
      const value = JSON.parse(text);
      return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
    } catch {
      return null;
    }
  });
}

const contentEditor = (content) => editor(content ?? "", "edit text", (text) => text);

function editor(text, words, read) {
  const shown = textBlock(text, { limit: 600, tag: "pre", className: "mono args" });
  const area = h("textarea", { class: "mono", rows: "4", hidden: true, "aria-label": words, spellcheck: "false" }, text);
  const toggle = h("button", { type: "button", class: "small quiet", onclick: () => {
    area.hidden = !area.hidden;
    shown.node.hidden = !area.hidden;
    say(toggle, area.hidden ? words : "as it was");
    if (area.hidden) area.value = text;
    else area.focus();
  } }, words);
  return { node: h("div", null, shown.node, area), toggle, changed: () => (area.value === text ? undefined : read(area.value)) };
}
