// "If nothing had been held": the history with each message where it arrived, and what the provider
// would have said to it.

import { h, show } from "../h.js";
import { count } from "../format.js";
import { said } from "./difference.js";
import { fault } from "./verdicts.js";

export function createUnheld(actions) {
  const known = new Map(); // seq -> the section; an answer stays true, because the past does
  let session = null;

  async function ask(x, node) {
    const answer = await actions.checks.unheld(x.seq).catch(() => null);
    if (!answer?.ok) {
      known.delete(x.seq);
      return show(node, h("p", { class: "dim" }, "Not known any more."));
    }
    const told = await answer.json();
    if (told.request === null) known.delete(x.seq); // it will be another answer when it was sent
    show(node, view(told));
  }

  function view(told) {
    const { violations } = told;
    const at = new Set(violations.map((v) => v.where));
    const from = Math.max(0, Math.min(...[...at].filter((where) => where !== null), told.messages.length - 1) - 2);
    return [
      told.valid ? h("p", { class: "ok" }, `✓ ${told.dialect} would have accepted it just the same.`) : violations.slice(0, 4).map((v) => fault({ ...v, dialects: [told.dialect] }, (seq) => actions.select(seq, "inspector"))),
      told.valid ? null : h("ol", { class: "would", start: from }, told.messages.slice(from, from + 8).map((m, i) => h("li", { "data-bad": at.has(from + i) }, h("b", null, m.role ?? m.type ?? "item"), " ", said(m)))),
      told.valid ? null : h("p", { class: "dim" }, `${count(told.messages.length, "message")}, each where it arrived. Held back, the same messages were in an order that is accepted.`),
    ];
  }

  return {
    /** The section for a `held` or `model_request` entry. */
    of(x) {
      if (session !== x.e.session_id) known.clear();
      session = x.e.session_id;
      if (!known.has(x.seq)) {
        const node = h("div", { class: "unheld" }, h("p", { class: "dim" }, "Asking the server …"));
        known.set(x.seq, node);
        ask(x, node);
      }
      return [h("h3", null, "If nothing had been held"), known.get(x.seq)];
    },
  };
}
