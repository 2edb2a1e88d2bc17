// Shapes onto an SVG layer, and the rows' names.

import { keyed, mark, s, say } from "../h.js";

export const LABELS = 96; // px for the rows' names

/** Shapes keep their nodes from picture to picture, so that a click or a hover is never lost. */
export function paint(layer, shapes) {
  keyed(layer, shapes, (shape) => `${shape.tag} ${shape.key}`, (shape) => {
    const node = s(shape.tag);
    const part = { node, names: [], update };
    update(shape);
    return part;
    function update(next) {
      for (const name of part.names) if (!(name in next.attrs)) node.removeAttribute(name);
      for (const name in next.attrs) mark(node, name, next.attrs[name]);
      part.names = Object.keys(next.attrs);
      if (next.text !== undefined) say(node, next.text);
    }
  });
}

export function namesOf(rows, state) {
  return Object.values(rows).filter((row) => row.name).flatMap((row) => {
    const depth = { input: state.depth.input, events: state.depth.events }[row.name];
    const y = Math.min(row.middle, row.y + 44) + 4; // of many lanes the first are in sight
    return [
      { key: row.name, tag: "text", attrs: { x: 14, y }, text: row.label },
      ...(depth === undefined ? [] : [{ key: `${row.name} depth`, tag: "text", attrs: { class: "dim", x: LABELS - 8, y, "text-anchor": "end" }, text: String(depth) }]),
    ];
  });
}
