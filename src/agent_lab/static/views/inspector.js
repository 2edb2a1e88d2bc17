// The inspector: one entry, its story, and for a model request what changed since the one before.

import { h, show } from "../h.js";
import { requestDiff } from "../diff.js";
import { clip, clockTime, count, shortId } from "../format.js";
import { line, tone } from "../filter.js";
import { entryAt, storyOf } from "../store.js";
import { createCopying } from "./copying.js";
import { difference } from "./difference.js";
import { jsonTree } from "./json.js";
import { createUnheld } from "./unheld.js";
import { verdictsView } from "./verdicts.js";

export function createInspector(root, actions) {
  const title = h("span", { class: "title" });
  const copying = createCopying(bodyOf);
  const unheld = createUnheld(actions);
  const body = h("div", { class: "scroll body", tabindex: "0", "data-keys": "own", "aria-label": "Entry, scrolls" });
  root.append(h("h2", null, title), body);
  let seen = {};
  let whole = null; // the request's body, fetched because the entry left some of it out

  return {
    copy: copying.copy,
    render({ state, ui }) {
      const entry = ui.selected === null ? null : entryAt(state, ui.selected);
      const story = entry?.ref ? storyLength(state, entry.ref) : 0;
      const agent = state.session?.agent ?? ui.agents.find((a) => a.name === ui.agent);
      const verdicts = state.session ? ui.verdicts : undefined;
      if (seen.entry === entry && seen.story === story && seen.verdicts === verdicts && (entry || seen.agent === agent)) return;
      const isOther = seen.entry !== entry;
      seen = { entry, story, agent, verdicts };
      copying.set(entry);
      if (isOther) whole = null;
      show(title, entry ? [`Entry ${entry.seq} · `, h("span", { class: tone(entry.e) }, entry.type)] : "Inspector");
      show(body, entry ? about(entry, state) : overview(agent, verdicts));
      if (isOther) body.scrollTop = 0;
    },
  };

  function about(x, state) {
    return [
      h("div", { class: "facts-row" }, h("span", { class: "dim" }, [clockTime(x.t), x.e.turn ? `turn ${x.e.turn}` : null, x.e.step ? `step ${x.e.step}` : null].filter(Boolean).join(" · ")), copying.node),
      x.type === "model_request" ? request(x, state) : null,
      x.type === "error" ? h("div", { class: "box" }, h("b", { class: "mono" }, x.e.code), h("p", null, x.e.message), x.e.hint ? h("p", { class: "hint" }, "→ ", x.e.hint) : null) : null,
      x.type === "model_request" ? h("h3", null, "Request as sent") : h("h3", null, "Entry"),
      jsonTree(x.type === "model_request" ? (whole ?? x.e.body) : fields(x.e), { open: 2 }),
      x.type === "held" || x.type === "model_request" ? unheld.of(x) : null,
      x.type === "held" || x.type === "model_request" ? now(seen.verdicts) : null,
      storyView(x, state),
    ];
  }

  function now(verdicts) {
    if (verdicts === undefined) return null;
    return [h("h3", null, "The history now, and would it be accepted?"), verdictsView(verdicts, (seq) => actions.select(seq, "inspector"))];
  }

  function overview(agent, verdicts) {
    return [
      h("p", { class: "dim" }, "Choose an entry, a bar or a message: it is shown here, with everything that happened to it."),
      now(verdicts),
      agent ? [h("h3", null, `Agent ${agent.name}`), jsonTree(agent, { open: 1 })] : null,
    ];
  }

  function request(x, state) {
    const at = state.requests.indexOf(x.seq);
    const before = at > 0 ? entryAt(state, state.requests[at - 1]) : null;
    const omitted = x.e.omitted && !whole ? h("p", { class: "dim" }, `The first ${count(x.e.omitted, "message")} after the instructions are left out here. `, h("button", { type: "button", class: "small", onclick: () => load(x) }, "load all of it")) : null;
    return [omitted, h("h3", null, before ? ["Changed since ", entryLink(before), " "] : "The first request"), before ? difference(requestDiff(before.e, x.e)) : h("p", { class: "dim" }, "Nothing was sent before it in this session.")];
  }

  /** The body of a model request, asked for where the entry holds it in part only. */
  async function bodyOf(x) {
    if (!x.e.omitted) return x.e.body;
    const path = `/api/sessions/${encodeURIComponent(x.e.session_id)}/entries/${x.seq}/body`;
    const answer = await actions.link.get(path).catch(() => null);
    return answer?.ok ? answer.json() : x.e.body;
  }

  async function load(x) {
    const found = await bodyOf(x);
    if (seen.entry !== x) return;
    whole = found;
    show(body, about(x, actions.link.state));
  }

  function entryLink(x) {
    return h("button", { type: "button", class: "quiet ref", onclick: () => actions.select(x.seq, "inspector") }, `entry ${x.seq}`);
  }

  /** The life of a message, a call, a model call or a turn: every entry about it, in order. */
  function storyView(x, state) {
    const all = storyOf(state, x.ref);
    if (all.length < 2) return null;
    const first = all[0].t;
    return [
      h("h3", null, `Story of ${nameOf(x)}`, h("span", { class: "dim" }, count(all.length, "entry", "entries"))),
      h("ol", { class: "story mono" }, grouped(all).map(([y, ...more]) => h("li", null, h("button", { type: "button", class: "quiet", "aria-current": y === x || more.includes(x) ? "true" : null, onclick: () => actions.select(y.seq, "inspector") },
        h("span", { class: "dim" }, `+${((y.t - first) / 1000).toFixed(3)}`), h("span", { class: tone(y.e) }, y.type), h("span", { class: "what" }, more.length ? `${more.length + 1} pieces “${clip([y, ...more].map((z) => z.e.text).join(""), 80)}”` : line(y.e)))))),
    ];
  }
}

/** Pieces of text that follow each other are one line of the story. */
function grouped(all) {
  const groups = [];
  for (const x of all) {
    if (x.type === "text_delta" && groups.at(-1)?.[0].type === "text_delta") groups.at(-1).push(x);
    else groups.push([x]);
  }
  return groups.slice(0, 200);
}

/** Cheap to ask in each picture: how many entries are there at all, for a ref that can still grow. */
const storyLength = (state, ref) => (ref.startsWith("r:") && state.models.at(-1)?.ref !== ref ? 0 : lastAbout(state, ref));

function lastAbout(state, ref) {
  for (let i = state.entries.length - 1, n = 0; i >= 0 && n < 400; i--, n++) if (state.entries[i].ref === ref) return state.entries[i].seq;
  return 0;
}

function nameOf(x) {
  const [kind, rest] = [x.ref.slice(0, 1), x.ref.slice(2)];
  return { m: `message ${shortId(rest)}`, c: `call ${rest.slice(rest.indexOf("/") + 1)}`, r: "this model call", t: `turn ${rest}` }[kind];
}

const ENVELOPE = new Set(["seq", "session_id", "at", "turn", "step", "type"]);
const fields = (e) => Object.fromEntries(Object.entries(e).filter(([key]) => !ENVELOPE.has(key)));
