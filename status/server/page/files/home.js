// Home: everything that waits for the reader, and what the teams do if nothing does.

import { drawn, escaped, h, morph, pageHead } from "./dom.js";
import { content } from "./message.js";
import { changeDelivery, controlRelay, dismiss, messages, Problem, release } from "./request.js";
import { pathTo } from "./route.js";
import { groupBy } from "./teams.js";
import { capital, cut, flat, gist, short, since, wholeTime } from "./text.js";

const asks = new Set(["permission", "plan", "question"]);
const groups = [
  { title: "At a terminal", of: (a) => a.kind === "lead" || a.kind === "terminal" || a.kind === "draft" || asks.has(a.kind) },
  { title: "Messages to you", of: (a) => a.kind === "unread" },
  { title: "Finished", of: (a) => a.kind === "done" },
  { title: "Trouble", of: (a) => a.kind !== "idle" && a.kind !== "ended" },
  { title: "Idle teams, and teams without a lead", of: () => true },
];

// counts reports whether something is counted as waiting. Messages are counted one by one,
// and teams that rest may do so for days.
const counts = (a) => a.kind !== "unread" && a.kind !== "idle" && a.kind !== "ended";

// needs returns how much waits for the reader.
export function needs(snapshot, unread) {
  return snapshot.attention.filter(counts).length + snapshot.teams.reduce((n, t) => n + unread(t.team, null), 0);
}

const mostTeams = 8; // whose last messages are shown

// bare returns a row that cannot be drawn as it should: who it is from, and its text.
const bare = (key, href, from, text) => h("li", { class: "need", "data-key": key, "data-kind": "trouble" }, h("a", { href },
  h("span", { class: "need-head" }, h("b", null, short(from, 100)), h("span", { class: "in" }, "⚠ cannot be shown as it should")),
  h("span", { class: "need-what" }, short(text, 200))));

// acts are what the buttons of a row do, by name: [label, when it is there, what it does].
const acts = {
  retry: ["Send again", (a) => a.delivery, (a) => changeDelivery(a.delivery, "retry")],
  drop: ["Give up", (a) => a.delivery, (a) => changeDelivery(a.delivery, "drop")],
  start: ["Start again", (a, page) => a.kind === "stopped" && page.relays.get(a.relay)?.state === "dead", (a) => controlRelay(a.relay, "retry")],
  release: ["Release", (a) => a.kind === "held", (a) => release(a.relay, a.from)],
  dismiss: ["Dismiss", (a) => a.dismissable && !a.delivery, (a) => dismiss(a.id)],
};

// Home is the view.
export class Home {
  #main;
  #page;
  #parts = null;
  #last = new Map(); // the last messages, by team
  #notes = new Map(); // what became of a button, by row
  #busy = new Set(); // rows whose button was pressed

  constructor(main, page) {
    this.#main = main;
    this.#page = page;
  }

  open() {
    const p = this.#parts = {};
    p.title = h("h1", { id: "view-title", tabindex: "-1" }, "Needs you");
    p.cards = h("div", { class: "asks" });
    p.rows = h("div", { class: "needs" });
    p.quiet = h("div", { class: "quiet-teams" });
    p.rows.addEventListener("click", (e) => {
      const button = e.target.closest("button[data-act]");
      if (button) this.#act(button.dataset.act, button.closest("li").dataset.key);
    });
    this.#main.replaceChildren(h("section", { class: "talk home", "aria-labelledby": "view-title" },
      pageHead(h("div", { class: "head-text" }, p.title), this.#page.notifier.control()),
      h("div", { class: "scroll" }, h("div", { class: "column" }, p.cards, p.rows, p.quiet))));
    this.refresh();
    this.#load();
  }

  close() {
    this.#parts = null;
  }

  refresh() {
    const p = this.#parts;
    if (!p) return;
    const { snapshot, cards } = this.#page;
    const asked = cards.show(p.cards, () => true, () => p.title.focus());
    const grouped = groupBy(snapshot.attention.filter((a) => !(a.answerable && a.question)), (a) => groups.find(({ of }) => of(a)).title);
    morph(p.rows, h("div", { class: "needs" }, groups.filter(({ title }) => grouped.has(title)).map(({ title }) =>
      h("section", { "data-key": title }, h("h2", null, title), h("ul", null, grouped.get(title).map((a) => drawn(() => this.#row(a), () => bare(a.id, pathTo(a.team, a.member || null), a.from ?? a.member, a.what))))))));
    const quiet = asked === 0 && !snapshot.attention.some((a) => counts(a) || a.kind === "unread");
    morph(p.quiet, h("div", { class: "quiet-teams" }, quiet ? this.#quiet() : null));
  }

  #row(a) {
    const member = a.kind === "unread" ? a.from : a.member || null;
    const waits = { lead: "asks", terminal: "asks", unread: "message", idle: "idle", done: "idle", held: "held", draft: "held" }[a.kind] ?? "trouble";
    const at = a.since && new Date(a.since);
    const note = this.#notes.get(a.id);
    const offered = Object.entries(acts).filter(([, [, there]]) => there(a, this.#page));
    const mark = (name) => (name ? cut(name, 100) : "Team");
    return h("li", { class: "need", "data-key": a.id, "data-kind": waits },
      h("a", { href: pathTo(a.team, member) },
        h("span", { class: "need-head" }, h("b", null, escaped(mark(member))), h("span", { class: "in", title: flat(a.team) }, escaped(this.#page.label(a.team))),
          at ? h("time", { datetime: a.since, title: wholeTime(at) }, since(at)) : null),
        h("span", { class: "need-what" }, this.#what(a))),
      // A button is better than a command.
      offered.every(([name]) => name === "dismiss") && a.kind !== "unread" && a.kind !== "done" ? h("p", { class: "need-do" }, escaped(capital(a.do))) : null,
      offered.length === 0 || this.#page.readOnly ? null : h("p", { class: "need-acts" }, offered.map(([name, [label]]) =>
        h("button", { type: "button", class: "small", "data-act": name, "data-key": name, "aria-disabled": this.#busy.has(a.id) ? "true" : null }, label))),
      note ? h("p", { class: "need-note", role: "alert" }, escaped(note)) : null);
  }

  // what says what a row is about. The last unread message says more than how many there are.
  #what(a) {
    const r = a.kind === "unread" && this.#page.reader.last(a.team, a.from);
    if (!r) return escaped(capital(cut(a.what, 300)));
    const { label, summary, text } = content(r);
    return [a.count > 1 ? h("span", { class: "badge" }, String(a.count)) : null, a.count > 1 ? " " : null,
      escaped(short([label, summary, gist(text)].filter(Boolean).join(": "), 200))];
  }

  async #act(name, id) {
    const a = this.#page.snapshot.attention.find((a) => a.id === id);
    if (!a || this.#busy.has(id)) return;
    this.#busy.add(id);
    this.#notes.delete(id);
    this.refresh();
    try {
      await acts[name][2](a);
      this.#page.announce(`${acts[name][0]}: done`);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.#notes.set(id, [problem.message, problem.hint].filter(Boolean).join(". "));
    }
    this.#busy.delete(id);
    this.refresh();
  }

  // message takes a message that appeared.
  message(r) {
    if (!r.noise && !r.work) this.#add(r.team, [r]);
  }

  // add adds messages to the last ones of a team. Those that load asks for may be older.
  #add(team, list) {
    const all = new Map([...this.#last.get(team) ?? [], ...list].map((r) => [r.seq, r]));
    this.#last.set(team, [...all.values()].sort((a, b) => a.seq - b.seq).slice(-3));
  }

  #teams() {
    return this.#page.snapshot.teams.filter((t) => t.leadState !== "gone" && !t.problem).slice(0, mostTeams);
  }

  async #load() {
    for (const { team } of this.#teams()) {
      try {
        const { messages: list } = await messages(team, { limit: 3, work: false });
        this.#add(team, list);
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem; // there is less to see
      }
      this.refresh();
    }
  }

  // quiet shows what teams do when nothing waits.
  #quiet() {
    const { snapshot } = this.#page;
    const teams = this.#teams();
    return [
      h("div", { class: "all-quiet" }, h("h2", null, "All quiet"), h("p", null, teams.length === 0
        ? "Nothing needs you. Teams appear here when Claude Code creates them."
        : "Nothing needs you. Questions of agents, messages to you and trouble appear here.")),
      ...teams.map((t) => {
        const states = groupBy(snapshot.status.filter((s) => s.team === t.team), (s) => s.word);
        return h("section", { class: "quiet-team", "data-key": t.team },
          h("h3", null, h("a", { href: pathTo(t.team, null), title: flat(t.team) }, escaped(this.#page.label(t.team))), h("span", { class: "in" }, [...states].map(([word, list]) => `${list.length} ${flat(word)}`).join(" · "))),
          h("ul", null, (this.#last.get(t.team) ?? []).toReversed().map((r) => drawn(() => this.#said(r), () => bare(String(r.seq), pathTo(r.team, null), r.from, r.text)))));
      }),
    ];
  }

  #said(r) {
    const { mine, name } = this.#page.names(r);
    const { label, summary, text } = content(r);
    const at = new Date(r.firstSeen);
    return h("li", { "data-key": String(r.seq) }, h("a", { href: pathTo(r.team, mine(r.from) ? r.inbox : r.from, { of: r.createdAt, at: r.seq }) },
      h("span", { class: "need-head" }, h("b", null, escaped(name(r.from))), r.answer ? null : [" → ", escaped(name(r.inbox))], h("time", { title: wholeTime(at) }, since(at))),
      h("span", { class: "need-what" }, escaped(short([label, summary || gist(text)].filter(Boolean).join(": "), 160)))));
  }
}
