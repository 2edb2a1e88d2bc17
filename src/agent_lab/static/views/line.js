// Agents and their line: who runs, who waits, where from and for how long; and what was asked before.

import { h, keyed, say, show } from "../h.js";
import { clip, clockTime, duration, ticking } from "../format.js";
import { context } from "../spent.js";
import { createSchedules } from "./schedules.js";

const LOST = "The line to the server is broken: this is how it was.";
const PAUSE = 250; // ms between two looks, however much happens
const STATUSES = ["", "queued", "running", "completed", "failed", "cancelled", "timeout", "interrupted", "skipped"];
const SOURCES = ["", "user", "schedule", "agent", "mcp"];
const ICONS = { queued: "○", running: "◌", completed: "✓", failed: "✕", cancelled: "■", timeout: "⧖", interrupted: "⚡", skipped: "–" };
const TONES = { running: "tool", completed: "ok", failed: "bad", timeout: "bad", interrupted: "bad" };

export function createLine(actions, makeDialog) {
  const agents = h("div", { class: "line-agents" });
  const status = choice("Status", STATUSES);
  const source = choice("Source", SOURCES);
  const list = h("div", { class: "executions" });
  const note = h("p", { class: "dim", role: "status" });
  const schedules = createSchedules((path) => get(path), (...said) => command(...said));
  const node = makeDialog("Agents and their line", agents, schedules.node, note,
    h("h3", null, "Executions", h("span", { class: "grow" }), status, source), list);
  node.classList.add("wide");
  let isLooking = false;
  let isNews = false;

  const url = (name, rest) => `/api/agents/${encodeURIComponent(name)}${rest}`;
  const get = async (path) => {
    const answer = await actions.link.get(path).catch(() => null);
    return answer?.ok ? answer.json() : null;
  };

  /** Opens the window: looked at once, and whenever the server tells of a change. */
  function open() {
    say(note, "");
    const heard = (frame) => {
      if (note.textContent === LOST) say(note, "");
      actions.heard(frame);
      look();
    };
    actions.watch.follow(node, heard, () => say(note, LOST));
    const ticks = setInterval(() => actions.set({}), 1000); // times go on
    node.addEventListener("close", () => clearInterval(ticks), { once: true });
    look();
  }

  async function look() {
    isNews = true;
    if (isLooking) return;
    isLooking = true;
    while (isNews && node.open) {
      isNews = false;
      await draw();
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    isLooking = false;
  }

  async function draw() {
    const names = actions.agents().map((agent) => agent.name);
    const filter = new URLSearchParams({ limit: "50", ...(status.value && { status: status.value }), ...(source.value && { source: source.value }) });
    const [lines, records] = await Promise.all([
      Promise.all(names.map((name) => get(url(name, "/queue")))),
      Promise.all(names.map((name) => get(url(name, `/executions?${filter}`)))),
    ]);
    drawLines(lines.filter(Boolean));
    await schedules.look(names);
    drawRecords(records.filter(Boolean).flatMap((page) => page.executions));
  }
  status.addEventListener("change", look);
  source.addEventListener("change", look);

  /** Sends what was confirmed, says what came of it, and looks again. */
  async function command(name, rest, words) {
    const answer = await actions.link.post(url(name, rest), {}).catch(() => null);
    const said = await answer?.json().catch(() => null);
    say(note, said ? `${words}: ${said.warning ?? said.message ?? (said.cleared_count === undefined ? said.status : `${said.cleared_count} sent away`)}` : "The server did not answer.");
    look();
  }

  function drawLines(lines) {
    keyed(agents, lines, (line) => line.agent_name, () => {
      // Drawn anew only when something but a time has changed: a button is not taken from under the pointer.
      const part = { node: h("section", { class: "line-agent" }), key: "", update: (line) => {
        const key = JSON.stringify(line, (name, value) => (name.endsWith("_seconds") ? undefined : value));
        if (key !== part.key) show(part.node, agentView(line));
        part.key = key;
      } };
      return part;
    });
    for (const part of agents._keyed.values()) part.update(part.item);
  }

  function agentView(line) {
    const chat = line.current_execution ? [line.current_execution] : [];
    const name = line.agent_name;
    return [
      h("h3", null, h("b", null, name), h("span", { class: line.is_busy ? "tool" : "dim" }, line.is_busy ? "◌ busy" : "○ free"), h("span", { class: "dim" }, `${chat.length} of ${line.capacity} runs, ${line.queue_length} wait · tasks ${line.tasks.running.length} of ${line.tasks.capacity}, ${line.tasks.queue_length} wait`),
        h("span", { class: "grow" }),
        line.queue_length ? sure(`clear:${name}`, "Clear", () => command(name, "/queue/clear", "Cleared")) : null,
        chat.length ? sure(`release:${name}`, "Release", () => command(name, "/queue/release", "Released")) : null),
      [...chat, ...line.queued_executions, ...line.tasks.running, ...line.tasks.queued_executions].map((one) => waiting(name, one)),
    ];
  }

  function waiting(name, one) {
    const isRunning = one.position === null;
    const since = Date.parse(isRunning ? (one.started_at ?? one.queued_at) : one.queued_at);
    return h("div", { class: "execution" }, h("span", { class: isRunning ? "tool" : "held" }, isRunning ? "◌ runs" : `${one.position}. waits`), h("span", { class: "time", "data-since": since }, ticking(actions.link.now() - since)),
      h("span", { class: "what" }, clip(one.message, 90)), h("span", { class: "dim" }, from(one)),
      sure(`end:${one.id}`, "Terminate", () => command(name, `/executions/${encodeURIComponent(one.id)}/terminate`, "Terminate")));
  }

  function drawRecords(records) {
    records.sort((a, b) => (a.queued_at < b.queued_at ? 1 : -1));
    const key = JSON.stringify(records.map((e) => [e.id, e.status]));
    if (list.dataset.key === key) return;
    list.dataset.key = key;
    show(list, records.length ? records.map(record) : h("p", { class: "dim" }, "Nothing was asked over HTTP, by a schedule or by another agent yet. What this page says to its own sessions takes no place in the line."));
  }

  function record(e) {
    const spent = e.started_at && e.finished_at ? duration(Date.parse(e.finished_at) - Date.parse(e.started_at)) : "";
    return h("button", { type: "button", class: "execution", disabled: !e.session_id, title: e.session_id ? "Its journal" : "It has no session", onclick: () => (node.close(), actions.openSession(e.session_id), actions.set({ turn: e.turn })) },
      h("span", { class: TONES[e.status] ?? "dim" }, `${ICONS[e.status] ?? "?"} ${e.status}`), h("span", { class: "time" }, clockTime(Date.parse(e.queued_at))),
      h("span", { class: "what" }, clip(e.error ? `${e.message} · ${e.error}` : e.message, 110)), h("span", { class: "dim" }, [e.agent_name, e.kind, from(e), spent, context(e)].filter(Boolean).join(" · ")));
  }

  return { node, open };
}

const from = (e) => [e.source, e.source_agent ?? e.source_user ?? e.mcp_key_name].filter(Boolean).join(" ");

function choice(name, values) {
  return h("select", { "aria-label": name }, values.map((value) => h("option", { value }, value || `any ${name.toLowerCase()}`)));
}

const asked = new Map(); // key -> when it was pressed once; the list is drawn anew while one decides

/** A button that must be pressed twice within four seconds. */
function sure(key, text, act) {
  const isAsked = () => performance.now() - (asked.get(key) ?? -Infinity) < 4000;
  const button = h("button", { type: "button", class: "small danger", onclick: () => {
    if (isAsked()) return asked.delete(key), act();
    asked.set(key, performance.now());
    say(button, `${text}? Press again`);
  } }, isAsked() ? `${text}? Press again` : text);
  return button;
}
