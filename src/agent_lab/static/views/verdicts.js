// Would a provider accept this history? A chip for each dialect, and what a fault means.

import { h } from "../h.js";
import { summary } from "../checks.js";
import { count } from "../format.js";

/** The chips, and a box for each fault; `choose(seq)` opens the entry that caused it. */
export function verdictsView(verdicts, choose) {
  if (!verdicts) return h("p", { class: "dim" }, "Asking the server …");
  const { dialects, faults, warnings } = summary(verdicts);
  const bad = new Set(faults.map((v) => v.dialect));
  const doubtful = new Set(warnings.map((v) => v.dialect));
  return [
    h("div", { class: "verdicts" }, dialects.map((name) => chip(name, bad.has(name) ? "bad" : doubtful.has(name) ? "tool" : "ok"))),
    [...grouped(faults), ...grouped(warnings)].map((group) => fault(group, choose)),
    verdicts.imported && !verdicts.imported.valid ? imported(verdicts.imported, choose) : null,
  ];
}

const SIGNS = { ok: ["✓", "accepted"], bad: ["✗", "refused"], tool: ["!", "accepted, perhaps"] };
const chip = (name, tone) => h("span", { class: `verdict ${tone}`, title: `${name}: ${SIGNS[tone][1]}` }, `${SIGNS[tone][0]} ${name}`);

/** The same fault in several dialects is told once. */
function grouped(violations) {
  const groups = new Map();
  for (const v of violations) {
    const key = JSON.stringify([v.explanation, v.provider_error, v.where, v.seq]);
    if (!groups.has(key)) groups.set(key, { ...v, dialects: [] });
    groups.get(key).dialects.push(v.dialect);
  }
  return [...groups.values()];
}

/** One violation, with the provider's words, its cause and its repair. */
export function fault(v, choose) {
  const where = v.seq ? ["Cause: ", h("button", { type: "button", class: "quiet ref", onclick: () => choose(v.seq) }, `entry ${v.seq}`)] : [];
  const at = v.message === null || v.message === undefined ? (v.where === null || v.where === undefined ? "" : `at [${v.where}]`) : `message ${v.message}`;
  return h("div", { class: "box", "data-severity": v.severity ?? "error" },
    h("b", null, `${v.dialects?.length ? `${v.dialects.join(", ")}: ` : ""}${v.rule}`),
    h("p", null, v.explanation),
    v.provider_error ? h("p", { class: "mono said" }, v.provider_error) : null,
    v.fix ? h("p", { class: "hint" }, "→ ", v.fix) : null,
    where.length || at ? h("p", { class: "dim" }, where, where.length && at ? ` · ${at}` : at) : null);
}

function imported({ format, violations }, choose) {
  return [h("h3", null, "As it was opened", h("span", { class: "dim" }, `${format} · ${count(violations.length, "fault")}, mended since`)), violations.map((v) => fault({ ...v, dialects: [format] }, choose))];
}

/** The badge of the top bar: {text, more, tone, title}; a narrow window leaves `more` out. */
export function badge(verdicts) {
  if (!verdicts) return null;
  const { dialects, faults } = summary(verdicts);
  const bad = new Set(faults.map((v) => v.dialect)).size;
  if (bad) return { text: `✗ ${bad} of ${dialects.length}`, more: " dialects", tone: "bad", title: "Some providers would refuse this history (v)" };
  if (verdicts.imported && !verdicts.imported.valid) return { text: "! mended", more: `, ✓ ${dialects.length} dialects`, tone: "tool", title: "The history that was opened had faults; as it stands each dialect accepts it (v)" };
  return { text: `✓ ${dialects.length}`, more: " dialects", tone: "ok", title: "Each provider's rules accept this history (v)" };
}
