// An answer's text, as Markdown; blocks keep their nodes while they grow, so streaming is still.

import { h, keyed } from "../h.js";
import { blocks, inline } from "../markdown.js";
import { textBlock } from "./text.js";

const LONGEST = 20_000; // a longer answer is shown as it is, in parts

export function proseBlock() {
  const node = h("div", { class: "text prose" });
  const plain = textBlock("", { limit: LONGEST });
  let shown = null;
  return {
    node,
    set(text) {
      if (text === shown) return;
      shown = text;
      const isLong = text.length > LONGEST;
      if (isLong) plain.set(text);
      const parts = isLong ? [{ key: "plain" }] : blocks(text).map((block, i) => ({ ...block, key: `${i} ${block.kind} ${block.level ?? block.lang ?? ""}` }));
      keyed(node, parts, (part) => part.key, (part) => (isLong ? { node: plain.node, update: () => {} } : blockView(part)));
    },
  };
}

const spans = (text) => inline(text).map((part) => (part.kind === "text" ? part.text : h({ code: "code", bold: "b", italic: "i" }[part.kind], null, part.text)));

/** A block keeps its node while it grows, and its letters where it can: what is selected stays so. */
function blockView(block) {
  let shown = block;
  const node = blockNode(block);
  return {
    node,
    update(next) {
      if (next.source === shown.source) return;
      shown = next;
      const letters = next.kind === "code" ? node.firstChild.firstChild : node.childNodes.length === 1 ? node.firstChild : null;
      const isPlain = next.kind === "code" || (next.kind === "text" && !inline(next.text).some((part) => part.kind !== "text"));
      if (isPlain && letters?.nodeType === Node.TEXT_NODE && next.text.startsWith(letters.data)) letters.appendData(next.text.slice(letters.data.length));
      else node.replaceChildren(...blockNode(next).childNodes);
    },
  };
}

function blockNode(block) {
  switch (block.kind) {
    case "code":
      return h("pre", { tabindex: "0", "data-keys": "own", "aria-label": `${block.lang || "code"}, scrolls` }, h("code", null, block.text));
    case "heading":
      return h("p", { class: "heading", "data-level": Math.min(3, block.level) }, spans(block.text));
    case "quote":
      return h("blockquote", null, spans(block.text));
    case "rule":
      return h("hr");
    case "list":
      return h("div", { class: "list-block", role: "list" }, block.items.map((item) => h("div", { role: "listitem", "data-depth": item.depth || null }, h("span", { class: "bullet" }, /\d/.test(item.mark) ? item.mark : "•"), h("span", null, spans(item.text)))));
    default:
      return h("p", null, spans(block.text));
  }
}
