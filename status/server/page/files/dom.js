// Elements. Their content is nodes and texts, never markup.

import { pieces } from "./text.js";

// h creates an element: h("p", {class: "x", onclick: f}, child…). A child that is not a
// node becomes a text node; null and false are left out.
export function h(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

// escaped returns a text of somebody else as nodes, with its escaped parts marked.
export function escaped(text, lines = false) {
  const fragment = document.createDocumentFragment();
  for (const [t, isEscaped] of pieces(text, lines)) fragment.append(isEscaped ? h("span", { class: "esc" }, t) : t);
  return fragment;
}

// pageHead returns the head of a view, with a link back for narrow screens.
export const pageHead = (...content) => h("header", { class: "head" },
  h("a", { class: "back", href: "#/teams", "aria-label": "Back to teams and members" }, h("span", { "aria-hidden": "true" }, "‹")), content);

// setText sets a text if it is different: screen readers repeat what is set again.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// setAttr does the same for an attribute. null removes it.
export function setAttr(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// place makes nodes the children of a list, in order. Those that are there are not touched.
export function place(list, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...list.children]) if (!wanted.has(child)) child.remove();
  let at = list.firstChild;
  for (const node of nodes) {
    if (node === at) at = at.nextSibling;
    else list.insertBefore(node, at);
  }
}

// morph changes an element into another one, but keeps the nodes that both have, so that
// focus and the position of a screen reader stay. Children with the same data-key match.
export function morph(from, to) {
  for (const { name, value } of to.attributes) setAttr(from, name, value);
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name);
  const keyed = new Map();
  for (const child of from.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  let at = from.firstChild;
  for (const want of [...to.childNodes]) {
    const key = want.dataset?.key;
    let have = key ? keyed.get(key) : at;
    if (!key && have?.dataset?.key) have = null;
    if (!have || have.nodeName !== want.nodeName) {
      from.insertBefore(want, at);
      continue;
    }
    if (have === at) at = at.nextSibling;
    else from.insertBefore(have, at);
    if (have.nodeType === Node.TEXT_NODE) setText(have, want.data);
    else morph(have, want);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}
