import { EMPTY, entryAt, isBusy, numberOf, openCalls, openModel, reduce, runningTurn, storyOf, withEntries } from "../../../src/agent_lab/static/store.js";
import { equal, heldTurn, journal, SESSION, test } from "./harness.js";

const play = (...frames) => reduce(EMPTY, [SESSION, ...frames]);
const shape = (state) => state.items.map((item) => item.key);

test("a plain turn reads user, answer, end", () => {
  const j = journal();
  j.user("m1", "Hello");
  j.turn(1);
  j.delivered("m1");
  j.request();
  j.add("text_delta", { text: "Hi" });
  j.answer("Hi there.");
  j.done();
  const state = play(...j.entries);
  equal(shape(state), ["m:m1", "a:1.1", "t:1"]);
  equal([state.answers.get("1.1").text, state.answers.get("1.1").isStreaming], ["Hi there.", false]);
  equal([state.turns[0].end, runningTurn(state), isBusy(state)], ["done", null, false]);
});

test("deltas grow the answer, and the whole message replaces them", () => {
  const j = journal();
  j.turn(1);
  j.request();
  j.add("text_delta", { text: "Ha" });
  j.add("text_delta", { text: "llo" });
  const streaming = play(...j.entries);
  equal([streaming.answers.get("1.1").text, streaming.answers.get("1.1").isStreaming, openModel(streaming).pieces], ["Hallo", true, 2]);
  j.answer("Hallo!");
  equal([play(...j.entries).answers.get("1.1").text, openModel(play(...j.entries))], ["Hallo!", null]);
});

test("a retry voids the text that was streamed", () => {
  const j = journal();
  j.turn(1);
  j.request();
  j.add("text_delta", { text: "half" });
  j.add("retrying", { attempt: 1, delay: 2, code: "overloaded", message: "503" });
  const state = play(...j.entries);
  equal([state.answers.get("1.1").text, state.models[0].status, state.models[0].retry.code], ["", "failed", "overloaded"]);
});

test("a held message waits with its blockers and has no place yet", () => {
  const state = play(...heldTurn().entries);
  const m = state.messages.get("m2");
  equal([m.status, m.blockedBy, state.waiting], ["held", ["b"], ["m2"]]);
  equal(shape(state), ["m:m1", "a:1.1"]);
  equal(openCalls(state).map((call) => call.id), ["b"]);
});

test("held then delivered: it stands after the answer, once", () => {
  const j = heldTurn();
  j.reply("b");
  j.delivered("m2", 4);
  const state = play(...j.entries);
  equal(shape(state), ["m:m1", "a:1.1", "m:m2"]);
  equal([state.messages.get("m2").status, state.messages.get("m2").position, state.waiting], ["delivered", 4, []]);
});

test("held messages keep their order of arrival", () => {
  const j = heldTurn();
  j.user("m3");
  j.held("m3", "b");
  equal(play(...j.entries).waiting, ["m2", "m3"]);
  j.reply("b");
  j.delivered("m2", 4);
  j.delivered("m3", 5);
  equal(shape(play(...j.entries)), ["m:m1", "a:1.1", "m:m2", "m:m3"]);
});

test("a follow-up stands after the end of the turn it waited for", () => {
  const j = heldTurn();
  j.user("m3", "Then", "follow_up");
  j.held("m3", "turn");
  j.reply("b");
  j.delivered("m2", 4);
  j.request();
  j.answer("Done.");
  j.done(1);
  j.turn(2);
  j.delivered("m3", 6);
  equal(shape(play(...j.entries)), ["m:m1", "a:1.1", "m:m2", "a:1.2", "t:1", "m:m3"]);
});

test("parallel tools run side by side and close one by one, in any order", () => {
  const j = journal();
  j.turn(1);
  j.request();
  j.answer(null, "a", "b", "c");
  for (const id of ["a", "b", "c"]) j.start(id);
  j.reply("c");
  j.reply("a", "error", "boom");
  const state = play(...j.entries);
  equal([...state.calls.values()].map((call) => call.status), ["error", "running", "result"]);
  equal(openCalls(state).map((call) => call.id), ["b"]);
  equal(state.answers.get("1.1").calls.length, 3);
});

test("an id that a later round uses again is another call", () => {
  const j = journal();
  j.turn(1);
  j.request();
  j.answer(null, "a");
  j.start("a");
  j.reply("a", "result", "first");
  j.request();
  j.answer(null, "a");
  j.start("a");
  const state = play(...j.entries);
  equal([...state.calls.values()].map((call) => [call.status, call.content]), [["result", "first"], ["running", null]]);
});

test("a late reply changes no call, and one for no call stands by itself", () => {
  const j = journal();
  j.turn(1);
  j.request();
  j.answer(null, "a");
  j.start("a");
  j.reply("a", "timeout", "too slow");
  j.add("late_reply", { call_id: "a", name: "tool_a", content: "late", kind: "result", is_error: false });
  j.add("late_reply", { call_id: "z", name: null, content: "lost", kind: "result", is_error: false });
  const state = play(...j.entries);
  const call = [...state.calls.values()][0];
  equal([call.status, call.content, call.late.content], ["timeout", "too slow", "late"]);
  equal(state.items.at(-1).kind, "late");
});

test("a cancel closes what runs and keeps what waits", () => {
  const j = heldTurn();
  j.reply("b", "cancelled", "Cancelled.");
  j.add("cancelled", { reason: "user", pending: 1, by: null });
  const state = play(...j.entries);
  equal([[...state.calls.values()].map((call) => call.status), openCalls(state)], [["result", "cancelled"], []]);
  equal([runningTurn(state), state.turns[0].end, state.waiting, isBusy(state)], [null, "cancelled", ["m2"], true]);
});

test("a cancel in the middle of an answer stops it where it stands", () => {
  const j = journal();
  j.turn(1);
  j.request();
  j.add("text_delta", { text: "It is" });
  j.add("cancelled", { reason: "user", pending: 0, by: null });
  const state = play(...j.entries);
  equal([state.answers.get("1.1").isStreaming, state.answers.get("1.1").isPartial, state.models[0].status], [false, true, "cut"]);
});

test("a withdrawn and a rejected message stay to be seen, and wait no more", () => {
  const j = heldTurn();
  j.add("withdrawn", { message_id: "m2", reason: "user" });
  j.add("rejected", { message_id: "m9", code: "queue_full", message: "full", retry_after: 2 });
  const state = play(...j.entries);
  equal([state.messages.get("m2").status, state.messages.get("m9").status, state.waiting], ["withdrawn", "rejected", []]);
  equal(shape(state).slice(-2), ["m:m2", "m:m9"]);
});

test("a message taken back between two that wait keeps its place", () => {
  const j = heldTurn();
  for (const id of ["m3", "m4"]) j.user(id);
  j.add("withdrawn", { message_id: "m3", reason: "user" });
  j.add("rejected", { message_id: "m9", code: "queue_full", message: "full", retry_after: 2 });
  const state = play(...j.entries);
  equal([state.waiting, state.tail], [["m2", "m4"], ["m2", "m3", "m4", "m9"]]);
  j.delivered("m2", 4);
  j.delivered("m4", 5);
  const after = play(...j.entries);
  equal([shape(after).slice(-4), after.tail], [["m:m2", "m:m3", "m:m4", "m:m9"], []]);
});

test("a refused second use of an id says nothing of the first", () => {
  const j = heldTurn();
  j.add("rejected", { message_id: "m2", code: "id_reused", message: "other content", retry_after: null });
  const state = play(...j.entries);
  equal([state.messages.get("m2").status, state.waiting], ["held", ["m2"]]);
});

test("an edit changes the text of a message that waits", () => {
  const j = heldTurn();
  j.add("edited", { hop: null, item: "m2", before: "And in Rome?", after: "And in Bern?", why: "user" });
  const m = play(...j.entries).messages.get("m2");
  equal([m.content, m.isEdited, m.status], ["And in Bern?", true, "held"]);
});

test("a failed turn keeps its code, its words and its hint", () => {
  const j = journal();
  j.turn(1);
  j.request();
  j.add("error", { code: "provider_error", message: "400", hint: "look", pending: 0, scope: "turn" });
  const turn = play(...j.entries).turns[0];
  equal([turn.end, turn.code, turn.message, turn.hint], ["error", "provider_error", "400", "look"]);
});

test("an error of a frame is no entry", () => {
  const state = play({ type: "error", scope: "frame", code: "bad_json", message: "", hint: "" });
  equal([state.entries.length, state.turns.length], [0, 0]);
});

test("entries seen before are ignored, however they come again", () => {
  const j = heldTurn();
  j.reply("b");
  j.delivered("m2", 4);
  const once = play(...j.entries);
  let twice = play(...j.entries.slice(0, 7));
  twice = reduce(twice, [{ ...SESSION, last_seq: j.entries.length }, ...j.entries.slice(3)]);
  twice = reduce(twice, j.entries);
  equal({ ...twice, session: null }, { ...once, session: null });
});

test("one batch or one entry at a time gives the same state", () => {
  const j = heldTurn();
  j.reply("b");
  j.delivered("m2", 4);
  let state = play();
  for (const entry of j.entries) state = reduce(state, [entry]);
  equal(state, play(...j.entries));
});

test("the state that was given is not changed", () => {
  const j = heldTurn();
  const before = play(...j.entries.slice(0, 8));
  const text = JSON.stringify(before.entries) + before.items.length + before.calls.size + before.waiting.length;
  reduce(before, j.entries.slice(8));
  equal(JSON.stringify(before.entries) + before.items.length + before.calls.size + before.waiting.length, text);
  equal(EMPTY.entries.length, 0);
});

test("a gap is said, and what comes after it is taken", () => {
  const j = heldTurn();
  const state = play(...j.entries.slice(0, 4), { type: "gap", from: 5, to: 9, read_at: null }, ...j.entries.slice(9));
  equal(state.gaps, [{ from: 5, to: 9, read_at: null }]);
  equal([state.lastSeq, state.items.some((item) => item.kind === "gap")], [j.entries.length, true]);
});

test("a hole in the numbers is a gap too", () => {
  const j = heldTurn();
  equal(play(...j.entries.slice(0, 4), ...j.entries.slice(6)).gaps, [{ from: 5, to: 6, read_at: null }]);
});

test("entries read from the store close the gap", () => {
  const j = heldTurn();
  const holed = play(...j.entries.slice(0, 4), { type: "gap", from: 5, to: 9, read_at: "/x" }, ...j.entries.slice(9));
  equal(withEntries(holed, j.entries.slice(4, 9)), play(...j.entries));
});

test("another epoch starts from nothing", () => {
  const state = reduce(play(...heldTurn().entries), [{ ...SESSION, epoch: "e2" }]);
  equal([state.entries.length, state.lastSeq, state.messages.size, state.session.epoch], [0, 0, 0, "e2"]);
});

test("an entry of a type it does not know is listed and breaks nothing", () => {
  const j = journal();
  j.turn(1);
  j.add("execution_started", { id: "x" });
  const state = play(...j.entries);
  equal([state.entries.length, state.entries[0].ref], [1, null]);
});

test("the story of a message is every entry about it", () => {
  const j = heldTurn();
  j.reply("b");
  j.delivered("m2", 4);
  const state = play(...j.entries);
  equal(storyOf(state, "m:m2").map((x) => x.type), ["accepted", "queue", "queue", "held", "delivered"]);
});

test("an entry is found by its seq, also beside a gap", () => {
  const j = heldTurn();
  const state = play(...j.entries.slice(0, 4), ...j.entries.slice(8));
  equal([entryAt(state, 3).seq, entryAt(state, 10).seq, entryAt(state, 6)], [3, 10, null]);
});

test("a message is numbered as in the request: the system message counts where it is in the list", () => {
  const at = (...messages) => {
    const j = journal();
    j.turn(1);
    j.request(messages);
    return numberOf(play(...j.entries), { position: 4 });
  };
  equal([at({ role: "user" }), at({ role: "system" }, { role: "user" })], [4, 5]);
});

test("10,000 entries in batches of 100 take less than a second", () => {
  const j = journal();
  for (let n = 1; j.entries.length < 10_000; n++) {
    j.user(`m${n}`);
    j.turn(n);
    j.delivered(`m${n}`);
    j.request();
    for (let i = 0; i < 10; i++) j.add("text_delta", { text: "word " });
    j.answer("…", "a", "b");
    for (const id of ["a", "b"]) j.start(id);
    for (const id of ["a", "b"]) j.reply(id);
    j.done();
  }
  const began = performance.now();
  let state = play();
  for (let i = 0; i < j.entries.length; i += 100) state = reduce(state, j.entries.slice(i, i + 100));
  const took = performance.now() - began;
  equal([state.entries.length >= 10_000, took < 1000], [true, true]);
});
