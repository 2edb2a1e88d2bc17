// One WebSocket to /ws that comes back by itself. It knows nothing of sessions: the caller's
// `hello()` gives the first frame of each connection (run, or attach after the last seq seen).

const FIRST_WAIT = 250;
const LONGEST_WAIT = 8_000;

/**
 * createSocket({token, hello, onFrames, onStatus}); status is {state, retryAt, code}, state one of
 * "off", "connecting", "open", "lost" (tries again at `retryAt`) and "refused" (stays down).
 */
export function createSocket({ token, hello, onFrames, onStatus }) {
  let socket = null;
  let timer = 0;
  let wait = FIRST_WAIT;
  let isWanted = false;
  const inbox = createInbox(onFrames);

  function open() {
    clearTimeout(timer);
    if (socket || !isWanted) return;
    onStatus({ state: "connecting" });
    const mine = new WebSocket(`ws${location.protocol === "https:" ? "s" : ""}://${location.host}/ws`, [
      "agent-lab.v1",
      `agent-lab.token.${token}`,
    ]);
    socket = mine;
    mine.onopen = () => {
      onStatus({ state: "open" });
      mine.send(JSON.stringify(hello()));
    };
    mine.onmessage = (event) => {
      wait = FIRST_WAIT;
      inbox.take(event.data);
    };
    mine.onclose = (event) => {
      if (socket !== mine) return;
      inbox.flush();
      socket = null;
      if (!isWanted) return;
      const pause = wait * (0.75 + Math.random() / 2);
      wait = Math.min(wait * 2, LONGEST_WAIT);
      onStatus({ state: "lost", retryAt: performance.now() + pause, code: event.code });
      timer = setTimeout(open, pause);
    };
  }

  function close(state = "off") {
    isWanted = false;
    clearTimeout(timer);
    const mine = socket;
    socket = null;
    inbox.clear();
    mine?.close(1000);
    onStatus({ state });
  }

  const hurry = () => {
    if (isWanted && !socket) open();
  };
  addEventListener("online", hurry);
  document.addEventListener("visibilitychange", () => document.hidden || hurry());

  return {
    open() {
      isWanted = true;
      wait = FIRST_WAIT;
      open();
    },
    close,
    hurry,
    /** Opens anew, with another hello. */
    reopen() {
      close();
      isWanted = true;
      open();
    },
    send(frame) {
      if (socket?.readyState !== WebSocket.OPEN) return false;
      socket.send(JSON.stringify(frame));
      return true;
    },
  };
}

/** Collects frames and hands them on once a picture (or every 100 ms in a hidden tab). */
function createInbox(onFrames) {
  let frames = [];
  let timer = 0;
  let request = 0;
  function flush() {
    clearTimeout(timer);
    cancelAnimationFrame(request);
    timer = request = 0;
    const batch = frames;
    frames = [];
    if (batch.length) onFrames(batch);
  }
  return {
    flush,
    clear() {
      frames = [];
    },
    take(data) {
      let said;
      try {
        said = JSON.parse(data);
      } catch {
        return;
      }
      if (Array.isArray(said)) for (const frame of said) frames.push(frame);
      else frames.push(said);
      if (timer) return;
      request = requestAnimationFrame(flush);
      timer = setTimeout(flush, 100);
    },
  };
}
