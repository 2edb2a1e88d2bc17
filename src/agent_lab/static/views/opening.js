// "Open a history": pasted or from a file, it becomes a session to look at and to go on with.

import { h, say, show } from "../h.js";
import { count } from "../format.js";
import { refusal } from "./checking.js";
import { fault } from "./verdicts.js";

const LONGEST = 1_000_000; // what one request may carry

export function createOpening(actions, makeDialog) {
  const area = h("textarea", { class: "mono", "aria-label": "A history", rows: "8", spellcheck: "false", placeholder: '[{"role": "user", "content": "…"}, …], a request body, a Gemini “contents”, or JSON lines' });
  const file = h("input", { type: "file", "aria-label": "A history file", accept: ".json,.jsonl,.ndjson,.txt,application/json" });
  const go = h("button", { type: "submit", class: "primary" }, "Open it");
  const note = h("div", { role: "status" });
  const form = h("form", { class: "explain" },
    h("p", { class: "dim" }, "From OpenAI (Chat or Responses), Anthropic, Gemini, or a journal of agent_lab. It is checked, mended where no provider would take it, and opened as a session that goes on with the agent chosen above."),
    area, h("div", { class: "row" }, file, h("span", { class: "grow" }), go), note);
  const node = makeDialog("Open a history", form);
  node.classList.add("wide");

  file.addEventListener("change", async () => {
    const chosen = file.files[0];
    if (!chosen) return;
    if (chosen.size > LONGEST) return say(note, tooLong(chosen.size));
    area.value = await chosen.text();
    say(note, "");
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!area.value.trim()) return;
    if (area.value.length > LONGEST) return say(note, tooLong(area.value.length));
    go.disabled = true;
    const answer = await actions.checks.open(area.value, actions.agent()).catch(() => null);
    go.disabled = false;
    if (!answer?.ok) return show(note, h("p", { class: "bad" }, await refusal(answer)));
    opened(await answer.json());
  });

  function opened(said) {
    actions.openSession(said.session_id);
    area.value = "";
    const done = () => (node.close(), show(note));
    if (said.valid && !said.changes.length) return done();
    show(note,
      h("h3", null, `Opened: ${count(said.messages, "message")} of ${said.format}`),
      said.violations.slice(0, 20).map((v) => fault({ ...v, dialects: [said.format] }, (seq) => (done(), actions.select(seq)))),
      said.changes.length ? [h("h3", null, "Mended"), h("ul", { class: "changes" }, said.changes.slice(0, 40).map((change) => h("li", null, h("b", null, change.deed), change.where === null ? " " : ` [${change.where}] `, change.reason ?? "")))] : null,
      h("button", { type: "button", class: "primary", onclick: done }, "Look at it"));
  }

  return { node };
}

const tooLong = (size) => `This is ${(size / 1e6).toFixed(1)} MB, and a page may send 1 MB: start the server with this file, agent-lab serve --history FILE.`;
