// The only place that makes nodes. Strings become text nodes; nothing that a model, a tool or a
// user says is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * h("button", {class: "quiet", onclick: f, "aria-pressed": "true"}, "Send")
 * Functions become listeners, `style` is an object of CSS properties, null and false are left out.
 */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  if (props) for (const key of Object.keys(props)) put(node, key, props[key]);
  add(node, children);
  return node;
}

function put(node, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (typeof value === "function") node.addEventListener(key.slice(2), value);
  else if (key === "style") for (const name of Object.keys(value)) node.style.setProperty(name, value[name]);
  else if (key === "value") node.value = value;
  else node.setAttribute(key, value === true ? "" : value);
}

function add(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(node, child);
    else if (child instanceof Node) node.append(child);
    else if (child !== null && child !== undefined && child !== false) node.append(document.createTextNode(String(child)));
  }
}

/** Replaces what is in `node`. */
export function show(node, ...children) {
  node.replaceChildren();
  add(node, children);
}

/** Sets text only when it changed, so that selections and screen readers are left in peace. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets or removes an attribute, only when it changed. */
export function mark(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/**
 * Makes `parent` hold one node for each item, in order, reusing nodes by key.
 * `make(item)` gives {node, update(item)}; update runs only when the item is another object.
 */
export function keyed(parent, items, keyOf, make) {
  const old = (parent._keyed ??= new Map());
  const kept = new Map();
  let at = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    let part = old.get(key);
    if (!part) {
      part = make(item);
      part.item = item;
    } else if (part.item !== item) {
      part.update(item);
      part.item = item;
    }
    kept.set(key, part);
    if (part.node === at) at = at.nextSibling;
    else parent.insertBefore(part.node, at);
  }
  for (const [key, part] of old) if (!kept.has(key)) part.node.remove();
  parent._keyed = kept;
  return kept;
}
