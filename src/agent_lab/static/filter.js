// One line for each entry, and which entries a filter lets through. Pure.

import { clip, count, shortId, signature } from "./format.js";
import { ended } from "./gate.js";

export const KINDS = {
  messages: ["accepted", "held", "delivered", "withdrawn", "rejected", "edited", "imported"],
  queues: ["queue", "paused", "resumed", "dropped"],
  model: ["model_request", "model_response", "retrying", "text_delta", "assistant"],
  tools: ["tool_call", "tool_started", "tool_reply", "late_reply", "permission_requested", "permission_resolved"],
  ends: ["done", "error", "cancelled"],
};

const KIND_OF = new Map(Object.entries(KINDS).flatMap(([kind, types]) => types.map((type) => [type, kind])));

/** The colour's meaning for a type; bad only when something went wrong. */
export function tone(e) {
  if (e.type === "error" || e.fate === "dropped" || e.type === "rejected" || e.type === "retrying" || (e.is_error && e.kind !== "cancelled")) return "bad";
  if (e.type === "held" || e.type === "paused" || e.type === "withdrawn" || e.type === "permission_requested") return "held";
  if (e.type === "accepted" || e.type === "delivered" || e.type === "edited") return "user";
  if (e.type === "done") return "ok";
  return { model: "model", tools: "tool" }[KIND_OF.get(e.type)] ?? "dim";
}

const quote = (text) => JSON.stringify(clip(text, 160));

const LINES = {
  accepted: (e) => `${shortId(e.message_id)} ${quote(e.content)}${e.mode === "steer" ? "" : ` · ${e.mode}`}`,
  held: (e) => `${shortId(e.message_id)} · blocked by ${e.blocked_by.join(", ")}`,
  delivered: (e) => `${shortId(e.message_id)} · at position ${e.position}, system not counted`,
  withdrawn: (e) => `${shortId(e.message_id)} · ${e.reason}`,
  rejected: (e) => `${shortId(e.message_id)} · ${e.code}: ${clip(e.message, 160)}`,
  imported: ({ index, message: m, fate }) =>
    `${index === null ? "made" : `[${index}]`} ${m.role} ${m.content ? quote(m.content) : ""}${m.tool_calls?.length ? ` calls ${m.tool_calls.map((c) => c.id).join(", ")}` : ""}${fate === "kept" ? "" : ` · ${fate}`}`,
  queue: (e) => `${e.queue} ${e.op} ${shortId(e.item)} · depth ${e.depth}`,
  model_request: (e) => `${e.dialect} ${e.model} · ${count((e.body?.messages ?? e.body?.input ?? e.body?.contents ?? []).length, "message")}`,
  model_response: (e) => `${e.finish_reason}${e.usage ? ` · ${e.usage.input_tokens ?? "?"} in, ${e.usage.output_tokens ?? "?"} out` : ""}`,
  retrying: (e) => `try ${e.attempt} failed · ${e.code}: ${clip(e.message, 160)}`,
  text_delta: (e) => quote(e.text),
  assistant: (e) => `${e.content ? quote(e.content) : "no text"}${e.tool_calls?.length ? ` · calls ${e.tool_calls.map((c) => c.id).join(", ")}` : ""}${e.partial ? " · cut" : ""}`,
  tool_call: (e) => `${shortId(e.call_id)} ${signature(e.name, e.arguments, 200)}`,
  tool_started: (e) => `${shortId(e.call_id)} ${e.name}${e.timeout ? ` · limit ${e.timeout} s` : ""}`,
  tool_reply: (e) => `${shortId(e.call_id)} ${e.kind === "result" ? "" : `${e.kind}: `}${quote(e.content)}`,
  late_reply: (e) => `${shortId(e.call_id)} too late: ${quote(e.content)}`,
  permission_requested: (e) => `${shortId(e.call_id)} ${signature(e.name, e.arguments, 160)} asks`,
  permission_resolved: (e) => `${shortId(e.call_id)} ${ended(e)}`,
  paused: (e) => `${e.hop}${e.queue ? ` ${e.queue}` : ""} ${shortId(e.item)} is parked`,
  resumed: (e) => `hop ${e.hop} passed`,
  edited: (e) => `${shortId(e.item)} · now ${quote(typeof e.after === "string" ? e.after : JSON.stringify(e.after))}`,
  dropped: (e) => `hop ${e.hop} ${shortId(e.item)} · ${e.why}`,
  done: (e) => `turn ${e.turn} · ${e.reason}${e.pending ? ` · ${e.pending} pending` : ""}`,
  error: (e) => `turn ${e.turn} · ${e.code}: ${clip(e.message, 200)}`,
  cancelled: (e) => `turn ${e.turn} · ${e.reason}${e.by ? ` by ${shortId(e.by)}` : ""}${e.pending ? ` · ${e.pending} pending` : ""}`,
};

const KNOWN = new Set(["seq", "session_id", "at", "turn", "step", "type"]);

/** One line; a type this page does not know is shown by its fields. */
export function line(e) {
  try {
    if (LINES[e.type]) return LINES[e.type](e);
  } catch {
    // An entry with other fields than documented is still shown.
  }
  return Object.keys(e).filter((key) => !KNOWN.has(key)).map((key) => `${key}=${clip(JSON.stringify(e[key]), 60)}`).join(" ");
}

/** `type:tool_* turn:2 call_2 -queue` -> a test on {seq, type, e}; all words must hold. */
export function parse(text) {
  const tests = text.trim().split(/\s+/).filter(Boolean).map(word);
  return (x) => tests.every((test) => test(x));
}

function word(text) {
  if (text.length > 1 && text.startsWith("-")) {
    const test = word(text.slice(1));
    return (x) => !test(x);
  }
  const [, name, value] = /^(type|turn|step|seq|queue|op|kind|call|tool|message):(.*)$/.exec(text) ?? [];
  if (name === undefined) {
    const wanted = text.toLowerCase();
    return (x) => haystack(x).includes(wanted);
  }
  const glob = globOf(value);
  const fields = { call: ["call_id"], tool: ["name"], message: ["message_id"] }[name] ?? [name];
  return (x) => fields.some((field) => x.e[field] !== null && x.e[field] !== undefined && glob.test(String(x.e[field])));
}

const globOf = (value) => new RegExp(`^${value.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".")}$`, "i");

const texts = new WeakMap();

function haystack(x) {
  let text = texts.get(x.e);
  if (text === undefined) {
    const e = x.e;
    text = `${e.type} ${line(e)} ${e.message_id ?? ""} ${e.call_id ?? ""} ${e.item ?? ""} ${String(e.content ?? "").slice(0, 4000)}`.toLowerCase();
    texts.set(e, text);
  }
  return text;
}

/** Keeps the last answer, so that new entries alone are tested while a run goes on. */
export function createFilter() {
  let last = { kind: null, text: null, entries: null, seen: 0, found: [] };
  return (entries, kind, text) => {
    if (kind === "all" && !text.trim()) return entries;
    const isSame = last.kind === kind && last.text === text && last.entries[0] === entries[0] && last.seen <= entries.length;
    const found = isSame ? last.found.slice() : [];
    const test = parse(text);
    for (let i = isSame ? last.seen : 0; i < entries.length; i++) {
      if ((kind === "all" || KIND_OF.get(entries[i].type) === kind) && test(entries[i])) found.push(entries[i]);
    }
    last = { kind, text, entries, seen: entries.length, found };
    return found;
  };
}
