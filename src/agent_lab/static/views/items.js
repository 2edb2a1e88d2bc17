// The parts of the conversation: a user message, and an answer with its calls.

import { h, keyed, mark, say, show } from "../h.js";
import { count, duration, shortId, signature } from "../format.js";
import { numberOf } from "../store.js";
import { thinkingBlock } from "./ends.js";
import { proseBlock } from "./prose.js";
import { textBlock } from "./text.js";

const since = (t) => h("span", { class: "time", "data-since": t });

// -- user --------------------------------------------------------------------------------------

export function userView(item, actions) {
  const who = h("div", { class: "who" });
  const text = textBlock("");
  const node = h("article", { class: "msg user", "data-refs": item.key }, who, text.node);
  let last = null;
  let editor = null;
  return {
    node,
    update({ unsent }, { state, ui }) {
      const m = state.messages.get(item.id) ?? { ...unsent, status: "sending", blockedBy: [] };
      const isEditing = ui.editing === item.id && (m.status === "held" || m.status === "accepted");
      const open = m.blockedBy.filter((id) => state.calls.get(state.callKeys.get(id))?.endAt === null);
      const { state: line, isResting } = actions.link.link;
      const sending = line === "refused" ? "✕ not sent" : isResting ? "↥ too fast for the server, goes again in a moment" : "↥ sending";
      if (last?.m === m && last.isEditing === isEditing && last.open === open.length && last.sending === sending) return;
      last = { m, isEditing, open: open.length, sending };
      const content = m.content ?? actions.link.textOf(item.id);
      mark(node, "data-status", m.status);
      mark(node, "data-seq", m.endSeq ?? m.heldSeq ?? m.seq ?? null);
      text.set(content ?? "(the journal does not keep the text of a rejected message)");
      show(who, h("span", { class: "facts" }, head(m, open, numberOf(state, m), sending)), buttons({ ...m, content }, actions, isEditing));
      if (isEditing && !editor) {
        node.append((editor = edit(m, actions)));
        const area = editor.firstChild;
        area.focus();
        area.setSelectionRange(area.value.length, area.value.length);
      }
      if (!isEditing && editor) editor = (editor.remove(), null);
      text.node.hidden = isEditing;
    },
  };
}

const MODES = { follow_up: "follow up", interrupt: "interrupt", reject: "reject if busy" };
const WAITS = { model: "the model's answer", turn: "the end of this turn" };

function head(m, open, number, sending) {
  const you = ["you", m.mode && m.mode !== "steer" ? h("span", { class: "mode" }, MODES[m.mode]) : null];
  const edited = m.isEdited ? h("span", null, "edited") : null;
  switch (m.status) {
    case "sending":
      return [...you, h("span", { class: "tag" }, sending)];
    case "accepted":
      return [...you, h("span", { class: "tag" }, "◌ in input"), edited];
    case "held":
      return [...you, h("span", { class: "tag held" }, "held ", since(m.heldAt)), h("span", null, "waits for ", blockers(m, open)), edited];
    case "delivered":
      return [...you, h("span", { class: "mono", title: `messages[${number}] of the request` }, `#${number}`), m.heldAt === null ? null : h("span", null, `was held ${duration(m.endAt - m.heldAt)}`), edited];
    case "withdrawn":
      return [...you, h("span", { class: "tag" }, "⊘ withdrawn"), m.reason === "user" ? null : h("span", null, m.reason)];
    default:
      return [...you, h("span", { class: "tag bad" }, `✕ rejected · ${m.reason}`), h("span", null, m.note ?? "")];
  }
}

/** Those of its blockers that are still open; the first two by name. */
function blockers(m, open) {
  const ids = open.length ? open : m.blockedBy;
  const named = ids.slice(0, 2).map((id, i) => [i ? ", " : "", WAITS[id] ?? h("span", { class: "mono" }, shortId(id))]);
  return ids.length > 2 ? [named, ` and ${ids.length - 2} more`] : named;
}

function buttons(m, actions, isEditing) {
  const { link } = actions;
  if (m.status === "sending") return h("button", { type: "button", class: "small", onclick: () => (link.discard(m.id), actions.giveBack("")) }, "discard");
  if (m.status === "rejected" && m.content) return h("button", { type: "button", class: "small", onclick: () => actions.giveBack(m.content) }, "write again");
  if (m.status !== "held" && m.status !== "accepted") return null;
  return h("span", { class: "buttons" },
    h("button", { type: "button", class: "small act", hidden: isEditing, onclick: () => actions.set({ editing: m.id }) }, "edit"),
    h("button", { type: "button", class: "small act", onclick: () => (link.withdraw(m.id), actions.giveBack("")) }, "withdraw"));
}

function edit(m, actions) {
  const area = h("textarea", { "aria-label": "Change the held message", rows: "2" }, m.content);
  // The next keys are for the composer: at the page itself they would be commands.
  const close = () => (actions.set({ editing: null }), actions.giveBack(""));
  const save = () => {
    const isChanged = area.value.trim() && area.value !== m.content;
    if (!isChanged || actions.link.edit(m.id, area.value)) return close();
    say(note, "Not saved: the line to the server is broken.");
  };
  const note = h("span", { class: "bad", role: "status" });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) return event.preventDefault(), save();
    if (event.key === "Escape") event.preventDefault(), close();
  });
  return h("div", { class: "editor" }, area, h("div", { class: "row" }, h("button", { type: "button", class: "small primary", onclick: save }, "save"), h("button", { type: "button", class: "small", onclick: close }, "leave it"), note));
}

// -- answer ------------------------------------------------------------------------------------

const MOST_CALLS = 20; // shown at once of one answer

/** How much of the conversation's room an item takes. */
export const weightOf = (item, state) => (item.kind === "answer" ? 1 + Math.min(MOST_CALLS, state.answers.get(item.id).calls.length) : 1);

export function answerView(item, actions) {
  const who = h("div", { class: "who" });
  const text = proseBlock();
  const thinking = thinkingBlock();
  const calls = h("div", { class: "calls" });
  const rest = h("button", { type: "button", class: "quiet more rest", hidden: true, onclick: () => ((most += 100), draw(last)) });
  const node = h("article", { class: "msg assistant" }, who, thinking.node, text.node, calls, rest);
  let last = null;
  let most = MOST_CALLS;
  /** The first calls and those that are still open; the others on request. */
  function draw({ records }) {
    const hidden = records.slice(most).filter((call) => call.endAt !== null);
    keyed(calls, records.filter((call, i) => i < most || call.endAt === null), (call) => call.key, (call) => callView(call, actions));
    rest.hidden = !hidden.length;
    say(rest, `show ${count(Math.min(100, hidden.length), "more call")}${hidden.length > 100 ? ` of ${hidden.length}` : ""}`);
    mark(rest, "data-refs", hidden.length ? hidden.map((call) => call.ref).join(" ") : null);
  }
  return {
    node,
    update(_, { state }) {
      const answer = state.answers.get(item.id);
      const asks = new Map([...state.asked.values()].map((ask) => [ask.key, ask]));
      const records = answer.calls.map((key) => asked(state.calls.get(key), asks.get(key)));
      const model = state.models.findLast((m) => m.turn === answer.turn && m.step === answer.step);
      if (last?.answer !== answer || last.model?.endAt !== model?.endAt) {
        mark(node, "data-seq", answer.seq);
        mark(node, "data-refs", model?.ref ?? "");
        mark(node, "aria-busy", answer.isStreaming ? "true" : null);
        mark(node, "data-status", answer.isStreaming ? "streaming" : answer.isPartial ? "partial" : "whole");
        text.set(answer.text);
        thinking.set(answer.thinking);
        text.node.hidden = !answer.text && !answer.isStreaming;
        const how = answer.isStreaming ? h("span", { class: "tag model" }, "writes") : answer.isPartial ? h("span", { class: "tag" }, "■ stopped") : null;
        show(who, "assistant", answer.model ? h("span", null, answer.model) : null, how, model?.endAt ? h("span", null, duration(model.endAt - model.startAt)) : null);
      }
      last = { answer, model, records };
      draw(last);
    },
  };
}

/** A call that asks is another object than one that does not, so that its line is drawn anew. */
const withAsk = new WeakMap();
function asked(call, ask) {
  if (!ask) return call;
  if (!withAsk.has(ask)) withAsk.set(ask, { ...call, asks: ask });
  return withAsk.get(ask);
}

const ICONS = { called: "○", running: "◌", result: "✓", cancelled: "■", timeout: "⧖" };
const iconOf = (call) => (call.asks ? "?" : ICONS[call.status] ?? "✕");
const toneOf = (call) => (call.asks ? "held" : call.endAt === null ? "tool" : call.status === "cancelled" ? "dim" : call.isError ? "bad" : "ok");

function callView(call, actions) {
  const icon = h("span", { class: "st", "aria-hidden": "true" });
  const name = h("span", { class: "mono sig" });
  const time = h("span", { class: "dim when" });
  const stop = h("button", { type: "button", class: "small act", "aria-label": `cancel ${call.name}`, onclick: () => actions.link.cancelTool(call.id) }, "cancel");
  const reply = textBlock("", { limit: 600, className: "reply" });
  const late = h("div", { class: "late" });
  const node = h("div", { class: "call", "data-refs": call.ref }, h("div", { class: "line" }, icon, name, time, stop), reply.node, late);
  const part = { node, update };
  update(call);
  return part;

  function update(c) {
    mark(node, "data-seq", c.replySeq ?? c.startSeq ?? c.seq);
    mark(node, "data-tone", toneOf(c));
    mark(node, "title", `${c.id} · ${c.status}`);
    say(icon, iconOf(c));
    const words = signature(c.name, c.args, 180);
    const cut = words.indexOf("(") + 1;
    if (name.textContent !== words) show(name, words.slice(0, cut), h("wbr"), words.slice(cut));
    stop.hidden = c.endAt !== null;
    show(time, when(c));
    reply.set(c.content ?? "");
    reply.node.hidden = c.content === null;
    show(late, c.late ? [h("b", null, "late reply, not in the history: "), c.late.content.slice(0, 400)] : "");
  }
}

function when(c) {
  if (c.asks) return ["asks ", since(c.asks.at)];
  if (c.startedAt === null && c.endAt === null) return ["waits ", since(c.calledAt)];
  if (c.endAt === null) return since(c.startedAt);
  const time = c.startedAt === null ? "" : duration(c.endAt - c.startedAt);
  return c.status === "result" ? time : [c.status.replace("_", " "), time ? ` · ${time}` : ""];
}
