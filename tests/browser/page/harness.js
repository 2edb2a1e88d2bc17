// test(name, run), equal(actual, expected), and a journal to write entries with.

export const tests = [];
export const test = (name, run) => tests.push({ name, run });

const text = (value) => JSON.stringify(value, (_, v) => (v instanceof Map ? Object.fromEntries(v) : v), 1);

export function equal(actual, expected) {
  if (text(actual) !== text(expected)) throw new Error(`expected ${text(expected)}\n but got ${text(actual)}`);
}

export const SESSION = { type: "session", session_id: "s_1", agent: { name: "weather" }, epoch: "e1", state: "idle", last_seq: 0 };

/** Entries with the next seq, 100 ms apart unless `wait` says otherwise. */
export function journal() {
  const entries = [];
  let at = Date.parse("2026-11-30T10:00:00.000Z");
  let turn = null;
  let step = null;
  const add = (type, fields = {}) => {
    entries.push({ seq: entries.length + 1, session_id: "s_1", at: new Date(at).toISOString(), turn, step, type, ...fields });
    at += 100;
    return entries.at(-1);
  };
  const say = {
    entries,
    add,
    wait: (ms) => void (at += ms),
    user: (id, content = id, mode = "steer") => (add("accepted", { message_id: id, content, mode }), add("queue", { queue: "input", op: "put", item: id, depth: 1 }), add("queue", { queue: "input", op: "take", item: id, depth: 0 })),
    held: (id, ...blockedBy) => add("held", { message_id: id, blocked_by: blockedBy }),
    delivered: (id, position = 0) => add("delivered", { message_id: id, position }),
    turn: (n) => ((turn = n), (step = 0)),
    request: (messages = []) => ((step += 1), add("model_request", { dialect: "openai_chat", model: "m", body: { model: "m", messages } })),
    answer: (content, ...calls) => {
      add("model_response", { finish_reason: calls.length ? "tool_calls" : "stop", usage: null });
      add("assistant", { content, tool_calls: calls.map((id) => ({ id, name: `tool_${id}`, arguments: {} })), partial: false });
      for (const id of calls) add("tool_call", { call_id: id, name: `tool_${id}`, arguments: {}, round: step });
    },
    start: (id) => (add("queue", { queue: "events", op: "take", item: id, depth: 0 }), add("tool_started", { call_id: id, name: `tool_${id}`, timeout: 30 })),
    reply: (id, kind = "result", content = "ok") => add("tool_reply", { call_id: id, name: `tool_${id}`, content, kind, is_error: kind !== "result" }),
    done: (pending = 0) => add("done", { reason: "answered", pending }),
  };
  return say;
}

/** A turn with two parallel tools, and a message that is held by the second. */
export function heldTurn() {
  const j = journal();
  j.user("m1", "Weather?");
  j.turn(1);
  j.delivered("m1", 0);
  j.request([{ role: "user", content: "Weather?" }]);
  j.add("text_delta", { text: "I " });
  j.add("text_delta", { text: "look." });
  j.answer("I look.", "a", "b");
  j.start("a");
  j.start("b");
  j.reply("a");
  j.user("m2", "And in Rome?");
  j.held("m2", "b");
  return j;
}
