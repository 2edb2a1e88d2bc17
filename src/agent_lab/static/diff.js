// What changed from one model request to the next. Pure.

const listOf = (body) => body?.messages ?? body?.input ?? body?.contents ?? [];
const LISTS = ["messages", "input", "contents"];

/**
 * requestDiff(before, after) -> {same, removed, added, fields}: how many messages at the beginning
 * are the same, the messages that went and came after them, and the other top-level keys that differ
 * as {key, before, after}. A history that only grows has nothing in `removed`.
 */
export function requestDiff(before, after) {
  const old = listOf(before?.body);
  const now = listOf(after.body);
  const oldText = old.map((m) => JSON.stringify(m));
  const nowText = now.map((m) => JSON.stringify(m));
  let same = 0;
  while (same < old.length && same < now.length && oldText[same] === nowText[same]) same++;
  let tail = 0;
  while (tail < old.length - same && tail < now.length - same && oldText.at(-1 - tail) === nowText.at(-1 - tail)) tail++;
  const place = (list) => list.slice(same, list.length - tail).map((message, i) => ({ at: same + i, message }));
  return { same, tail, removed: place(old), added: place(now), fields: fields(before?.body, after.body) };
}

function fields(before, after) {
  if (!before) return [];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)].filter((key) => !LISTS.includes(key)));
  return [...keys]
    .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
    .map((key) => ({ key, before: before[key], after: after[key] }));
}
