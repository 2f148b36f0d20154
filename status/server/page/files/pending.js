// The messages of a conversation that are not known to have arrived.

import { face } from "./colors.js";
import { escaped, h, morph } from "./dom.js";
import { beginning } from "./message.js";

export class Pending {
  element = h("ol", { class: "messages outbox", "aria-label": "Not sent yet", hidden: true });
  #view;

  // view is the conversation. It has the outbox, and takes a text back to edit it.
  constructor(view) {
    this.#view = view;
  }

  get any() {
    return this.element.childElementCount > 0;
  }

  show() {
    const { page, place: { team, createdAt, member }, history } = this.#view;
    const list = page.outbox.of(team, createdAt, member)
      // A message to all is shown in the list as soon as one copy has arrived.
      .filter((e) => !(e.state === "sending" || e.state === "sent") || !history.items.some((i) => i.records.some((r) => r.id.startsWith(e.key))));
    morph(this.element, h("ol", { class: "messages outbox", "aria-label": "Not sent yet", hidden: list.length === 0 },
      list.map((e) => h("li", { class: "message mine", "data-key": e.key + e.state },
        h("article", { class: "bubble" }, face("you"),
          h("p", { class: "text", dir: "auto" }, escaped(beginning(e.text), true)),
          h("div", { class: "fates" }, this.#state(e)))))));
  }

  #state(e) {
    const { page, edit, sent } = this.#view;
    const tick = (mark) => h("span", { class: "tick", "aria-hidden": "true" }, mark);
    if (e.state === "sending") return h("p", { class: "fate", "data-state": "sending" }, tick("…"), " sending");
    if (e.state === "sent") return h("p", { class: "fate", "data-state": "sent" }, tick("✓"), " sent");
    const uncertain = e.state === "uncertain";
    const button = (words, act) => h("button", { type: "button", class: "small", onclick: act }, words);
    const retry = async (force) => sent(await page.outbox.retry(e, force));
    return h("p", { class: "fate", "data-state": uncertain ? "uncertain" : "failed", role: "alert" },
      tick("⚠"), uncertain ? " may not have been sent. " : " not sent. ",
      h("span", { class: "reason" }, escaped(e.detail), ". ", e.hint ? [escaped(e.hint), ". "] : null,
        uncertain ? "Sending it again does not make a second copy. " : null),
      e.code === "unknown" ? button("Send anyway", () => retry(true)) : button("Send again", () => retry(false)), " ",
      uncertain ? null : button("Edit", () => {
        page.outbox.drop(e.key);
        edit(e.text);
      }), " ",
      button("Discard", () => page.outbox.drop(e.key)));
  }
}
