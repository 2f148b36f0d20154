// The element of one message: its sender, time, text and state.

import { colorOf, face } from "./colors.js";
import { drawn, escaped, h, long, morph } from "./dom.js";
import { rendered } from "./markdown.js";
import { again, beginning, content, fate, mayBeLong, outcome, tick, when } from "./message.js";
import { changeDelivery, Problem } from "./request.js";
import { size, timeOf, wholeTime } from "./text.js";
import { isStep } from "./work.js";

// written are the kinds of messages that somebody wrote for others to read, in Markdown.
const written = new Set(["message", "answer", "text", "idle_notification"]);

// Rows makes the elements of the messages of a conversation. view is the conversation: its
// place, the names in it, and what its buttons do.
export class Rows {
  #view;
  #resent = new Set(); // seqs of messages that were sent again
  #unfolded = new Set(); // seqs of long messages that are shown in full
  #fits = new ResizeObserver((entries) => fit(entries.map((e) => e.target)));
  #fitted = new WeakSet(); // elements that it observes

  constructor(view) {
    this.#view = view;
  }

  names() {
    return this.#view.names();
  }

  // fit cuts the long messages in an element only if they are higher than the limit.
  fit(element) {
    const list = [...element.querySelectorAll(".clamped")].filter((e) => !this.#fitted.has(e));
    fit(list);
    for (const body of list) {
      this.#fitted.add(body);
      this.#fits.observe(body);
    }
  }

  // update renders a message again, in its place.
  update(item) {
    if (!item.li || isStep(item.records[0])) return;
    const [from, to] = [item.li, this.render(item)].map((li) => li.querySelector(".bubble"));
    to.tabIndex = from.tabIndex; // see Actions
    morph(from, to);
    fit([...item.li.querySelectorAll(".clamped")]);
    this.fit(item.li);
  }

  // render returns the element of a message; only its text, if it cannot be drawn.
  render(item) {
    return drawn(() => this.#draw(item), () => {
      const [r] = item.records;
      return h("li", { class: "message between" }, h("article", { class: "bubble", "data-seq": r.seq },
        h("header", { class: "by" }, h("span", { class: "label" }, "⚠ This message cannot be shown correctly")), h("p", { class: "text", dir: "auto" }, long(String(r.text)))));
    });
  }

  #draw(item) {
    const r = item.records[0];
    if (r.work && r.kind !== "text") return this.#note(r);
    const names = this.names();
    const mine = names.mine(r.from);
    const { label, summary, text, raw } = content(r);
    const body = raw
      ? h("details", { class: "raw" }, h("summary", null, "Show the raw text"), h("pre", null, long(text)))
      : text ? this.#text(r, text, item) : null;
    const direction = mine ? "mine" : names.mine(r.inbox) || r.answer || r.work ? "tome" : "between";
    const color = mine ? null : this.color(r);
    const to = this.#to(item, names);
    return h("li", { class: `message ${direction}` }, h("article", { class: "bubble", "data-seq": r.seq },
      face(names.name(r.from), color),
      h("header", { class: "by" },
        h("span", { class: "pair" }, h("b", { "data-color": color }, escaped(names.name(r.from))), to ? h("span", null, "\u00a0→ ", escaped(to)) : null),
        label ? h("span", { class: "label" }, escaped(label)) : null,
        h("time", { datetime: r.firstSeen, title: wholeTime(when(r)) }, timeOf(when(r))),
        summary ? h("span", { class: "summary", dir: "auto" }, long(summary, false)) : null),
      body,
      mine ? this.#fates(item) : r.relay ? h("div", { class: "fates" }, h("p", { class: "fate", "data-state": "relay" }, outcome(r.relay))) : null));
  }

  color(r) {
    return colorOf(r.from, this.#view.color(r.from) ?? r.color);
  }

  // to returns the recipient of a message, if the conversation does not imply it.
  #to(item, names) {
    const [r] = item.records;
    const { member } = this.#view.place;
    if (r.answer || r.work || r.inbox === member || (member !== null && names.mine(r.inbox))) return "";
    return item.records.length > 1 ? `${item.records.length} members` : names.name(r.inbox);
  }

  // note shows how a turn ended, or a notice of the program that runs the agent.
  #note(r) {
    return h("li", { class: "message note" }, h("p", { class: "bubble", "data-kind": r.kind, "data-state": r.work.state, "data-seq": r.seq, title: wholeTime(when(r)) },
      this.#view.place.member === null ? [h("b", null, escaped(r.from)), " · "] : null, r.work.state === "failed" ? "⚠ " : null, long(r.text, false)));
  }

  #text(r, text, item) {
    const whole = this.#unfolded.has(r.seq);
    const cut = whole ? text : beginning(text);
    const body = written.has(r.kind) ? rendered(cut) : h("p", { class: "text", dir: "auto" }, long(cut));
    if (cut.length < text.length) body.append("…");
    if (!mayBeLong(text)) return body;
    body.classList.toggle("clamped", !whole);
    return [body, h("button", { type: "button", class: "more", "aria-expanded": String(whole), title: size(text), onclick: () => {
      if (!this.#unfolded.delete(r.seq)) this.#unfolded.add(r.seq);
      this.update(item);
    } }, whole ? "Show less" : "Show more")];
  }

  // fates shows the state of a message of the reader, for each recipient.
  #fates(item) {
    const several = item.records.length > 1;
    const names = this.#view.names();
    return h("div", { class: "fates" }, item.records.map((r) => {
      const typed = r.relay?.pane;
      const f = fate(r);
      const parts = [h("span", { class: "tick", "aria-hidden": "true" }, tick(f.word)), " "];
      if (several) parts.push(h("b", null, escaped(names.name(r.inbox))), " ");
      parts.push(outcome(f), f.more ?? "");
      if (r.relay && !typed && r.relay.word !== f.word) parts.push(" · ", outcome(r.relay));
      const reach = this.#view.page.reach(r.inbox, r.id);
      if (reach && f.word === "sent") parts.push(h("span", { class: "warn" }, " · ⚠ it " + reach));
      if (typed && r.relay.state === "failed") parts.push(" ", this.#again(r.relay));
      else if (!typed && r.receipt && (r.receipt.state === "lost" || r.receipt.state === "unknown") && (this.#resent.has(r.seq) || this.#view.canWrite())) {
        parts.push(" ", this.#resent.has(r.seq) ? h("span", { class: "done" }, "Sent again.")
          : h("button", { type: "button", class: "small", onclick: () => {
            this.#resent.add(r.seq);
            this.update(item);
            this.#view.post({ member: r.inbox, text: r.text });
          } }, "Send again"));
      }
      return h("p", { class: "fate", "data-state": f.word, title: f.title || null }, parts);
    }));
  }

  // again returns the buttons that send a failed or uncertain message to a pane again, or give it
  // up.
  #again(relay) {
    const button = (words, what) => h("button", { type: "button", class: "small", title: again[what], onclick: async ({ target }) => {
      const both = target.parentElement;
      try {
        await changeDelivery(relay.delivery, what);
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        both.replaceChildren(escaped(problem.message), ".");
      }
    } }, words);
    return h("span", { class: "both" }, button("Send again", "retry"), " ", button("Give up", "drop"));
  }
}

// fit marks clamped texts that are cut, and shows their buttons only then.
function fit(list) {
  const cuts = list.map((e) => e.classList.contains("clamped") && (e.scrollHeight > e.clientHeight + 1 || e.lastChild?.data === "…"));
  for (const [n, body] of list.entries()) {
    if (!body.isConnected || !body.classList.contains("clamped")) continue; // another one took its place, or it is shown in full by now
    body.classList.toggle("cut", cuts[n]);
    body.nextElementSibling.hidden = !cuts[n];
  }
}
