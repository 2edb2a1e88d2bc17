// What time it is at the server, without trusting this machine's wall clock.
//
// Each time stamp that arrives was written before it arrived, so `stamp - performance.now()` can
// only be too small; the largest one seen is the best guess. Old entries (a reload in the middle
// of a slow tool) therefore do no harm, and the Date header of an answer helps where no entry is new.

export function createClock(monotonic = () => performance.now()) {
  let offset = -Infinity;
  return {
    observe(stamp) {
      if (Number.isFinite(stamp)) offset = Math.max(offset, stamp - monotonic());
    },
    /** Milliseconds since the epoch as the server counts them; 0 before anything was seen. */
    now: () => (offset === -Infinity ? 0 : offset + monotonic()),
    reset() {
      offset = -Infinity;
    },
  };
}
