// The elements of an agent's steps: a line each, in groups that unfold.

import { escaped, h, morph, place, setAttr } from "./dom.js";
import { started } from "./markdown.js";
import { when } from "./message.js";
import { short, wholeTime } from "./text.js";
import { codeParts, running, summary } from "./work.js";

// Steps is one group. show can be called again with other steps: elements that remain are
// kept, folded or unfolded as they were.
export class Steps {
  #fold = h("details", { class: "steps" });
  #head = h("summary", null, h("span", { class: "glyph", "aria-hidden": "true" }), h("span", { class: "line" }));
  #list = h("ol");

  // element is a list item, or only the fold for the steps of a subagent.
  constructor({ nested = false } = {}) {
    this.#fold.append(this.#head, this.#list);
    this.element = nested ? this.#fold : h("li", { class: "message work" }, this.#fold);
  }

  // show shows steps. A single one needs no fold unless it has a label, such as the name of
  // the agent, which has a color.
  show(steps, label, color) {
    const alone = steps.length === 1 && !label;
    if (alone) this.#fold.open = true;
    // The reader may be reading what one step unfolded.
    else if (this.#fold.classList.contains("alone")) this.#fold.open = this.#list.querySelector("details[open]") !== null;
    this.#fold.classList.toggle("alone", alone);
    place(this.#list, steps.map(element));
    const { text, after, running } = summary(steps);
    setAttr(this.#head, "data-running", running);
    morph(this.#head.lastElementChild, h("span", { class: "line" }, label ? [h("b", { "data-color": color }, label), " · "] : null,
      running ? h("span", { class: "unseen" }, "running: ") : null, code(text), after ? h("span", { class: "after" }, " · " + after) : null));
  }
}

// element returns the element of a step, which shows the step as it is now.
function element(step) {
  const { item } = step;
  const [r] = item.records;
  const now = running(step);
  const shown = now + r.text; // a turn can have a thousand steps
  if (!item.step) item.step = h("li", { class: "step", "data-kind": r.kind, "data-seq": r.seq, title: wholeTime(when(r)) }, line(r, now));
  else if (item.shown !== shown) morph(item.step.firstElementChild, line(r, now));
  item.shown = shown;
  setAttr(item.step, "data-running", now);
  setAttr(item.step, "data-state", r.work.state);
  if (step.steps.length > 0) {
    if (!item.inner) item.step.append((item.inner = new Steps({ nested: true })).element);
    item.inner.show(step.steps, "subagent");
  }
  return item.step;
}

// line returns the line of one step. Texts and thoughts unfold.
function line(r, running) {
  if (r.kind === "text" || r.kind === "thinking") {
    const words = r.kind === "thinking" ? "thinking" : escaped(short(r.text, 100));
    if (!r.text.trim() || (r.kind === "text" && short(r.text, 100) === r.text)) return h("p", { class: "line" }, words);
    return h("details", { class: "thought" }, h("summary", null, h("span", { class: "line" }, words)), started(r.text));
  }
  return h("p", { class: "line" }, h("span", { class: "glyph", "aria-hidden": "true" }), running ? h("span", { class: "unseen" }, "running: ") : null, code(r.text));
}

const code = (text) => codeParts(text).map(([t, isCode]) => (isCode ? h("code", null, escaped(t)) : escaped(t)));
