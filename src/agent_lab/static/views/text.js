// Long texts: shown in part, with a button for more. 1 MB in one text node would stop the page.

import { h } from "../h.js";
import { size } from "../format.js";

const STEP = 50_000;

/** {node, set(text)}: appends when the text only grew, so that streaming does not flicker. */
export function textBlock(text, { limit = 1600, tag = "div", className = "text" } = {}) {
  const shown = document.createTextNode("");
  const node = h(tag, { class: className }, shown);
  let more = null; // most texts are short
  let whole = "";
  let upTo = limit;

  function grow(event) {
    event.stopPropagation();
    upTo += STEP;
    set(whole);
  }

  function set(next) {
    whole = next ?? "";
    // A little over the limit is shown whole: a button that hides twenty characters is a nuisance.
    const part = whole.length > upTo * 1.2 ? whole.slice(0, upTo) + "…" : whole;
    if (part.startsWith(shown.data)) shown.appendData(part.slice(shown.data.length));
    else shown.data = part;
    const rest = whole.length - part.length;
    if (rest > 0 && !more) node.append((more = h("button", { type: "button", class: "quiet more", onclick: grow })));
    if (more) more.hidden = rest <= 0;
    if (rest > 0) more.textContent = `show ${rest > STEP ? `${size(STEP)} more of ${size(rest)}` : `the other ${size(rest)}`}`;
  }

  set(text);
  return { node, set };
}
