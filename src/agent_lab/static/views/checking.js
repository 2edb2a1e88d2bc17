// The window "Would a provider accept this?": the verdicts, and a place for a provider's error text.

import { h, show } from "../h.js";
import { clip } from "../format.js";
import { fault, verdictsView } from "./verdicts.js";

export function createChecking(actions, makeDialog) {
  const verdicts = h("div", { class: "now" });
  const area = h("textarea", { "aria-label": "A provider's error", rows: "3", spellcheck: "false", placeholder: "Paste what the provider answered, such as: An assistant message with 'tool_calls' must be followed by tool messages …" });
  const ask = h("button", { type: "submit", class: "primary" }, "Explain it");
  const found = h("div", { class: "found-rules", role: "status" });
  const form = h("form", { class: "explain" }, area, h("div", { class: "row" }, ask), found);
  const node = makeDialog("Would a provider accept this?", h("h3", null, "The history now"), verdicts, h("h3", null, "Why did the provider refuse?"), form);
  node.classList.add("wide");

  const choose = (seq) => (node.close(), actions.select(seq), actions.set({ tab: "inspector" }));

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!area.value.trim()) return;
    ask.disabled = true;
    const answer = await actions.checks.explain(area.value).catch(() => null);
    ask.disabled = false;
    show(found, answer?.ok ? explained(await answer.json()) : h("p", { class: "bad" }, await refusal(answer)));
  });

  function explained({ rules, found: faults, named }) {
    if (!rules.length && !faults.length) return h("p", { class: "dim" }, "No rule that is known here says this.", places(named));
    const known = new Set(faults.map((v) => `${v.dialect} ${v.rule}`)); // what a fault says already is not said again
    const others = rules.filter((r) => !known.has(`${r.dialect} ${r.rule}`)).slice(0, 4);
    return [
      faults.length ? [h("h4", null, "In this history"), faults.map((v) => fault({ ...v, dialects: [v.dialect] }, choose))] : null,
      others.length ? [h("h4", null, faults.length ? "It may also mean" : "What it means"), others.map((r) => fault({ ...r, dialects: [r.dialect], severity: "rule" }, choose))] : null,
      places(named),
    ];
  }

  const places = (named) => (named.length ? h("p", null, "It names ", named.slice(0, 8).map(({ id, seq }, i) => [i ? ", " : "", h("span", { class: "mono" }, clip(id, 40)), seq ? [" in ", h("button", { type: "button", class: "quiet ref", onclick: () => choose(seq) }, `entry ${seq}`)] : null])) : null);

  let seen = NaN; // unlike anything
  return {
    node,
    render({ state, ui }) {
      if (!node.open) return;
      const now = state.session ? ui.verdicts : undefined;
      if (now === seen) return;
      seen = now;
      show(verdicts, now === undefined ? h("p", { class: "dim" }, "There is no history yet.") : verdictsView(now, choose));
    },
  };
}

/** What a refused request says, or that none came. */
export async function refusal(answer) {
  const said = await answer?.json().catch(() => null);
  if (!said) return "The server did not answer.";
  return `${said.message || said.error}${said.hint ? ` → ${said.hint}` : ""}`;
}
