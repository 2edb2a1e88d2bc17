// Long texts: shown in part, with a button for more. 1 MB in one text node would stop the page.

import { h } from "../h.js";
import { size } from "../format.js";

const CHUNK = 8_192; // letters that are laid out together, and only while they are in sight
const STEP = 8 * CHUNK; // shown by one press

/** {node, set(text)}: appends when the text only grew, so that streaming does not flicker. */
export function textBlock(text, { limit = 1600, tag = "div", className = "text" } = {}) {
  const shown = document.createTextNode("");
  const node = h(tag, { class: className }, shown);
  let more = null; // most texts are short
  let whole = "";
  let upTo = 0; // letters that are shown
  let chunks = [];

  function grow(event) {
    event.stopPropagation();
    if (!chunks.length) shown.data = whole.slice(0, upTo);
    for (const to = Math.min(whole.length, upTo + STEP); upTo < to; ) {
      const end = cutAt(whole, Math.min(to, upTo + CHUNK));
      chunks.push(h("span", { class: "chunk" }, whole.slice(upTo, end)));
      upTo = end;
    }
    more.before(...chunks);
    offer();
  }

  function set(next) {
    const before = whole;
    whole = next ?? "";
    if (chunks.length && !whole.startsWith(before)) {
      for (const chunk of chunks) chunk.remove();
      chunks = [];
    }
    if (!chunks.length) begin();
    offer();
  }

  /** The first part. A little over the limit is shown whole: a button that hides twenty letters is a nuisance. */
  function begin() {
    const isWhole = whole.length <= limit * 1.2;
    upTo = isWhole ? whole.length : cutAt(whole, limit);
    const part = isWhole ? whole : `${whole.slice(0, upTo)}…`;
    if (part.startsWith(shown.data)) shown.appendData(part.slice(shown.data.length));
    else shown.data = part;
  }

  function offer() {
    const rest = whole.length - upTo;
    if (rest > 0 && !more) node.append((more = h("button", { type: "button", class: "quiet more", onclick: grow })));
    if (more) more.hidden = rest <= 0;
    if (rest > 0) more.textContent = `show ${rest > STEP ? `${size(STEP)} more of ${size(rest)}` : `the other ${size(rest)}`}`;
  }

  set(text);
  return { node, set };
}

/** Behind a line's end or a word near `end`: each part is a block of its own, and begins a line. */
function cutAt(text, end) {
  if (end >= text.length) return text.length;
  const line = text.lastIndexOf("\n", end - 1);
  const at = line > end - 400 ? line : text.lastIndexOf(" ", end - 1);
  if (at > end - 400) return at + 1;
  return /[\udc00-\udfff]/.test(text[end]) ? end - 1 : end;
}
