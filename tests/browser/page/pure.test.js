import { createClock } from "../../../src/agent_lab/static/clock.js";
import { requestDiff } from "../../../src/agent_lab/static/diff.js";
import { createFilter, line, parse } from "../../../src/agent_lab/static/filter.js";
import { duration, signature, span } from "../../../src/agent_lab/static/format.js";
import { blocks, inline } from "../../../src/agent_lab/static/markdown.js";
import { context, dollars, tokens } from "../../../src/agent_lab/static/spent.js";
import { EMPTY, reduce } from "../../../src/agent_lab/static/store.js";
import { activity, axisTicks, createScale, windowOf } from "../../../src/agent_lab/static/timescale.js";
import { layout } from "../../../src/agent_lab/static/track.js";
import { pill, promise, why } from "../../../src/agent_lab/static/why.js";
import { merge } from "../../../src/agent_lab/static/watch.js";
import { equal, heldTurn, journal, SESSION, test } from "./harness.js";

const play = (j) => reduce(EMPTY, [SESSION, ...j.entries]);
const OPEN = { state: "open", isBehind: false, retryIn: 0 };
const words = (parts) => parts.map((part) => part.text ?? part).join("");

function picture(state, { now, width = 800 } = {}) {
  const at = now ?? state.entries.at(-1).t;
  const scale = createScale(windowOf(state, { scope: "session", turn: null, now: at }), width);
  return { scale, ...layout(state, { scale, now: at, left: 0, right: width, turn: null, ref: null }) };
}

// -- the timeline ------------------------------------------------------------------------------

test("the held bar ends exactly where the last open tool bar ends, while it waits", () => {
  const state = play(heldTurn());
  const { bars } = picture(state, { now: state.entries.at(-1).t + 1000 });
  const end = (bar) => bar.x + bar.width;
  const held = bars.find((bar) => bar.kind === "held");
  const open = bars.find((bar) => bar.kind === "tool" && bar.isOpen);
  equal([held.isOpen, end(held)], [true, end(open)]);
});

test("the held bar ends exactly where the last open tool bar ended, once delivered", () => {
  const j = heldTurn();
  j.wait(500);
  j.reply("b");
  j.add("queue", { queue: "input", op: "take", item: "b", depth: 0 });
  j.delivered("m2", 4);
  const { bars } = picture(play(j));
  const ends = bars.filter((bar) => bar.kind === "tool").map((bar) => bar.x + bar.width);
  const held = bars.find((bar) => bar.kind === "held");
  equal(held.x + held.width, Math.max(...ends));
});

test("tools that run at the same time have lanes of their own, and lanes are used again", () => {
  const j = journal();
  j.turn(1);
  j.request();
  j.answer(null, "a", "b", "c");
  j.start("a");
  j.start("b");
  j.reply("a");
  j.start("c");
  const rows = picture(play(j)).bars.filter((bar) => bar.kind === "tool").map((bar) => bar.y);
  equal([rows[0] === rows[1], rows[0] === rows[2]], [false, true]);
});

test("long idle times between turns are folded", () => {
  const j = journal();
  for (let n = 1; n <= 3; n++) {
    j.user(`m${n}`);
    j.turn(n);
    j.delivered(`m${n}`);
    j.request();
    j.answer("Yes.");
    j.done();
    j.wait(3_600_000);
  }
  const state = play(j);
  const { scale } = picture(state);
  const folds = scale.pieces.filter((piece) => piece.isFold);
  equal([activity(state, 0).length, folds.length, folds.every((fold) => fold.x1 - fold.x0 < 47)], [3, 2, true]);
  const turn = state.turns[1];
  equal(scale.x(turn.endAt) - scale.x(turn.startAt) > 100, true);
});

test("time to pixel and back is the same time", () => {
  const scale = createScale({ from: 0, to: 100_000, active: [[0, 4000], [90_000, 100_000]] }, 600);
  for (const t of [0, 1500, 4000, 50_000, 95_000, 100_000]) equal(Math.round(scale.t(scale.x(t))), t);
});

test("the window of a running turn has room for what comes, and grows in steps", () => {
  const j = heldTurn();
  const state = play(j);
  const turn = state.turns[0];
  const to = (ms) => windowOf(state, { scope: "turn", turn, now: turn.startAt + ms }).to;
  equal([to(2500) === to(2600), to(2500) - turn.startAt > 2500, to(9000) > to(2500)], [true, true, true]);
});

test("ticks of the axis are round, and as many as fit", () => {
  const ticks = axisTicks({ t0: 0, t1: 10_000 }, 0, 0.07);
  equal(ticks.map((tick) => tick.label), ["1 s", "2 s", "3 s", "4 s", "5 s", "6 s", "7 s", "8 s", "9 s", "10 s"]);
});

test("only what is in sight is laid out", () => {
  const j = journal();
  for (let n = 1; n <= 300; n++) {
    j.user(`m${n}`);
    j.turn(n);
    j.delivered(`m${n}`);
    j.request();
    j.answer("Yes.");
    j.done();
  }
  const state = play(j);
  const scale = createScale(windowOf(state, { scope: "session", turn: null, now: 0 }), 40_000);
  const { bars, marks, arrows } = layout(state, { scale, now: 0, left: 10_000, right: 10_800, turn: null, ref: null });
  equal([bars.length > 0, bars.length < 20, marks.length < 120, arrows.length < 80], [true, true, true, true]);
});

// -- words -------------------------------------------------------------------------------------

test("the sentence names the call, its limit and who is held", () => {
  const state = play(heldTurn());
  equal(words(why(state, OPEN, [...state.calls.values()][1].startedAt + 1900)), "ChatAgent waits for the reply of b (tool_b, 1.9 s of 30 s). 1 user message is held behind it.");
});

test("the sentence says when the line is broken and when the page is behind", () => {
  const state = play(heldTurn());
  equal(words(why(state, { state: "lost", retryIn: 3000 }, 0)).startsWith("Disconnected, catching up"), true);
  equal(words(why(state, { ...OPEN, isBehind: true }, 0)).startsWith("Catching up"), true);
  equal(words(why(state, { state: "refused" }, 0)).startsWith("The server has another key now"), true);
});

test("the sentence of a failed turn gives its message, its code and then the hint", () => {
  const j = journal();
  j.turn(1);
  const end = j.add("error", { code: "provider_error", message: "400", hint: "Look at call_2.", pending: 0, scope: "turn" });
  equal(words(why(play(j), OPEN, Date.parse(end.at) + 12_000)), "Turn 1 failed 12 s ago: 400 (provider_error) → Look at call_2.");
});

test("a session without entries, and no session at all, have a sentence", () => {
  equal(words(why(EMPTY, { state: "off" }, 0)), "Nothing runs yet. Write a message to begin.");
  equal(words(why(reduce(EMPTY, [SESSION]), OPEN, 0)), "ChatAgent waits for a message in input.");
});

test("the pill says the state with its limit", () => {
  const state = play(heldTurn());
  const { text, tone, bound } = pill(state, OPEN, state.entries.at(-1).t);
  equal([text, tone, bound], ["waits for tool_b", "tool", "of 30 s"]);
});

test("the composer promises what each mode does", () => {
  const state = play(heldTurn());
  equal(promise(state, "steer"), "Held until b has replied, then delivered.");
  equal(promise(state, "follow_up"), "Delivered after this turn, as the next one.");
  equal(promise(state, "interrupt"), "Stops 1 tool call, then starts the next turn.");
  equal(promise(state, "reject"), "Rejected, because a turn runs.");
  equal(promise(EMPTY, "steer"), "Starts turn 1.");
});

test("times and calls in words", () => {
  equal([duration(40), duration(400), duration(12_340), duration(125_000)], ["40 ms", "0.4 s", "12.3 s", "2 min 5 s"]);
  equal([span(3_720_000), span(45_000)], ["1 h 2 min", "45 s"]);
  equal(signature("get_forecast", { city: "Oslo", days: 1 }), 'get_forecast(city="Oslo", days=1)');
});

// -- filter, difference, clock -----------------------------------------------------------------

test("the filter takes globs, fields, words and their opposite", () => {
  const { entries } = play(heldTurn());
  const found = (text) => entries.filter(parse(text)).map((x) => x.type);
  equal(found("type:tool_* b"), ["tool_call", "tool_started"]);
  equal(found("call:a -type:tool_call"), ["tool_started", "tool_reply"]);
  equal(found("rome"), ["accepted"]);
  equal(found("op:put queue:input"), ["queue", "queue"]);
  equal(found("type:(["), []);
});

test("new entries are added to what the filter found before", () => {
  const j = heldTurn();
  const sieve = createFilter();
  const all = play(j).entries;
  equal(sieve(all.slice(0, 12), "tools", "").length, 2);
  equal(sieve(all, "tools", "").map((x) => x.type), ["tool_call", "tool_call", "tool_started", "tool_started", "tool_reply"]);
  equal(sieve(all, "all", ""), all);
});

test("every entry has a line, also one with other fields", () => {
  for (const { e } of play(heldTurn()).entries) equal(line(e).length > 0, true);
  equal(line({ type: "held" }), "");
  equal(line({ type: "news", what: "x" }), 'what="x"');
});

test("the difference of two requests is what was added", () => {
  const a = { body: { model: "m", messages: [{ role: "user", content: "1" }] } };
  const b = { body: { model: "n", messages: [{ role: "user", content: "1" }, { role: "assistant", content: "2" }] } };
  const { same, removed, added, fields } = requestDiff(a, b);
  equal([same, removed, added.map((x) => x.at), fields], [1, [], [1], [{ key: "model", before: "m", after: "n" }]]);
});

test("the difference names a message that changed in the middle", () => {
  const of = (...texts) => ({ body: { messages: texts.map((content) => ({ role: "user", content })) } });
  const { same, tail, removed, added } = requestDiff(of("1", "2", "3"), of("1", "x", "3"));
  equal([same, tail, removed[0].message.content, added[0].message.content], [1, 1, "2", "x"]);
});

test("old time stamps do not put the clock back", () => {
  let ticks = 1000;
  const clock = createClock(() => ticks);
  clock.observe(500_000);
  ticks += 100;
  clock.observe(499_000);
  equal(clock.now(), 500_100);
});

test("messages that the entries leave out are no difference", () => {
  const of = (omitted, ...texts) => ({ omitted, body: { messages: texts.map((content) => ({ role: "user", content })) } });
  const { same, removed, added } = requestDiff(of(0, "sys", "1", "2", "3"), of(2, "sys", "3", "4"));
  equal([same, removed, added.map((x) => [x.at, x.message.content])], [2, [], [[4, "4"]]]);
});

test("markdown reads blocks, and HTML and links stay text", () => {
  const found = blocks("# Hi\n\nOne **two** `x*y*`\n- a\n  - b\n1. c\n```js\nlet a = '**';\n```\n> q\n<img src=x onerror=alert(1)> [l](javascript:alert(1))");
  equal(found.map((b) => b.kind), ["heading", "text", "list", "code", "quote", "text"]);
  equal(found[3].text, "let a = '**';");
  equal(inline(found[1].text), [{ kind: "text", text: "One " }, { kind: "bold", text: "two" }, { kind: "text", text: " " }, { kind: "code", text: "x*y*" }]);
  equal(inline(found[5].text).map((part) => part.kind), ["text"]);
});

test("markdown that is still being written breaks nothing", () => {
  const text = "Look:\n```py\nprint('**')\n```\n- **bold** and `code` _it_ a_b_c 2*3*4";
  for (let n = 0; n <= text.length; n++) for (const block of blocks(text.slice(0, n))) inline(block.text ?? "");
  equal(inline("a_b_c 2*3*4"), [{ kind: "text", text: "a_b_c 2*3*4" }]);
});

test("news of sessions: new ones first, known ones in their place, and those that are gone left out", () => {
  const [a, b, c] = ["a", "b", "c"].map((id) => ({ session_id: id, state: "idle" }));
  const news = { sessions: [{ session_id: "n", state: "running" }, { ...b, state: "running" }], gone: ["c"] };
  equal(merge([a, b, c], news).map((s) => `${s.session_id} ${s.state}`), ["n running", "a idle", "b running"]);
  equal(merge([a], { sessions: [] }), [a]);
});

// -- what it cost ------------------------------------------------------------------------------

test("context and cost are said as far as they are known", () => {
  equal(context({ context_used: 4096, context_max: 8192, context_percent: 50, cost_usd: 0.1234 }), "context 4,096 of 8,192 (50 %) · $0.12");
  equal(context({ context_used: 0, context_max: null, context_percent: null, cost_usd: null }), "context 0");
  equal([context(null), context({}), tokens(undefined), tokens({ cost_usd: 0 })], ["", "", "", "$0.00"]);
  equal(tokens({ input_tokens: 1234, output_tokens: null, cost_usd: 0.00321 }), "1,234 tokens in, ? out · $0.0032");
  equal([dollars(0.0000004), dollars(12)], ["under $0.0001", "$12.00"]);
});

test("a session's context is its last word, a turn has its own sum", () => {
  const j = journal();
  for (const [turn, used] of [[1, 100], [2, 300]]) {
    j.turn(turn);
    j.request();
    j.add("model_response", { finish_reason: "stop", usage: {}, turn_spent: { input_tokens: used }, session_spent: { context_used: used } });
  }
  j.add("model_response", { finish_reason: "stop", usage: null, turn_spent: null, session_spent: null });
  const state = play(j);
  equal(state.spent, { context_used: 300 });
  equal(state.turns.map((turn) => turn.spent), [{ input_tokens: 100 }, { input_tokens: 300 }]);
});
