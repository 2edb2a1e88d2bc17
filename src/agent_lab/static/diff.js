// What changed from one model request to the next. Pure.

const listOf = (body) => body?.messages ?? body?.input ?? body?.contents ?? [];

/** Messages with their places in the whole request; the first (the system message) is never left out. */
const placed = (e) => listOf(e?.body).map((message, i) => ({ at: i && e.omitted ? i + e.omitted : i, message, text: JSON.stringify(message) }));
const from = (list, omitted) => list.filter(({ at }) => at === 0 || at > (omitted ?? 0));
const LISTS = ["messages", "input", "contents"];

/**
 * requestDiff(before, after) -> {same, removed, added, fields}: how many messages at the beginning
 * are the same, the messages that went and came after them, and the other top-level keys that differ
 * as {key, before, after}. A history that only grows has nothing in `removed`.
 */
export function requestDiff(before, after) {
  const old = from(placed(before), after.omitted);
  const now = from(placed(after), before?.omitted);
  let same = 0;
  while (same < old.length && same < now.length && old[same].text === now[same].text) same++;
  let tail = 0;
  while (tail < old.length - same && tail < now.length - same && old.at(-1 - tail).text === now.at(-1 - tail).text) tail++;
  const between = (list) => list.slice(same, list.length - tail).map(({ at, message }) => ({ at, message }));
  return { same, tail, removed: between(old), added: between(now), fields: fields(before?.body, after.body) };
}

function fields(before, after) {
  if (!before) return [];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)].filter((key) => !LISTS.includes(key)));
  return [...keys]
    .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
    .map((key) => ({ key, before: before[key], after: after[key] }));
}
