// Schedules of all agents: when each fires next and what came of its last fire; on, off, now.

import { h, show } from "../h.js";
import { clip, clockTime, span } from "../format.js";

const ICONS = { completed: "✓", failed: "✕", timeout: "⧖", cancelled: "■", interrupted: "⚡", skipped: "–", running: "◌", queued: "○" };
const TONES = { completed: "ok", failed: "bad", timeout: "bad", interrupted: "bad", running: "tool" };

/** `get(path)` gives JSON or null; `command(agent, rest, words)` sends what a button says. */
export function createSchedules(get, command) {
  const list = h("div", { class: "schedules" });
  const node = h("section", { hidden: true }, h("h3", null, "Schedules"), list);

  async function look(names) {
    const each = await Promise.all(names.map((name) => get(`/api/agents/${encodeURIComponent(name)}/schedules`)));
    const all = each.filter(Boolean).flatMap((page) => page.schedules);
    node.hidden = !all.length;
    const key = JSON.stringify(all); // drawn anew only when something has changed
    if (list.dataset.key !== key) show(list, all.map(row));
    list.dataset.key = key;
  }

  function row(one) {
    const rest = `/schedules/${encodeURIComponent(one.id)}`;
    const deed = one.enabled ? "disable" : "enable";
    return h("div", { class: "execution schedule" },
      h("span", { class: one.enabled ? "ok" : "dim" }, one.enabled ? "● on" : "○ off"),
      h("span", { class: "time", title: one.next_fire ?? "" }, one.next_fire ? when(one.next_fire) : "never"),
      h("span", { class: "what" }, `${one.agent_name} · ${rhythm(one)} · ${clip(one.message, 80)}`, last(one.last_result)),
      button(one.enabled ? "Turn off" : "Turn on", () => command(one.agent_name, `${rest}/${deed}`, deed)),
      button("Now", () => command(one.agent_name, `${rest}/trigger`, "Trigger")));
  }

  return { node, look };
}

function last(result) {
  if (!result) return h("span", { class: "dim" }, " · has not fired yet");
  const said = result.error ?? result.response ?? "";
  return h("span", { class: TONES[result.status] ?? "dim", title: said }, ` · ${ICONS[result.status] ?? "?"} ${result.status} at ${clockTime(Date.parse(result.at))}${result.error ? `: ${clip(result.error, 60)}` : ""}`);
}

const rhythm = (one) => (one.cron ? `${one.cron} (${one.timezone})` : `every ${span(one.every_seconds * 1000)}`);

/** The time alone within a day, with the date beyond. */
function when(stamp) {
  const date = new Date(stamp);
  const isNear = date - Date.now() < 86_400_000;
  return isNear ? clockTime(date) : date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

function button(text, act) {
  return h("button", { type: "button", class: "small", onclick: act }, text);
}
