// "copy as": the chosen entry as JSON, curl or Python, a model request with its whole body.

import { h, show } from "../h.js";
import { asCurl, asJson, asPython } from "../copies.js";

const FORMS = [["JSON", asJson, "c"], ["curl", asCurl, "Shift+C"], ["Python", asPython, "p"]];

/** {node, set(entry), copy(n)}; `wholeBody(entry)` gives the body that the entry may hold in part. */
export function createCopying(wholeBody) {
  let entry = null;
  const buttons = FORMS.map(([name, , key], i) => h("button", { type: "button", title: `Copy as ${name} (${key})`, "aria-label": `Copy as ${name}`, onclick: () => copy(i) }, name));
  const node = h("span", { class: "copying", hidden: true }, h("span", { class: "dim" }, "copy"), h("span", { class: "seg" }, buttons));

  async function copy(i) {
    if (!entry) return;
    const [name, write] = FORMS[i];
    const body = entry.type === "model_request" ? await wholeBody(entry) : null;
    const isDone = await navigator.clipboard?.writeText(write(entry.e, body, location.origin)).then(() => true, () => false);
    show(buttons[i], isDone ? "copied" : "not allowed");
    setTimeout(() => show(buttons[i], name), 1500);
  }

  return {
    node,
    copy,
    set(next) {
      entry = next;
      node.hidden = !next;
    },
  };
}
