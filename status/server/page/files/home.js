// Home: everything that waits for the reader, and what every agent does.

import { copy } from "./actions.js";
import { Agents, said } from "./agents.js";
import { drawn, escaped, h, morph, pageHead } from "./dom.js";
import { later, missing } from "./later.js";
import { again, content } from "./message.js";
import { changeDelivery, controlRelay, dismiss, hold, Problem, release } from "./request.js";
import { Post } from "./post.js";
import { pathTo } from "./route.js";
import { agentOf, groupBy, keyOf, needing } from "./teams.js";
import { capital, cut, flat, gist, short, since, wholeTime } from "./text.js";

const loadUsage = later(() => import("./usage.js"), "usage.css");

// bare returns the row of an item that cannot be drawn as usual: its sender and its text.
const bare = (key, href, from, text) => h("li", { class: "need", "data-key": key, "data-kind": "trouble" }, h("a", { href },
  h("span", { class: "need-head" }, h("b", null, short(from, 100)), h("span", { class: "in" }, "⚠ cannot be shown correctly")),
  h("span", { class: "need-what" }, short(text, 200))));

// acts are the buttons of a row, by name: [label, effect on messages, condition, action].
const acts = {
  retry: ["Send again", again.retry, (a) => a.delivery, (a) => changeDelivery(a.delivery, "retry")],
  drop: ["Give up", again.drop, (a) => a.delivery, (a) => changeDelivery(a.delivery, "drop")],
  start: ["Start again", "Messages to it wait, and are sent once it runs", (a, page) => a.kind === "stopped" && page.relays.get(a.relay)?.state === "dead", (a) => controlRelay(a.relay, "retry")],
  hold: ["Hold", "Their messages to each other wait until you release them", (a) => a.holdable, (a) => hold(a.team, a.member, a.from)],
  release: ["Release", "The messages that wait are sent, and later ones are not held back", (a) => a.kind === "held", (a) => release(a.team, a.member, a.from)],
  dismiss: ["Dismiss", "It is no longer shown; nothing is sent", (a) => a.dismissable && !a.delivery, (a) => dismiss(a.id)],
};

// goTo is the label of an item's link to the conversation: what the reader is to do there.
const goTo = ({ kind }) => ({ unread: "Answer", done: "Answer", silent: "Ask", loop: "Ask" })[kind] ?? "Open";

// toDo splits the advice of an item into words and a command to copy. Advice that a button follows is left out.
export function toDo({ kind, command: typed, do: text }) {
  if (goTo({ kind }) !== "Open") return ["", ""];
  const [, words, command = ""] = /^(.*?)(?:(?:^|: )((?:teambridge|claude) .*))?$/s.exec(typed ?? text);
  return command.startsWith("teambridge ") && !command.startsWith("teambridge pane ") ? ["", ""] : [words, command];
}

// Home is the view.
export class Home {
  #main;
  #page;
  #parts = null;
  #notes = new Map(); // why an action failed, by row
  #busy = new Set(); // rows whose button was pressed
  #items = new Map(); // attention items, by agent
  #agents;
  #post;
  #usage = null; // once it was opened
  #folded = h("details", { class: "usage", ontoggle: () => this.#unfold() }, h("summary", null, "Tokens and cost"), h("div"));

  constructor(main, page) {
    this.#main = main;
    this.#page = page;
    this.#post = new Post(page);
    this.#agents = new Agents(page, (key) => this.#of(key), (list) => this.#act("dismiss", list));
  }

  open() {
    const p = this.#parts = {};
    p.title = h("h1", { id: "view-title", tabindex: "-1" }, "Overview");
    p.cards = h("div", { class: "asks" });
    p.rows = h("div", { class: "needs" });
    p.read = h("button", { type: "button", class: "small", hidden: true, onclick: () => this.#page.reader.seen(this.#page.reader.all()) }, "Mark all read");
    p.quiet = h("div", { class: "quiet-note" });
    const column = h("div", { class: "column" }, p.quiet, p.cards, this.#post.element, this.#agents.element, p.rows, this.#folded);
    column.addEventListener("click", (e) => {
      const button = e.target.closest(".need button[data-act]");
      const list = button ? this.#page.snapshot.attention.filter((a) => a.id === button.closest("li").dataset.key) : [];
      if (button?.dataset.act === "copy") for (const a of list) copy(button, toDo(a)[1]);
      else if (button) this.#act(button.dataset.act, list);
    });
    this.#main.replaceChildren(h("section", { class: "talk home", "aria-labelledby": "view-title" },
      pageHead(h("div", { class: "head-text" }, p.title), p.read, this.#page.notifier.control()),
      h("div", { class: "scroll" }, column)));
    this.refresh();
  }

  close() {
    this.#parts = null;
  }

  refresh() {
    const p = this.#parts;
    if (!p) return;
    const { snapshot, cards, reader, readOnly } = this.#page;
    p.read.hidden = readOnly || reader.all().length === 0;
    cards.show(p.cards, () => true, () => p.title.focus());
    const agents = new Set(snapshot.status.map((s) => keyOf(s.team, s.member)));
    const [own, rest] = [new Map(), []];
    for (const a of snapshot.attention) {
      if (a.answerable && a.question) continue; // a card
      const key = agentOf(a);
      if (!agents.has(key)) rest.push(a);
      else if (own.has(key)) own.get(key).push(a);
      else own.set(key, [a]);
    }
    // Silence is no news of an agent that asks something, or has written.
    for (const [key, list] of own) if (list.length > 1) own.set(key, list.filter((a) => a.kind !== "silent"));
    this.#items = own;
    this.#agents.element.hidden = agents.size === 0;
    this.#agents.show();
    this.#post.show();
    this.#usage?.refresh();
    morph(p.rows, h("div", { class: "needs" }, [...groupBy(rest, (a) => a.title)].map(([title, list]) =>
      h("section", { "data-key": title }, h("h2", null, title), h("ul", null, list.map((a) => this.#drawn(a)))))));
    morph(p.quiet, h("div", { class: "quiet-note" }, agents.size === 0
      ? h("div", { class: "all-quiet" }, h("h2", null, "No agents yet"), h("p", null, "Run ", h("code", null, "claude"), " in any terminal: it appears here, and you can write to it."),
        h("p", null, "To see simulated agents first, run ", h("code", null, "teambridge demo --keep"), "."))
      : needing(snapshot).size === 0 ? h("div", { class: "all-quiet" }, h("h2", null, "All quiet"), h("p", null, "Nothing needs you. Questions from agents, messages to you and problems appear here.")) : null));
  }

  // unfold loads the folded part, which few people open.
  async #unfold() {
    if (!this.#folded.open) return;
    try {
      const { Usage } = await loadUsage();
      this.#usage ??= new Usage(this.#folded);
      this.#usage.ask();
    } catch (problem) {
      this.#folded.lastElementChild.replaceWith(missing(problem));
    }
  }

  // of returns the items of an agent, as Agents needs them. draw leaves out a text that is known, because it is above
  // the row.
  #of(key) {
    const list = this.#items.get(key) ?? [];
    const { reader, readOnly, relays } = this.#page;
    return {
      list,
      draw: (known) => list.map((a) => this.#drawn(a, true, known)),
      shows: JSON.stringify([list, readOnly, list.map((a) => [this.#notes.get(a.id), this.#busy.has(a.id), a.since && since(new Date(a.since)), relays.get(a.relay)?.state, a.kind === "unread" && reader.last(a.team, a.from)])]),
    };
  }

  // drawn returns the row of an item; within means inside the row of its agent.
  #drawn(a, within = false, known = null) {
    return drawn(() => this.#row(a, within, known), () => bare(a.id, pathTo(a.team, a.member || null), a.from ?? a.member, a.what));
  }

  #row(a, within, known) {
    const member = a.kind === "unread" ? a.from : a.member || null;
    const waits = { lead: "asks", terminal: "asks", unread: "message", idle: "idle", done: "idle", silent: "idle", held: "held", draft: "held" }[a.kind] ?? "trouble";
    const at = a.since && new Date(a.since);
    const note = this.#notes.get(a.id);
    const { label, readOnly } = this.#page;
    const offered = readOnly ? [] : Object.entries(acts).filter(([, [, , there]]) => there(a, this.#page));
    const [words, command] = toDo(a);
    const does = readOnly ? "Open" : goTo(a);
    return h("li", { class: "need", "data-key": a.id, "data-kind": waits },
      within && a.what === known ? null : h("a", { href: pathTo(a.team, member) },
        within ? null : h("span", { class: "need-who" }, h("b", null, escaped(member ? cut(member, 100) : "Team")), " ", h("span", { class: "in", title: flat(a.team) }, escaped(label(a.team)))),
        h("span", { class: "need-what", title: a.kind === "unread" ? null : flat([a.what, [words, command].filter(Boolean).join(": ")].filter(Boolean).join(" · ")) }, this.#what(a, within),
          // The words are for items without a button.
          words && offered.every(([name]) => name === "dismiss") ? h("span", { class: "need-do" }, ...[" · ", escaped(capital(words)), command ? ": " : null, command ? h("code", null, escaped(command)) : null]) : null),
        at ? h("time", { datetime: a.since, title: wholeTime(at) }, since(at)) : null),
      h("p", { class: "need-acts" },
        command ? h("button", { type: "button", class: "small", title: flat(command), "data-act": "copy", "data-key": "copy" }, "Copy command") : null,
        h("a", { class: "small", "data-key": "go", href: pathTo(a.team, member, { write: does === "Open" ? "" : 1 }) }, does, h("span", { class: "unseen" }, ` ${flat(cut(member ?? label(a.team), 100))}`)),
        offered.map(([name, [label, title]]) =>
          h("button", { type: "button", class: "small", title, "data-act": name, "data-key": name, "aria-disabled": this.#busy.has(a.id) ? "true" : null }, label))),
      note ? h("p", { class: "need-note", role: "alert" }, escaped(note)) : null);
  }

  // what describes an item. The last unread message says more than the number of messages.
  #what(a, within) {
    const r = a.kind === "unread" && this.#page.reader.last(a.team, a.from);
    const { label, summary, text } = r ? content(r) : {};
    return [a.count > 1 ? [h("span", { class: "badge" }, String(a.count)), " "] : null,
      r && within ? said(r.from) : null,
      escaped(r ? short([label, summary, gist(text)].filter(Boolean).join(": "), 200) : capital(cut(a.what, 300)))].flat();
  }

  // act runs an action for each item of a list.
  async #act(name, list) {
    list = list.filter(({ id }) => !this.#busy.has(id));
    for (const { id } of list) {
      this.#busy.add(id);
      this.#notes.delete(id);
    }
    this.refresh();
    let done = 0;
    for (const a of list) {
      try {
        await acts[name][3](a);
        done++;
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        this.#notes.set(a.id, [problem.message, problem.hint].filter(Boolean).join(". "));
      }
      this.#busy.delete(a.id);
    }
    if (done > 0) this.#page.announce(`${acts[name][0]}: ${acts[name][1]}`);
    this.refresh();
  }
}
