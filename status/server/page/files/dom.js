// Elements. What is put into them are nodes and texts, never markup.

import { pieces } from "./text.js";

// h makes an element: h("p", {class: "x", onclick: f}, child…). A child that is no
// node becomes a node of text; null and false are left out.
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

// said shows a text of somebody else. What is escaped in it looks like it.
export function said(text, lines = false) {
  const list = pieces(text, lines);
  const part = document.createDocumentFragment();
  for (const [t, escaped] of list) part.append(escaped ? h("span", { class: "esc" }, t) : t);
  return part;
}

// setText changes the text of an element, if it is another one: screen readers
// tell what is set again.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// setAttr does the same for an attribute; null removes it.
export function setAttr(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
  }
}

// morph makes an element like another one, and keeps what of it stays: focus, and
// what a screen reader is reading. Children with the same data-key are the same.
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
