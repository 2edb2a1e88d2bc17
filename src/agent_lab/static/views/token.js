// Without a token nothing can be shown; this says how to get one.

import { h, show } from "../h.js";

const TEXT = {
  missing: ["This page needs its key", "The address was opened without the token that belongs to it."],
  refused: ["The key does not fit any more", "The server has been started again since, and has made a new token."],
};

export function showTokenPage(why) {
  if (document.querySelector(".locked")) return;
  const [title, text] = TEXT[why];
  document.body.classList.add("is-locked");
  show(document.body, h("div", { class: "locked", role: "alert" },
    h("b", { class: "brand" }, "agent_lab"),
    h("h1", null, title),
    h("p", null, text),
    h("p", null, "Open the whole address that ", h("code", null, "agent-lab serve"), " printed in the terminal. It looks like this:"),
    h("pre", null, `${location.origin}/#token=…`),
    h("p", { class: "dim" }, "The token stays in this tab and is never part of a request's address.")));
}
