// What the server says of the session's history: the verdict of each dialect, the explanation of a
// provider's error, what would have been sent if nothing had been held, and the opening of a history.

/**
 * createChecks(link, onChange): `verdicts` is null, or the last answer of /check as {lastSeq, …}.
 * Asked again when a message was delivered or a turn ended, never for each piece of text.
 */
export function createChecks(link, onChange) {
  let verdicts = null;
  let asked = ""; // session and seq of the latest question
  let timer = 0;

  const path = (rest, id = link.sessionId) => `/api/sessions/${encodeURIComponent(id)}${rest}`;

  /** Only of a session that the server has: this one, on a line that stands. */
  async function ask(key, id) {
    if (link.sessionId !== id || link.link.state !== "open") {
      asked = "";
      return;
    }
    const answer = await link.get(path("/check", id)).catch(() => null);
    if (key !== asked || !answer?.ok) return;
    verdicts = await answer.json();
    onChange();
  }

  return {
    get verdicts() { return verdicts?.session_id === link.sessionId ? verdicts : null; },
    /** Called for each picture; asks when the history is another one. */
    look(state) {
      const at = state.session && !link.link.isBehind && link.link.state === "open" ? lastChange(state) : 0;
      const key = at ? `${state.session.session_id} ${state.session.epoch} ${at}` : "";
      if (!key || key === asked) return;
      asked = key;
      clearTimeout(timer);
      timer = setTimeout(() => ask(key, state.session.session_id), 250);
    },
    explain: (text) => link.post("/api/explain", link.sessionId ? { text, session_id: link.sessionId } : { text }),
    unheld: (seq) => link.get(path(`/entries/${seq}/unheld`)),
    open: (content, agent) => link.post("/api/sessions/import", { content, ...(agent ? { agent } : {}) }),
  };
}

const CHANGES = ["delivered", "done", "error", "cancelled", "imported"];

/** How many entries there are that change the history for good: cheap, and it only grows. */
const lastChange = (state) => CHANGES.reduce((sum, type) => sum + (state.counts[type] ?? 0), 0);

/** {valid, faults: [{dialect, …}]}: what is wrong, in the order it came; warnings are no faults. */
export function summary(verdicts) {
  const faults = [];
  const warnings = [];
  for (const [dialect, { violations }] of Object.entries(verdicts.dialects)) for (const v of violations) (v.severity === "error" ? faults : warnings).push({ dialect, ...v });
  return { dialects: Object.keys(verdicts.dialects), faults, warnings };
}
