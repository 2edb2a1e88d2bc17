import { asCurl, asJson, asPython } from "../../../src/agent_lab/static/copies.js";
import { line } from "../../../src/agent_lab/static/filter.js";
import { sampleEntries } from "../../../src/agent_lab/static/sample.js";
import { EMPTY, reduce } from "../../../src/agent_lab/static/store.js";
import { createScale, windowOf } from "../../../src/agent_lab/static/timescale.js";
import { layout } from "../../../src/agent_lab/static/track.js";
import { pill, why } from "../../../src/agent_lab/static/why.js";
import { equal, heldTurn, journal, SESSION, test } from "./harness.js";

const OPEN = { state: "open", isBehind: false, retryIn: 0 };
const play = (entries) => reduce(EMPTY, [SESSION, ...entries]);
const words = (parts) => parts.map((part) => part.text ?? part).join("");

function picture(state, now = state.entries.at(-1).t) {
  const scale = createScale(windowOf(state, { scope: "session", turn: null, now }), 800);
  return layout(state, { scale, now, left: 0, right: 800, turn: null, ref: null });
}

/** A call that asks for permission. */
function asking() {
  const j = journal();
  j.user("m1", "Book it");
  j.turn(1);
  j.request();
  j.answer(null, "a");
  j.add("permission_requested", { request_id: "p1", call_id: "a", name: "tool_a", arguments: { n: 1 } });
  return j;
}

// -- asked and paused --------------------------------------------------------------------------

test("a call that asks says so, in the sentence, the pill and as a held bar", () => {
  const state = play(asking().entries);
  const now = state.entries.at(-1).t + 2000;
  equal(words(why(state, OPEN, now)), "tool_a asks for your permission (2.0 s). It runs when you allow it.");
  equal([pill(state, OPEN, now).text, pill(state, OPEN, now).tone], ["asks: tool_a", "held"]);
  const bar = picture(state, now).bars.find((b) => b.kind === "held");
  equal([bar.isOpen, bar.ref, bar.label.startsWith("asks permission: tool_a")], [true, "c:1/a", true]);
});

test("an answer ends the asking, and what was allowed with other arguments is shown so", () => {
  const j = asking();
  j.add("permission_resolved", { request_id: "p1", call_id: "a", name: "tool_a", arguments: { n: 2 }, decision: "allow" });
  const state = play(j.entries);
  equal([state.asked.size, state.calls.get("1/a").args, state.stands[0].how], [0, { n: 2 }, "allowed"]);
});

test("a request that is told twice asks once, and a reply or an end leaves nothing asked", () => {
  const j = asking();
  j.add("permission_requested", { request_id: "p1", call_id: "a", name: "tool_a", arguments: { n: 1 } });
  equal(play(j.entries).stands.length, 1);
  j.reply("a", "cancelled");
  equal([play(j.entries).asked.size, play(j.entries).stands[0].how], [0, "cancelled"]);
  const k = asking();
  k.add("cancelled", { reason: "user", pending: 0, by: null });
  equal(play(k.entries).asked.size, 0);
});

test("a parked hop is a held bar in the row where it stands, and ends with its release", () => {
  const j = heldTurn();
  const at = j.add("paused", { hop: "take", queue: "input", item: "b" }).seq;
  j.wait(400);
  equal(pill(play(j.entries), OPEN, 0).text, "paused at the gate");
  j.add("resumed", { hop: at, why: "released" });
  const { bars, rows } = picture(play(j.entries));
  const bar = bars.find((b) => b.key === `p ${at}`);
  equal([bar.isOpen, bar.y > rows.input.y, bar.y < rows.chat.y, play(j.entries).parked.size], [false, true, true, 0]);
});

test("each arrow says what it carries", () => {
  const labels = picture(play(heldTurn().entries)).arrows.map((arrow) => arrow.label);
  equal([labels[0], labels.at(-2)], ["you → input: “Weather?”", "you → input: “And in Rome?”"]);
  equal(labels.some((label) => label === "events → EventAgent: a tool_a()"), true);
});

test("the example of a first visit is a turn in which a message is held to the end of the slow tool", () => {
  const state = reduce(EMPTY, sampleEntries());
  const { bars } = picture(state);
  const end = (bar) => bar.x + bar.width;
  const held = bars.find((bar) => bar.kind === "held");
  equal(end(held), Math.max(...bars.filter((bar) => bar.kind === "tool").map(end)));
  equal([state.turns.length, state.turns[0].end, state.waiting.length], [1, "done", 0]);
});

// -- copies ------------------------------------------------------------------------------------

const BODY = { model: "m-1", messages: [{ role: "user", content: "It's “6”\n$HOME `id` \\ \u202e" }], stream: true, n: null, x: 1.5, empty: {}, none: [] };
const ENTRY = { seq: 7, session_id: "s 1", type: "model_request", dialect: "openai_chat", model: "m-1", body: BODY };

test("a request as JSON is its body, and a copy hides no letter", () => {
  const text = asJson(ENTRY, BODY);
  equal([JSON.parse(text), text.includes("\u202e")], [BODY, false]);
});

test("a request as curl names its key by its variable and quotes the body for a shell", () => {
  const text = asCurl(ENTRY, BODY, "http://127.0.0.1:1");
  equal(text.startsWith('curl -sS "${OPENAI_BASE_URL:-https://api.openai.com/v1}/chat/completions" \\\n  -H "Authorization: Bearer $OPENAI_API_KEY" \\\n'), true);
  const said = /--data-raw '([\s\S]*)'\n$/.exec(text)[1].replaceAll("'\\''", "'");
  equal(JSON.parse(said), BODY);
});

test("each dialect's request goes to its own address", () => {
  const first = (dialect) => asCurl({ ...ENTRY, dialect }, BODY, "").split("\n")[0];
  equal(first("anthropic"), 'curl -sS "${ANTHROPIC_BASE_URL:-https://api.anthropic.com}/v1/messages" \\');
  equal(first("gemini"), 'curl -sS "${GEMINI_BASE_URL:-https://generativelanguage.googleapis.com}/v1beta/models/m-1:generateContent" \\');
  equal(first("openai_responses"), 'curl -sS "${OPENAI_BASE_URL:-https://api.openai.com/v1}/responses" \\');
});

test("a request as Python has Python's own words", () => {
  const text = asPython(ENTRY, BODY, "");
  equal([text.includes('"stream": True,'), text.includes('"n": None,'), text.includes('"empty": {},'), text.includes('"none": [],')], [true, true, true, true]);
});

test("any other entry is read from this server, without its token", () => {
  const e = { seq: 7, session_id: "s 1", type: "held" };
  equal(asCurl(e, null, "http://127.0.0.1:1"), 'curl -sS "http://127.0.0.1:1/api/sessions/s%201/entries?after=6&limit=1" \\\n  -H "Authorization: Bearer $AGENT_LAB_TOKEN"\n');
  equal(asPython(e, null, "http://127.0.0.1:1").includes('"Bearer " + os.environ["AGENT_LAB_TOKEN"]'), true);
});

// -- a history that was opened -----------------------------------------------------------------

test("messages of an opened history stand in its order, with what became of each", () => {
  const j = journal();
  const told = (index, fate, message, why = null) => j.add("imported", { index, fate, why, message });
  told(0, "kept", { role: "user", content: "Weather?" });
  told(1, "kept", { role: "assistant", content: null, tool_calls: [{ id: "a", name: "look", arguments: {} }], thinking: [{ type: "thinking", text: "Hm.", before: 0 }] });
  told(null, "made", { role: "tool", content: "No result.", tool_call_id: "a", name: "look" }, "every call needs a reply");
  const state = play(j.entries);
  equal(state.items.map((item) => [item.kind, item.e.role, item.e.fate, item.e.thinking]), [["past", "user", "kept", ""], ["past", "assistant", "kept", "Hm."], ["past", "tool", "made", ""]]);
  equal(j.entries.map(line), ['[0] user "Weather?"', "[1] assistant  calls a", 'made tool "No result." · made']);
  equal(words(why(state, OPEN, 0)), "This history was opened. Write a message to go on with it.");
});

test("what a model thought is kept with its answer", () => {
  const j = journal();
  j.turn(1);
  j.request();
  j.add("assistant", { content: "So.", tool_calls: [], partial: false, thinking: [{ type: "reasoning_item", summary: ["First.", "Then."] }, { type: "redacted_thinking", data: "x" }] });
  equal(play(j.entries).answers.get("1.1").thinking, "First.\n\nThen.");
});
