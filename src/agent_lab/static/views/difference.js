// What changed from one request to the next, one line a message.

import { h, show } from "../h.js";
import { clip, count, shortId } from "../format.js";
import { jsonTree } from "./json.js";

/** The nodes for a requestDiff(). */
export function difference({ same, tail, removed, added, fields: changed }) {
  const change = (sign, at, value, text) => {
    const tree = h("details", { class: "change", "data-sign": sign }, h("summary", null, h("span", { class: "sign" }, sign), h("span", { class: "mono dim" }, at), " ", text), h("div", null));
    tree.addEventListener("toggle", () => tree.open && show(tree.lastChild, jsonTree(value)));
    return tree;
  };
  const message = (sign) => ({ at, message: m }) => change(sign, `#${at}`, m, [h("b", null, m.role ?? m.type ?? "item"), " ", said(m)]);
  return h("div", { class: "diff" },
    same ? h("p", { class: "dim same" }, `= ${count(same, "message")} the same`) : null,
    removed.map(message("−")), added.map(message("+")),
    tail ? h("p", { class: "dim same" }, `= ${count(tail, "message")} the same at the end`) : null,
    changed.map(({ key, before, after }) => change("~", key, { before, after }, `${brief(before)} → ${brief(after)}`)));
}

const brief = (value) => (value === undefined ? "absent" : clip(JSON.stringify(value), 30));

/** What a message of any dialect says, in a line. */
export function said(m) {
  const parts = Array.isArray(m.content) ? m.content : (m.parts ?? []);
  const calls = [...(m.tool_calls ?? []), ...parts.map((part) => (part.type === "tool_use" ? part : part.functionCall)).filter(Boolean)];
  const names = calls.map((c) => c.function?.name ?? c.name).join(", ");
  const answers = m.tool_call_id ?? m.call_id ?? parts.find((part) => part.tool_use_id)?.tool_use_id;
  const text = typeof m.content === "string" ? m.content : (parts.map((part) => part.text ?? (typeof part.content === "string" ? part.content : "")).filter(Boolean).join(" ") || m.output || m.arguments || "");
  return [answers ? h("span", { class: "mono" }, `${shortId(answers)} `) : null, clip(text, 90), names || m.name ? h("span", { class: "mono tool" }, ` ${names ? `calls ${names}` : m.name}`) : null];
}
