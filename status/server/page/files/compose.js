// The box to write in. A draft is kept until it is sent.

import { escaped, h, morph, setText } from "./dom.js";
import { draftOf, keepDraft } from "./outbox.js";
import { PaneChoice } from "./panes.js";
import { join, Problem } from "./request.js";

const mac = /Mac|iPhone|iPad/.test(navigator.platform);

export class Compose {
  #place;
  #text;
  #lead = h("input", { type: "checkbox", id: "lead" });
  #toLead = h("label", { class: "check" }, this.#lead, " Also send to the lead");
  #pane = new PaneChoice();
  #title;
  #form;
  #shown; // the argument of the last show
  #refused = ""; // why the reader could not join
  #notice = h("p", { class: "hint", hidden: true });
  #closed = h("p", { class: "closed", hidden: true });

  // send is called with {text, lead, pane}.
  constructor(place, title, send) {
    this.#place = place;
    this.#title = title;
    const { team, createdAt, member } = place;
    const t = this.#text = h("textarea", { id: "text", rows: "1", placeholder: `Message to ${title}`, "aria-describedby": "keys" });
    this.#form = h("form", { class: "compose" },
      h("label", { class: "unseen", for: "text" }, `Message to ${title}`), t,
      h("div", { class: "compose-foot" },
        member === null ? this.#toLead : null, this.#pane.elements,
        h("span", { class: "keys", id: "keys" }, h("kbd", null, mac ? "⌘" : "Ctrl"), " ", h("kbd", null, "Enter"), " sends"),
        h("button", { type: "submit", class: "send" }, "Send")));
    this.elements = [this.#notice, this.#form, this.#closed];
    t.value = draftOf(team, createdAt, member);
    t.addEventListener("input", () => {
      keepDraft(team, createdAt, member, t.value);
      this.grow();
    });
    t.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.isComposing) {
        e.preventDefault();
        this.#form.requestSubmit();
      }
    });
    this.#form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.#submit(send);
    });
  }

  // grow makes the box as high as its text. It has to be in the document.
  grow() {
    const t = this.#text;
    t.style.height = "auto";
    t.style.height = Math.min(t.scrollHeight + 2, innerHeight * 0.4) + "px";
  }

  // open reports whether a message can be sent.
  get open() {
    return !this.#form.hidden;
  }

  focus() {
    this.#text.focus();
  }

  // add puts a text before the draft.
  add(text) {
    const t = this.#text;
    t.value = t.value && !text.endsWith("\n") ? text + "\n" + t.value : text + t.value;
    t.dispatchEvent(new Event("input"));
    t.focus();
    t.setSelectionRange(t.value.length, t.value.length);
  }

  // show replaces the box with closed, the reason why it is closed, if there is one. It warns that
  // messages may never be read, if unread is true, or that agents cannot answer (unanswerable).
  // queue is "panes" if messages are typed into terminal panes, and "sessions" for sessions.
  show(shown) {
    const { closed, unread, unanswerable, queue } = this.#shown = shown;
    this.#toLead.hidden = Boolean(queue);
    this.#pane.show(queue);
    this.#closed.hidden = !closed;
    this.#form.hidden = Boolean(closed);
    setText(this.#closed, closed);
    const notice = unread ? [h("span", { class: "warn" }, "⚠ The team's lead is not running: your messages may never be read.")]
      : unanswerable ? ["Agents of this team cannot write to you yet. ", h("button", { type: "button", class: "small", onclick: (e) => this.#join(e.target) }, "Let them"), this.#refused ? h("span", { class: "warn" }, " ", escaped(this.#refused)) : null].flat() : [];
    morph(this.#notice, h("p", { class: "hint", hidden: notice.length === 0 }, notice));
  }

  // join makes the reader a member, so that agents can write to them. The next snapshot shows it.
  async #join(button) {
    button.disabled = true;
    try {
      await join(this.#place.team);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      button.disabled = false;
      this.#refused = problem.message;
      this.show(this.#shown);
    }
  }

  #submit(send) {
    const t = this.#text;
    const text = t.value;
    t.focus();
    if (!text.trim() || this.#form.hidden) return;
    this.#pane.take(this.#title, (pane) => {
      const { team, createdAt, member } = this.#place;
      t.value = "";
      keepDraft(team, createdAt, member, "");
      this.grow();
      send({ text, lead: this.#lead.checked, pane });
    });
  }
}
