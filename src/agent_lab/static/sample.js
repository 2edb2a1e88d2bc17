// A turn that never was, for the picture that explains the timeline on a first visit. Pure.

const START = Date.parse("2026-11-30T10:00:00.000Z");
const ASKED = "Weather in Oslo, and a train?";

/** Entries as on the wire: two tools at once, and a message that is held until the slow one replied. */
export function sampleEntries() {
  const entries = [];
  const add = (ms, type, fields, step = 1) =>
    entries.push({ seq: entries.length + 1, session_id: "sample", at: new Date(START + ms).toISOString(), turn: 1, step, type, ...fields });
  const queue = (ms, queue, op, item) => add(ms, "queue", { queue, op, item, depth: op === "put" ? 1 : 0 });
  const message = (ms, id, content) => (add(ms, "accepted", { message_id: id, content, mode: "steer" }), queue(ms, "input", "put", id), queue(ms + 20, "input", "take", id));
  const model = (ms, step) => add(ms, "model_request", { dialect: "", model: "", body: {} }, step);
  const words = (from, to, step) => {
    for (let ms = from; ms < to; ms += 90) add(ms, "text_delta", { text: "word " }, step);
  };
  const call = (ms, id, name) => (add(ms, "tool_call", { call_id: id, name, arguments: { city: "Oslo" }, round: 1 }), queue(ms, "events", "put", id), queue(ms + 10, "events", "take", id), add(ms + 20, "tool_started", { call_id: id, name, timeout: 30 }));
  const answered = (ms, id, name) => (queue(ms, "input", "put", id), queue(ms + 10, "input", "take", id), add(ms, "tool_reply", { call_id: id, name, content: "", kind: "result", is_error: false }));
  message(0, "m1", ASKED);
  add(40, "delivered", { message_id: "m1", position: 0 });
  model(50, 1);
  words(350, 900, 1);
  add(920, "assistant", { content: "", tool_calls: [], partial: false });
  call(930, "call_1", "get_weather");
  call(940, "call_2", "find_trains");
  answered(1700, "call_1", "get_weather");
  message(2300, "m2", "And in Rome?");
  add(2310, "held", { message_id: "m2", blocked_by: ["call_2"] });
  answered(3900, "call_2", "find_trains");
  add(3910, "delivered", { message_id: "m2", position: 4 }, 2);
  model(3920, 2);
  words(4300, 5500, 2);
  add(5520, "assistant", { content: "", tool_calls: [], partial: false }, 2);
  add(5530, "done", { reason: "stop", pending: 0 }, 2);
  return entries;
}
