// JSON as a tree of <details>: built when it is opened, strings as text, long ones in part.

import { h } from "../h.js";
import { clip } from "../format.js";
import { textBlock } from "./text.js";

const MOST = 200; // children shown at once

export function jsonTree(value, { open = 2 } = {}) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return h("div", { class: "json mono" }, node(null, value, open));
  const root = h("div", { class: "json mono" });
  grow(root, Object.entries(value), 0, open - 1);
  return root;
}

function node(key, value, open) {
  if (value === null || typeof value !== "object") return leaf(key, value);
  const isList = Array.isArray(value);
  const pairs = isList ? value.map((item, i) => [i, item]) : Object.entries(value);
  if (!pairs.length) return h("div", { class: "pair" }, name(key), h("span", { class: "dim" }, isList ? "[]" : "{}"));
  const body = h("div", { class: "children" });
  const details = h("details", { open: open > 0 }, h("summary", null, name(key), h("span", { class: "dim" }, summary(value, isList, pairs))), body);
  const fillOnce = () => {
    if (details.open && !body.childElementCount) grow(body, pairs, 0, open - 1);
  };
  details.addEventListener("toggle", fillOnce);
  fillOnce();
  return details;
}

function grow(body, pairs, from, open) {
  for (const [key, value] of pairs.slice(from, from + MOST)) body.append(node(key, value, open));
  const rest = pairs.length - from - MOST;
  if (rest <= 0) return;
  const more = h("button", { type: "button", class: "quiet more", onclick: () => (more.remove(), grow(body, pairs, from + MOST, open)) }, `show ${Math.min(MOST, rest)} of ${rest} more`);
  body.append(more);
}

const name = (key) => (key === null ? null : h("span", { class: typeof key === "number" ? "dim key" : "key" }, `${key}: `));

/** Closed, a message in a list still says who spoke and what. */
function summary(value, isList, pairs) {
  if (isList) return `[${pairs.length}]`;
  if (typeof value.role === "string") return `${value.role}${value.tool_calls?.length ? ` · ${value.tool_calls.length} calls` : ""}${typeof value.content === "string" ? ` “${clip(value.content, 48)}”` : ""}`;
  return `{ ${clip(pairs.map(([key]) => key).join(", "), 48)} }`;
}

function leaf(key, value) {
  if (typeof value !== "string") return h("div", { class: "pair" }, name(key), h("span", { class: "literal" }, String(value)));
  const text = textBlock(value, { limit: 1200, tag: "span", className: "string" });
  return h("div", { class: "pair" }, name(key), text.node);
}
