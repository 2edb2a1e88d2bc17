// Words for times, sizes and calls. Pure.

/** 40 ms · 0.4 s · 12.3 s · 4 min 5 s · 3 h 2 min */
export function duration(ms) {
  if (!Number.isFinite(ms) || ms < 0) return "0 ms";
  if (ms < 95) return `${Math.round(ms)} ms`;
  if (ms < 59_500) return `${(ms / 1000).toFixed(1)} s`;
  return span(ms);
}

/** Whole units, for long and idle times: 4 s · 12 min · 3 h */
export function span(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 && minutes < 10 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} days`;
}

/** A live duration ticks in tenths, so that its width does not jump. */
export const ticking = (ms) => (ms < 60_000 ? `${(Math.max(0, ms) / 1000).toFixed(1)} s` : span(ms));

export function clockTime(t) {
  const date = new Date(t);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function size(chars) {
  if (chars < 1024) return `${chars} characters`;
  if (chars < 1024 * 1024) return `${(chars / 1024).toFixed(0)} KiB`;
  return `${(chars / 1024 / 1024).toFixed(1)} MiB`;
}

export const count = (n, one, many = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/** The first line of a text, at most `limit` characters, said to be cut where it is cut. */
export function clip(text, limit) {
  const line = String(text ?? "").slice(0, limit * 4).replace(/\s+/g, " ").trim();
  return line.length > limit ? line.slice(0, limit - 1) + "…" : line;
}

/** get_forecast(city="Oslo", days=1) */
export function signature(name, args, limit = 240) {
  const pairs = Object.entries(args ?? {}).map(([key, value]) => `${key}=${clip(JSON.stringify(value), 120)}`);
  return clip(`${name}(${pairs.join(", ")})`, limit);
}

/** Ids made by a program are long; the first eight characters tell them apart. */
export const shortId = (id) => (/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(id) ? id.slice(0, 8) : clip(id, 24));

const HOPS = { put: "the put", take: "the take", model: "the model call", tool: "the start", thread: "the thread" };

/** A hop in words: “the take of call_1 from input”. */
export const hopWords = ({ hop, queue }) => [HOPS[hop] ?? hop, queue ? ` ${hop === "put" ? "into" : "from"} ${queue}` : ""];
