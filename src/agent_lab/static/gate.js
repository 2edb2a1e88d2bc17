// What a person's hand does, in entries: hops parked at the gate, and tools that ask before they run.

/** What a queue's or a gate's item is about; null for one that was never seen. */
export const refOfItem = (d, item) =>
  d.messages.has(item) ? `m:${item}` : d.callKeys.has(item) ? `c:${d.callKeys.get(item)}` : null;

export function paused(d, e, t) {
  const ref = refOfItem(d, e.item);
  d.parked.set(e.seq, { seq: e.seq, hop: e.hop, queue: e.queue, item: e.item, ref, at: t });
  d.stands.push({ key: `p ${e.seq}`, kind: "hop", hop: e.hop, queue: e.queue, item: e.item, ref, seq: e.seq, from: t, to: null, how: null });
  return ref;
}

export function unparked(d, e, t) {
  const parked = d.parked.get(e.hop);
  d.parked.delete(e.hop);
  endStand(d, `p ${e.hop}`, t, e.type === "dropped" ? "dropped" : "released");
  return parked?.ref ?? refOfItem(d, e.item);
}

export function permission_requested(d, e, t) {
  const key = d.callKeys.get(e.call_id) ?? null;
  const ref = key ? `c:${key}` : null;
  if (d.asked.has(e.request_id)) return ref;
  d.asked.set(e.request_id, { id: e.request_id, callId: e.call_id, key, name: e.name, args: e.arguments, sha256: e.sha256, error: e.error ?? null, at: t, seq: e.seq, ref });
  d.stands.push({ key: `a ${e.request_id}`, kind: "ask", hop: "tool", queue: null, item: e.call_id, name: e.name, ref, seq: e.seq, from: t, to: null, how: null });
  return ref;
}

export function permission_resolved(d, e, t) {
  const ask = d.asked.get(e.request_id);
  d.asked.delete(e.request_id);
  endStand(d, `a ${e.request_id}`, t, ended(e));
  const key = ask?.key ?? d.callKeys.get(e.call_id);
  const call = d.calls.get(key);
  if (call) d.calls.set(key, { ...call, decision: e.decision, args: e.arguments && e.decision.startsWith("allow") ? e.arguments : call.args });
  return key ? `c:${key}` : null;
}

const DECISIONS = { allow: "allowed", allow_always: "allowed for the session", deny: "denied", deny_and_interrupt: "denied, and the turn stopped" };

/** How a request ended, in words. */
export const ended = (e) => `${DECISIONS[e.decision] ?? e.decision}${!e.reason || e.reason === "answered" ? "" : ` (${e.reason})`}`;

/** A call that has its reply, or a turn that ends (no `key`), leaves nothing asked. */
export function forget(d, t, key = null) {
  for (const [id, ask] of d.asked) {
    if (key !== null && ask.key !== key) continue;
    endStand(d, `a ${id}`, t, "cancelled");
    d.asked.delete(id);
  }
}

function endStand(d, key, t, how) {
  const at = d.stands.findLastIndex((stand) => stand.key === key);
  if (at >= 0 && d.stands[at].to === null) d.stands[at] = { ...d.stands[at], to: t, how };
}
