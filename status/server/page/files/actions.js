// The buttons of a message: copy it, reply with a quote, copy a link to it. They are at the
// message under the mouse or with the focus; arrow keys move the focus to the next message.

import { h } from "./dom.js";
import { content } from "./message.js";
import { pathTo } from "./route.js";
import { cut } from "./text.js";

const quoted = 10; // lines
const mostQuoted = 4000; // characters

// quote returns the beginning of a text as a quote in Markdown.
export function quote(text) {
  const lines = cut(text.trim(), mostQuoted).split("\n");
  const shown = lines.length > quoted + 2 ? [...lines.slice(0, quoted), "…"] : lines;
  return shown.map((l) => `> ${l}`.trimEnd()).join("\n") + "\n\n";
}

export class Actions {
  #list;
  #view;
  #at = null; // the list item with the buttons
  #reply = button("Reply", () => this.#view.reply(this.#record()));
  #element = h("div", { class: "actions", role: "toolbar", "aria-label": "Message" },
    button("Copy", ({ target }) => copy(target, content(this.#record()).text)), this.#reply,
    button("Link", ({ target }) => {
      const { team, createdAt, member } = this.#view.place;
      copy(target, new URL(pathTo(team, member, { of: createdAt, at: this.#record().seq }), location.origin).href);
    }, "Copy a link to this message"));

  // list is the element of the messages, and view the conversation.
  constructor(list, view) {
    this.#list = list;
    this.#view = view;
    for (const kind of ["mouseover", "focusin", "click"]) list.addEventListener(kind, (e) => this.#goTo(e.target.closest(".message")));
    list.addEventListener("mouseleave", () => this.#goTo(list.contains(document.activeElement) ? document.activeElement.closest(".message") : null));
    list.addEventListener("focusout", (e) => list.contains(e.relatedTarget) || this.#goTo(null));
    list.addEventListener("keydown", (e) => this.#key(e));
  }

  // show makes one message reachable by Tab: the one with the buttons, or else the last one.
  show() {
    const all = this.#all();
    const one = all.includes(this.#at) ? this.#at : all.at(-1);
    for (const li of all) li.querySelector(":scope > .bubble").tabIndex = li === one ? 0 : -1;
  }

  #all() {
    return [...this.#list.children].filter((li) => li.querySelector(":scope > .bubble"));
  }

  #record() {
    const { seq } = this.#at.querySelector(":scope > .bubble").dataset;
    return this.#view.history.find(Number(seq)).records[0];
  }

  #goTo(li) {
    const bubble = li?.querySelector(":scope > .bubble");
    if (!bubble) {
      this.#element.remove();
      return;
    }
    if (this.#at === li && this.#element.parentElement === li) return;
    this.#at = li;
    this.show();
    this.#reply.hidden = !this.#view.canWrite();
    this.#element.style.top = bubble.offsetTop + 1 + "px";
    li.append(this.#element);
  }

  #key(e) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!step || !e.target.matches(".bubble") || e.ctrlKey || e.metaKey || e.altKey || e.shiftKey) return;
    const all = this.#all();
    const next = all[all.indexOf(this.#at) + step];
    if (!next) return;
    e.preventDefault();
    next.querySelector(":scope > .bubble").focus();
  }
}

const button = (words, act, title) => h("button", { type: "button", class: "small", title, onclick: act }, words);

// copy copies a text, and confirms it on the button that was pressed.
export async function copy(target, text) {
  const words = target.textContent;
  try {
    await navigator.clipboard.writeText(text);
    target.textContent = "Copied";
  } catch {
    target.textContent = "Not copied";
  }
  setTimeout(() => { target.textContent = words; }, 2000);
}
