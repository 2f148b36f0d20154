// The reader's choice of messages in a conversation: with the steps of agents or without them
// and, in the conversation with everyone, of which kind.

import { h, setAttr } from "./dom.js";
import { filterOf, filters, keepFilter, passes } from "./filter.js";

const hideSteps = "teambridge:hide-steps"; // in localStorage while steps are hidden

export class Choice {
  #filter = "all";
  #withSteps = localStorage.getItem(hideSteps) === null;
  #view;
  #steps = h("button", { type: "button", class: "small toggle", onclick: () => this.#toggle() }, "Steps");
  #box = null;
  #changed;

  // view is the conversation. changed is called after each choice, with true if the filter has
  // changed.
  constructor(view, changed) {
    this.#view = view;
    this.#changed = changed;
    const { team, member } = view.place;
    if (member === null) {
      this.#filter = filterOf(team);
      this.#box = h("select", { class: "filter", "aria-label": "Which messages", onchange: () => {
        this.#filter = this.#box.value;
        keepFilter(team, this.#filter);
        changed(true);
      } }, Object.entries(filters).map(([value, words]) => h("option", { value, selected: value === this.#filter }, words)));
    }
    this.elements = [this.#box, this.#steps].filter(Boolean);
    this.#show();
  }

  get all() {
    return this.#filter === "all";
  }

  get withSteps() {
    return this.#withSteps && this.all;
  }

  shows(item) {
    return this.all || passes(this.#filter, item, this.#view.names().mine);
  }

  // showAll shows all messages, with steps if wanted, until the conversation is closed.
  showAll(withSteps) {
    this.#filter = "all";
    if (this.#box) this.#box.value = "all";
    this.#withSteps ||= withSteps;
    this.#show();
  }

  #show() {
    setAttr(this.#steps, "aria-pressed", this.#withSteps ? "true" : "false");
    setAttr(this.#steps, "title", this.#withSteps ? "Hide the steps of agents" : "Show the steps of agents");
  }

  #toggle() {
    this.#withSteps = !this.#withSteps;
    try {
      if (this.#withSteps) localStorage.removeItem(hideSteps);
      else localStorage.setItem(hideSteps, "1");
    } catch { /* no space: it lasts until the conversation is closed */ }
    this.#show();
    this.#changed(false);
  }
}
