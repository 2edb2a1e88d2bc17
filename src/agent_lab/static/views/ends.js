// The rest of the conversation: ends of turns, gaps, late replies, and messages of an opened history.

import { h, mark, show } from "../h.js";
import { count, duration, shortId, signature } from "../format.js";
import { tokens } from "../spent.js";
import { proseBlock } from "./prose.js";
import { textBlock } from "./text.js";

const END_ICON = { done: "✓", error: "✕", cancelled: "■" };

export function endView(item) {
  const node = h("div", { class: "end", "data-refs": `t:${item.n}` });
  return {
    node,
    update(_, { state }) {
      const turn = state.turns.findLast((t) => t.n === item.n);
      mark(node, "data-end", turn.end);
      mark(node, "data-seq", turn.endSeq);
      const how = turn.end === "error" ? "failed" : turn.end === "cancelled" ? (turn.reason === "interrupted" ? "interrupted" : "cancelled") : "done";
      const facts = [duration(turn.endAt - turn.startAt), count(turn.models, "step"), turn.calls ? count(turn.calls, "tool") : null, tokens(turn.spent)].filter(Boolean);
      show(node, h("div", { class: "rule" }, h("span", null, h("b", null, `${END_ICON[turn.end]} turn ${turn.n} ${how}`), ` · ${facts.join(" · ")}`)),
        turn.end === "error" ? h("div", { class: "box" }, h("b", { class: "mono" }, turn.code), h("p", null, turn.message), turn.hint ? h("p", { class: "hint" }, "→ ", turn.hint) : null) : null);
    },
  };
}

export function gapView(item) {
  const node = h("div", { class: "end", "data-end": "gap" }, h("div", { class: "rule" }, h("span", null, `⋯ entries ${item.from} to ${item.to} are not kept any more`)));
  return { node, update() {} };
}

export function lateView(item) {
  const text = textBlock(item.content, { limit: 600, className: "reply" });
  const node = h("article", { class: "msg tool", "data-seq": item.seq, "data-refs": "" },
    h("div", { class: "who" }, "late reply", h("span", { class: "mono" }, shortId(item.id)), h("span", null, "for no open call; not in the history")), text.node);
  return { node, update() {} };
}

/** {node, set(text)}: what a model thought, folded. */
export function thinkingBlock() {
  const text = textBlock("", { limit: 4000, className: "text" });
  const node = h("details", { class: "thinking", hidden: true }, h("summary", null, "thinking"), text.node);
  return { node, set: (said) => ((node.hidden = !said), text.set(said ?? "")) };
}

const FATES = { edited: "edited", moved: "moved", made: "made: a stand-in", dropped: "dropped: not in the history" };

export function pastView({ seq, key, e }) {
  const who = e.role === "user" ? "you" : e.role === "tool" ? ["tool", e.name, e.tool_call_id ? h("span", { class: "mono" }, shortId(e.tool_call_id)) : null] : e.role;
  const text = e.role === "assistant" ? proseBlock() : textBlock("", { limit: 1600 });
  text.set(e.content ?? "");
  const thinking = thinkingBlock();
  thinking.set(e.thinking);
  const calls = (e.tool_calls ?? []).map((c) => h("div", { class: "mono sig" }, signature(c.name, c.arguments, 180)));
  const node = h("article", { class: `msg past ${e.role}`, "data-seq": seq, "data-refs": key, "data-fate": e.fate },
    h("div", { class: "who" }, who, h("span", { class: "mono", title: "place in the list that was opened" }, e.index === null ? "" : `[${e.index}]`), FATES[e.fate] ? h("span", { class: "tag" }, FATES[e.fate]) : null),
    e.why ? h("p", { class: "dim because" }, e.why) : null, thinking.node, text.node, calls);
  text.node.hidden = !e.content;
  return { node, update() {} };
}
