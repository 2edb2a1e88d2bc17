// What the page remembers in this tab, and the token: never in the address, never in localStorage.

const read = (name, fallback) => {
  try {
    return JSON.parse(sessionStorage.getItem(`agent-lab.${name}`)) ?? fallback;
  } catch {
    return fallback;
  }
};

const write = (name, value) => {
  try {
    if (value === null) sessionStorage.removeItem(`agent-lab.${name}`);
    else sessionStorage.setItem(`agent-lab.${name}`, JSON.stringify(value));
  } catch {
    // A full or barred storage costs only what a reload would have kept.
  }
};

export const memory = { read, write };

/**
 * Takes #token=T (and &session=ID) and leaves a clean address: nothing of it stays in the history.
 */
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.get("token")) write("token", given.get("token"));
  if (given.get("session")) write("session", given.get("session"));
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return read("token", null);
}

/** Random ids are made here; outside of a secure context there is no randomUUID. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  const hex = [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
