// "Why is nothing happening?", answered in one sentence; and the pill, which says the state with
// its limit. Pure. A sentence is a list of parts: a string, or {text, tone, mono}.

import { clip, count, hopWords, shortId, span, ticking } from "./format.js";
import { openCalls, openModel, runningTurn } from "./store.js";

const mono = (text) => ({ text, mono: true });
const strong = (text, tone = null) => ({ text, tone, strong: true });

/** `link` is {state, retryIn, isBehind}; `now` the server's time in ms. */
export function why(state, link, now) {
  if (link.state === "refused") return [strong("The server has another key now", "bad"), ": it was started again. What was read stays here; to go on, open the address that ", mono("agent-lab serve"), " printed."];
  if (link.state === "lost") {
    return [strong("Disconnected", "bad"), `, catching up as soon as the server answers; a run does not need this page to go on. ${link.retryIn < 1000 ? "Trying now." : `Next try in ${span(link.retryIn)}.`}`];
  }
  if (link.isBehind) return [strong("Catching up"), `: ${count(state.lastSeq, "entry", "entries")} of ${state.session.last_seq.toLocaleString("en")} are here.`];
  if (!state.session) {
    return link.state === "connecting" || link.state === "open" ? ["Opening a session …"] : [strong("Nothing runs yet."), " Write a message to begin."];
  }
  if (state.session.state === "closed") return [strong("This session is closed."), " What it did can still be read; start a new session to go on."];
  if (state.parked.size) return parked(state, now);
  if (state.asked.size) return [...asked(state, now), ...behind(state)];
  if (runningTurn(state)) return [...running(state, now), ...behind(state)];
  if (state.waiting.length) return [strong("input"), ` has ${count(state.waiting.length, "message")}; ChatAgent takes it next.`];
  return resting(state, now);
}

function parked(state, now) {
  const first = [...state.parked.values()][0];
  const [what, where] = hopWords(first);
  return [strong("The gate", "held"), ` holds ${what}${first.hop === "model" ? "" : " of "}`, first.hop === "model" ? "" : mono(shortId(first.item)), `${where} for ${ticking(now - first.at)}. Nothing moves until it is released.`];
}

function asked(state, now) {
  const [first, ...more] = state.asked.values();
  return [mono(first.name), " ", strong("asks for your permission", "held"), ` (${ticking(now - first.at)})${more.length ? `, and ${count(more.length, "more call")} with it` : ""}. It runs when you allow it.`];
}

function running(state, now) {
  const calls = openCalls(state);
  if (calls.length) return tools(calls, state, now);
  const model = openModel(state);
  if (!model) return between(state, now);
  const time = `${ticking(now - model.startAt)}${limit(state, "model_timeout")}`;
  if (model.firstAt === null) return [strong("ChatAgent"), " waits for the first word of ", strong(`model call ${model.number}`, "model"), ` (${time}).`];
  return [strong("The model answers", "model"), `: model call ${model.number}, ${time}, ${count(model.pieces, "piece")} of text so far.`];
}

function tools(calls, state, now) {
  const started = calls.filter((call) => call.startedAt !== null);
  if (!started.length) {
    return [strong("EventAgent"), " has not yet taken ", mono(calls[0].id), ` (${calls[0].name}) from events: `, `${count(state.depth.events, "call")} waiting there.`];
  }
  const call = started.reduce((a, b) => (b.startedAt < a.startedAt ? b : a));
  const bound = call.timeout ? ` of ${span(call.timeout * 1000)}` : "";
  const parts = [strong("ChatAgent"), " waits for the reply of ", mono(call.id), ` (${call.name}, ${ticking(now - call.startedAt)}${bound})`];
  if (calls.length > 1) parts.push(` and of ${count(calls.length - 1, "more call")}`);
  parts.push(".");
  return parts;
}

function between(state, now) {
  const last = state.models.at(-1);
  if (last?.retry && last.turn === runningTurn(state).n) {
    const left = last.retry.at + last.retry.delay * 1000 - now;
    return [strong("The model call failed", "bad"), ` (${last.retry.code}); try ${last.retry.attempt + 1} ${left > 0 ? `in ${ticking(left)}` : "is about to start"}.`];
  }
  return [strong("ChatAgent"), " decides what to do next."];
}

function behind(state) {
  const held = state.waiting.filter((id) => state.messages.get(id).status === "held");
  if (!held.length) return [];
  return [" ", strong(count(held.length, "user message"), "held"), ` ${held.length === 1 ? "is" : "are"} held behind it.`];
}

function resting(state, now) {
  const last = state.turns.at(-1);
  if (!last && state.counts.imported) return [strong("This history was opened."), " Write a message to go on with it."];
  if (!last) return ["ChatAgent waits for a message in input."];
  const ago = now - last.endAt < 1500 ? "just now" : `${span(now - last.endAt)} ago`;
  if (last.end === "error") return [strong(`Turn ${last.n} failed`, "bad"), ` ${ago}: ${clip(last.message || "no message", 200)} `, mono(`(${last.code ?? "error"})`), last.hint ? ` → ${last.hint}` : ""];
  const how = last.end === "cancelled" ? "was cancelled" : "is done";
  return [`Turn ${last.n} ${how}, ${ago}. `, strong("ChatAgent"), " waits for a message in input."];
}

const limit = (state, name) => {
  const seconds = state.session?.agent?.limits?.[name];
  return seconds ? ` of ${span(seconds * 1000)}` : "";
};

/** {icon, text, tone, time, bound}: `time` ticks, `text` changes only when the state does. */
export function pill(state, link, now) {
  if (link.state === "lost" || link.state === "refused") return { icon: "⚠", text: "disconnected", tone: "bad" };
  if (link.isBehind) return { icon: "↻", text: "catching up", tone: "model" };
  if (!state.session) return { icon: "○", text: link.state === "off" ? "ready" : "opening", tone: "dim" };
  if (state.session.state === "closed") return { icon: "■", text: "closed", tone: "dim" };
  if (state.parked.size) return { icon: "‖", text: "paused at the gate", tone: "held" };
  if (state.asked.size) return { icon: "?", text: `asks: ${[...state.asked.values()][0].name}`, tone: "held" };
  const calls = runningTurn(state) ? openCalls(state) : [];
  if (calls.length) {
    const call = calls.find((c) => c.startedAt !== null) ?? calls[0];
    const more = calls.length > 1 ? ` +${calls.length - 1}` : "";
    const bound = call.timeout ? `of ${span(call.timeout * 1000)}` : "";
    return { icon: "◌", text: `waits for ${call.name}${more}`, tone: "tool", time: ticking(now - (call.startedAt ?? call.calledAt)), bound };
  }
  const model = runningTurn(state) && openModel(state);
  if (model) return { icon: "◌", text: model.firstAt === null ? "waits for the model" : "model answers", tone: "model", time: ticking(now - model.startAt) };
  if (runningTurn(state) || state.waiting.length) return { icon: "◌", text: "running", tone: "model" };
  const end = state.turns.at(-1)?.end;
  if (end === "error") return { icon: "✕", text: "failed", tone: "bad" };
  if (end === "cancelled") return { icon: "■", text: "cancelled", tone: "dim" };
  if (end === "done") return { icon: "✓", text: "done", tone: "ok" };
  return { icon: "○", text: "idle", tone: "dim" };
}

/** What the composer promises for a message sent now in this mode. */
export function promise(state, mode) {
  if (!runningTurn(state)) return state.waiting.length ? "Delivered after the message that waits." : `Starts turn ${(state.turns.at(-1)?.n ?? 0) + 1}.`;
  if (mode === "reject") return "Rejected, because a turn runs.";
  if (mode === "follow_up") return "Delivered after this turn, as the next one.";
  const calls = openCalls(state);
  if (mode === "interrupt") return calls.length ? `Stops ${count(calls.length, "tool call")}, then starts the next turn.` : "Stops the model, then starts the next turn.";
  if (!calls.length) return "Delivered when the model has answered.";
  const names = calls.map((call) => call.id).slice(0, 2).join(", ") + (calls.length > 2 ? ` and ${calls.length - 2} more` : "");
  return `Held until ${names} ${calls.length === 1 ? "has" : "have"} replied, then delivered.`;
}
