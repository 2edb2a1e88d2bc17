// From time to pixels, with idle times folded. Pure.

const FOLD_OVER = 2_000; // ms without any turn or message before time is folded
const FOLD_WIDTH = 46;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 6e5, 1.8e6, 3.6e6, 7.2e6, 1.8e7];
const HORIZONS = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 90, 120, 180, 240, 360, 480, 600, 900, 1200, 1800, 3600].map((s) => s * 1000);

const known = new WeakMap(); // state -> what had happened in it; only the running turn's end moves

/** When something happened: one interval for each turn, points for messages outside of turns, merged. */
export function activity(state, now) {
  if (!known.has(state)) known.set(state, happened(state));
  const spans = known.get(state);
  const last = spans.at(-1);
  return last && state.turns.at(-1)?.endAt === null ? [...spans.slice(0, -1), [last[0], Math.max(last[1], now)]] : spans;
}

function happened(state) {
  const spans = state.turns.map((turn) => [turn.startAt, turn.endAt ?? state.entries.at(-1).t]);
  for (const message of state.messages.values()) {
    spans.push([message.acceptedAt, message.acceptedAt]);
    if (message.endAt !== null) spans.push([message.endAt, message.endAt]);
  }
  spans.sort((a, b) => a[0] - b[0]);
  const merged = [];
  for (const [from, to] of spans) {
    const last = merged.at(-1);
    if (last && from - last[1] <= FOLD_OVER) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

/** The part of time that is shown: one turn, or all; while it runs, with room for what comes. */
export function windowOf(state, { scope, turn, now }) {
  const all = activity(state, now);
  if (!all.length) return null;
  const running = state.turns.at(-1)?.endAt === null ? state.turns.at(-1) : null;
  if (scope === "session" || !turn) {
    const to = running ? Math.max(now, running.startAt + horizon(now - running.startAt)) : all.at(-1)[1];
    return { from: all[0][0], to, active: running ? [...all.slice(0, -1), [all.at(-1)[0], to]] : all };
  }
  let from = turn.startAt;
  for (const m of state.messages.values()) {
    if (m.turn === turn.n && m.acceptedAt < from && turn.startAt - m.acceptedAt < FOLD_OVER) from = m.acceptedAt;
  }
  const to = turn.endAt ?? from + horizon(now - from);
  return { from, to, active: [[from, to]] };
}

/** Time grows in steps while a turn runs, so that the picture moves and does not shrink all the time. */
const horizon = (elapsed) => HORIZONS.find((step) => step >= elapsed * 1.06 + 150) ?? elapsed * 1.2;

/** {x(t), t(x), width, pieces}; pieces are {t0, t1, x0, x1, isFold}. */
export function createScale({ from, to, active }, width) {
  const inside = active.map(([a, b]) => [Math.max(a, from), Math.min(b, to)]).filter(([a, b]) => b >= a);
  if (!inside.length) inside.push([from, to]);
  const pad = 10;
  const folds = inside.length - 1;
  const foldWidth = folds ? Math.min(FOLD_WIDTH, (width * 0.3) / folds) : 0;
  const total = inside.reduce((sum, [a, b]) => sum + Math.max(b - a, 40), 0);
  const perMs = (width - 2 * pad - folds * foldWidth) / total;
  const pieces = [];
  let x = pad;
  inside.forEach(([a, b], i) => {
    if (i > 0) {
      pieces.push({ t0: inside[i - 1][1], t1: a, x0: x, x1: x + foldWidth, isFold: true });
      x += foldWidth;
    }
    const wide = Math.max(b - a, 40) * perMs;
    pieces.push({ t0: a, t1: Math.max(b, a + 40), x0: x, x1: x + wide, isFold: false });
    x += wide;
  });
  return { x: (t) => forward(pieces, t), t: (px) => backward(pieces, px), width, pieces, perMs };
}

function find(pieces, value, key) {
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pieces[middle][key] < value) low = middle + 1;
    else high = middle;
  }
  return pieces[low];
}

function forward(pieces, t) {
  const p = find(pieces, t, "t1");
  return p.x0 + ((t - p.t0) / (p.t1 - p.t0 || 1)) * (p.x1 - p.x0);
}

function backward(pieces, x) {
  const p = find(pieces, x, "x1");
  return p.t0 + ((x - p.x0) / (p.x1 - p.x0 || 1)) * (p.t1 - p.t0);
}

/** Round times to write at the axis, counted from `zero`, at least `room` pixels apart. */
export function axisTicks(piece, zero, perMs, room = 64) {
  const step = STEPS.find((s) => s * perMs >= room) ?? STEPS.at(-1);
  const ticks = [];
  for (let n = Math.max(1, Math.ceil((piece.t0 - zero) / step)); zero + n * step <= piece.t1 && ticks.length < 400; n++) {
    ticks.push({ t: zero + n * step, label: tickLabel(n * step, step) });
  }
  return ticks;
}

function tickLabel(ms, step) {
  if (step < 1000) return `${+(ms / 1000).toFixed(3)} s`;
  if (ms < 120_000) return `${ms / 1000} s`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = (ms % 60_000) / 1000;
  return seconds ? `${minutes} min ${seconds} s` : `${minutes} min`;
}
