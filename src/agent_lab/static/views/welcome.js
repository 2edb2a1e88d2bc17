// The first visit explains itself: who answers here, what it can do, and one button.

import { h, show } from "../h.js";
import { clip } from "../format.js";

export const DEMO_AGENT = "demo";
const DEMO = "Plan a trip to Oslo.";

export function createWelcome(actions) {
  const node = h("div", { class: "welcome" });
  let seen = null;
  return {
    node,
    render({ ui, state, link }, isShown) {
      node.hidden = !isShown || (state.session !== null && link.isBehind);
      const agent = ui.agents.find((a) => a.name === ui.agent);
      if (node.hidden || seen === agent) return;
      seen = agent;
      show(node, agent ? about(agent, actions) : h("p", { class: "dim" }, "Asking the server for its agents …"));
    },
  };
}

function about(agent, actions) {
  return [
    h("h3", null, agent.name),
    h("p", { class: "dim" }, [agent.model, agent.dialect].filter(Boolean).join(" · ")),
    agent.instructions ? h("p", null, clip(agent.instructions, 300)) : null,
    agent.tools?.length ? h("ul", { class: "tools" }, agent.tools.slice(0, 12).map((t) => h("li", null, h("span", { class: "mono tool" }, t.name), " ", h("span", { class: "dim" }, clip(t.description, 90))))) : null,
    ...(agent.name === DEMO_AGENT ? demo(actions) : [h("p", { class: "dim" }, "Write a message below, and see every hand-off of it.")]),
  ];
}

function demo(actions) {
  return [
    h("button", { type: "button", class: "primary", onclick: () => actions.send(DEMO, "steer") }, "▶ Start the demo"),
    h("p", { class: "dim" }, `It says “${DEMO}” Or write your own message below.`),
  ];
}
