// Markdown. Its parser is loaded when there is some to show.

import { h, long } from "./dom.js";
import { later } from "./later.js";
import { beginning } from "./message.js";

let draw = null; // of rich.js, once that is loaded
const load = later(() => import("./rich.js"));

// ready resolves when Markdown can be drawn or, if the parser cannot be loaded, is shown as it was written.
export const ready = () => (draw ? Promise.resolve() : load().then((rich) => { draw = rich.draw; }, (problem) => console.warn(problem)));

// started returns the beginning of a Markdown text, and a button for all.
export function started(text) {
  const start = beginning(text);
  if (start.length === text.length) return rendered(text);
  const box = h("div", { class: "started" }, rendered(start), h("button", { type: "button", class: "more", onclick: () => {
    const all = rendered(text);
    all.tabIndex = -1;
    box.replaceWith(all);
    all.focus();
  } }, "Show more"));
  return box;
}

// rendered returns the element of a Markdown text. A text over the limits of rich.js is shown as it was written.
export function rendered(text) {
  const nodes = draw?.(text);
  const body = nodes ? h("div", { class: "text rich", dir: "auto" }, nodes) : h("p", { class: "text", dir: "auto" }, long(text));
  if (!draw) ready().then(() => { if (draw) body.replaceWith(rendered(text)); });
  return body;
}
