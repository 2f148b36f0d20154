// Makes and changes elements. Their content is nodes and texts, never markup.

import { part, pieces } from "./text.js";

// h creates an element: h("p", {class: "x", onclick: f}, child…). A child that is not a
// node becomes a text node; null and false are left out.
export function h(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value === true ? "" : value);
  }
  // One by one: a call takes no more than some 100,000 arguments.
  for (const c of children.flat()) if (c !== null && c !== undefined && c !== false) e.append(c);
  return e;
}

// drawn returns the result of draw or, if draw fails, that of plain, which draws less. So one item
// that cannot be drawn does not hide the others.
export function drawn(draw, plain) {
  try {
    return draw();
  } catch (problem) {
    console.warn(problem);
    return plain();
  }
}

// escaped returns a text that others wrote as nodes, with its escaped parts marked.
export function escaped(text, lines = false) {
  const fragment = document.createDocumentFragment();
  for (const [t, isEscaped] of pieces(text, lines)) fragment.append(isEscaped ? h("span", { class: "esc" }, t) : t);
  return fragment;
}

const mostText = 20000; // characters that are shown at once
const mostLines = 1000;
const mostRows = 500;
const lineSize = 200; // characters; a longer row counts as several

// long returns a text as escaped does, but of a long one only the beginning, which is shown
// quickly, and a button that shows the next part.
export function long(text, lines = true) {
  let start = part(text, mostText), at = 0;
  for (let n = 0; n < mostLines && at >= 0; n++) at = start.indexOf("\n", at + 1);
  if (at > 0) start = start.slice(0, at + 1);
  const shown = escaped(start, lines);
  const left = text.length - start.length;
  // The next part is a block of its own, so that the parts before it are not laid out again.
  if (left > 0) shown.append(button(`${left} of ${text.length} characters are not shown`, () => h("span", { class: "rest" }, long(text.slice(start.length), lines))));
  return shown;
}

// rows does the same for a list: make returns the element of an item. what is the plural noun
// for the items, and size returns how many characters one has.
export function rows(list, make, what, size, from = 0) {
  const shown = document.createDocumentFragment();
  let at = from;
  for (let cost = 0; at < list.length && cost < mostRows; at++) {
    cost += 1 + Math.min(size(list[at]), mostText) / lineSize;
    shown.append(make(list[at]));
  }
  const left = list.length - at;
  if (left > 0) shown.append(button(`${left} of ${list.length} ${what} are not shown`, () => rows(list, make, what, size, at)));
  return shown;
}

function button(about, next) {
  return h("button", { type: "button", class: "more rest", onclick: ({ currentTarget: clicked }) => {
    const made = next();
    const focus = made.lastElementChild?.matches("button.rest") ? made.lastElementChild : clicked.closest("[tabindex]");
    clicked.replaceWith(made);
    focus?.focus();
  } }, `Show more (${about})`);
}

// pageHead returns the head of a view, with a link back for narrow screens.
export const pageHead = (...content) => h("header", { class: "head" },
  h("a", { class: "back", href: "#/teams", "aria-label": "Back to teams and members" }, h("span", { "aria-hidden": "true" }, "‹")), content);

// setText sets a text if it is different: screen readers repeat a text that is set again.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// setAttr does the same for an attribute. null removes it.
export function setAttr(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// place makes nodes the children of a list, in order. Nodes already in place are not touched.
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
