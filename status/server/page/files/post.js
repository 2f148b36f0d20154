// The box on Home that sends a message: its recipient and its text.

import { h, setText } from "./dom.js";
import { draftOf, keepDraft } from "./outbox.js";
import { places } from "./places.js";
import { instance } from "./reader.js";
import { pathTo } from "./route.js";
import { flat } from "./text.js";

// found returns the places that a typed name means: a whole offer, a whole name, or the beginning of an offer.
export function found(list, name) {
  const wanted = name.trim().toLowerCase();
  const tries = [(p) => p.offer.toLowerCase() === wanted, (p) => p.name.toLowerCase() === wanted, (p) => p.offer.toLowerCase().startsWith(wanted)];
  return (wanted && tries.map((is) => list.filter(is)).find((l) => l.length > 0)) || [];
}

// Post is this box.
export class Post {
  #page;
  #list = [];
  #offers = h("datalist", { id: "post-offers" });
  #to = h("input", { class: "post-to", list: "post-offers", "aria-label": "To", placeholder: "To", autocomplete: "off", spellcheck: "false" });
  #text = h("textarea", { class: "post-text", rows: "1", "aria-label": "Message", placeholder: "Write to an agent" });
  #note = h("p", { class: "post-note", role: "alert" });
  element = h("form", { class: "post", onsubmit: (e) => this.#submit(e) }, this.#to, this.#offers, this.#text, h("button", { type: "submit", class: "send" }, "Send"), this.#note);

  constructor(page) {
    this.#page = page;
    for (const field of [this.#to, this.#text]) { // kept like the drafts of conversations, but without a team
      field.value = draftOf("", 0, field.className);
      field.addEventListener("input", () => keepDraft("", 0, field.className, field.value));
    }
    this.#text.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey) || e.isComposing) return;
      e.preventDefault();
      this.element.requestSubmit();
    });
  }

  // show offers the possible recipients.
  show() {
    const list = places(this.#page).filter((p) => p.status && !p.over).map((p) => ({ ...p, offer: flat(`${p.name} · ${p.team}`) }));
    this.element.hidden = this.#page.readOnly || list.length === 0;
    const changed = list.map((p) => p.offer).join("\n") !== this.#list.map((p) => p.offer).join("\n");
    this.#list = list;
    if (changed) this.#offers.replaceChildren(...list.map((p) => h("option", { value: p.offer })));
  }

  async #submit(e) {
    e.preventDefault();
    const [one, another] = found(this.#list, this.#to.value);
    const text = this.#text.value;
    setText(this.#note, !one ? (this.#to.value.trim() ? "No agent has this name." : "Choose a recipient.") : another ? `Several agents match: ${one.offer}, ${another.offer}` : "");
    if (!one || another) return this.#to.focus();
    if (!text.trim()) return this.#text.focus();
    for (const field of [this.#to, this.#text]) keepDraft("", 0, field.className, field.value = "");
    const { team, member } = one.status;
    const createdAt = instance(this.#page.snapshot.teams.find((t) => t.team === team));
    const sent = this.#page.outbox.post({ team, createdAt, member, text });
    location.hash = pathTo(team, member); // which shows the message and its state
    this.#page.sent(await sent);
  }
}
