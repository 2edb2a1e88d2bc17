// What goes on everywhere, told by the server as it changes: agents and sessions, over a socket of
// its own that is open only while a window shows them.

import { createSocket } from "./socket.js";

/** createWatch(token): `follow(dialog, onNews, onLost)` tells an open window each frame until it is closed. */
export function createWatch(token) {
  const windows = new Map();
  const socket = createSocket({
    token,
    hello: () => ({ type: "watch" }),
    onFrames: (frames) => {
      for (const frame of frames) if (frame.type === "watching" || frame.type === "changed") for (const { onNews } of windows.values()) onNews(frame);
    },
    onStatus: ({ state }) => {
      if (state === "lost") for (const { onLost } of windows.values()) onLost();
    },
  });

  function leave({ target }) {
    target.removeEventListener("close", leave);
    windows.delete(target);
    if (!windows.size) socket.close();
  }

  return {
    follow(dialog, onNews, onLost) {
      if (!windows.size) socket.open();
      windows.set(dialog, { onNews, onLost });
      dialog.addEventListener("close", leave);
    },
  };
}

/** The sessions as they are with this news, newest first: what is stored and not in memory stays. */
export function merge(sessions, { sessions: news, gone = [] }) {
  const now = new Map(news.map((session) => [session.session_id, session]));
  const known = new Set(sessions.map((session) => session.session_id));
  const kept = sessions.filter((session) => !gone.includes(session.session_id));
  return [...news.filter((session) => !known.has(session.session_id)), ...kept.map((session) => now.get(session.session_id) ?? session)];
}
