// The list of teams and members, and what they are doing.

import { colorOf, face } from "./colors.js";
import { escaped, h, morph, place } from "./dom.js";
import { draftOf } from "./outbox.js";
import { instance } from "./reader.js";
import { pathTo } from "./route.js";
import { ended, groupBy, labels, order, queued, total } from "./teams.js";
import { capital, cut, flat, since } from "./text.js";

const fewTeams = 4; // as many are open at first

// heardOf says when a member was last heard, such as "last heard 3 min ago".
function heardOf(s) {
  const ago = since(new Date(s.heard));
  return `last heard ${ago}${ago.startsWith("just") ? "" : " ago"}`;
}

// state describes what a member is doing.
export const state = (s) => [capital(flat(s.word)), s.why && flat(s.why), heardOf(s)].filter(Boolean).join(" · ");

// dot shows a state by color and shape, next to the words.
export const dot = (s) => h("span", { class: "dot", "data-state": s.state, "aria-hidden": "true" });

// badge counts something; what says what.
export const badge = (n, what, kind = "badge") => (n > 0 ? h("span", { class: kind }, String(n), h("span", { class: "unseen" }, " " + what)) : null);

const works = (s) => s.word === "working";
const needs = (n) => badge(n, n === 1 ? "thing needs you" : "things need you", "badge needs");

// People is this list.
export class People {
  #root;
  #parts;
  #open = new Map(); // by team: whether its members are shown
  #over = false; // whether the teams that have ended are shown
  #made = new Map(); // by team: its element, and what that shows
  #shown; // by show
  #there = ""; // what was selected then

  constructor(root) {
    this.#root = root;
    const p = this.#parts = { home: h("a"), none: h("div"), live: h("ul", { class: "teams" }), over: h("section", { class: "over", "aria-label": "Ended teams" }) };
    p.overHead = h("div");
    p.overList = h("ul", { class: "teams" });
    p.over.append(p.overHead, p.overList);
    root.append(p.home, p.none, p.live, p.over);
    root.addEventListener("click", (e) => {
      const button = e.target.closest("button");
      if (!button) return;
      const open = button.getAttribute("aria-expanded") !== "true";
      if (button.dataset.team === undefined) this.#over = open;
      else this.#open.set(button.dataset.team, open);
      this.show(this.#shown);
    });
    // Up and down, in addition to Tab.
    root.addEventListener("keydown", (e) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (!step || e.ctrlKey || e.metaKey || e.altKey) return;
      const all = [...root.querySelectorAll("button, a")];
      const next = all[all.indexOf(document.activeElement) + step];
      if (next) {
        next.focus();
        e.preventDefault();
      }
    });
  }

  // show shows a snapshot. home is whether Home is open, and here the open conversation.
  // counts is how much needs the reader, by team. unread counts the unread messages of a member, or
  // of a team for null.
  show(shown) {
    this.#shown = { ...shown, labels: labels(shown.snapshot.teams), states: groupBy(shown.snapshot.status, (s) => s.team) };
    const { counts, here, home, snapshot } = shown;
    const { live, over } = order(snapshot);
    const there = here ? pathTo(here.team, here.member) : "";
    const moved = there !== this.#there;
    this.#there = there;
    for (const t of snapshot.teams) {
      if (moved && t.team === here?.team) {
        this.#open.set(t.team, true);
        this.#over ||= ended(t);
      } else if (!this.#open.has(t.team)) this.#open.set(t.team, live.length <= fewTeams && !ended(t));
    }
    const names = new Set(snapshot.teams.map((t) => t.team));
    for (const name of [...this.#made.keys()]) if (!names.has(name)) this.#made.delete(name);
    const p = this.#parts;
    morph(p.home, h("a", { class: "member to-home", href: "#/", "aria-current": home ? "page" : null },
      h("span", { class: "face", "aria-hidden": "true" }, "⌂"), h("span", { class: "member-name" }, "Home"), h("span", { class: "end" }, needs(total(counts)))));
    morph(p.none, snapshot.teams.length === 0
      ? h("div", { class: "nobody" }, h("p", null, "No teams yet."), h("p", null, "A team appears here when Claude Code creates it."),
        h("p", null, "For an agent in a tmux pane, run: ", h("code", null, "teambridge pane add NAME --pane %12")))
      : h("div", { class: "nobody", hidden: live.length > 0 }, h("p", null, "No team is running.")));
    place(p.live, live.map((t) => this.#item(t)));
    p.over.hidden = over.length === 0;
    morph(p.overHead, this.#ended(over));
    place(p.overList, this.#over ? over.map((t) => this.#item(t)) : []);
    if (moved) this.#root.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  // item returns the element of a team. One of which nothing has changed is not made again:
  // there can be hundreds of members, and each message comes here.
  #item(t) {
    const { counts, here, labels, states, unread } = this.#shown;
    const open = this.#open.get(t.team);
    const members = states.get(t.team) ?? [];
    const ours = here?.team === t.team;
    const shows = JSON.stringify([t, open, labels.get(t.team), counts.get(t.team), ours && here.member,
      open ? members.map((s) => [s, since(new Date(s.heard)), unread(s.team, s.member), this.#draft(t, s.member)]) : members.filter(works).length,
      open && this.#draft(t, null)]);
    const made = this.#made.get(t.team);
    if (made?.shows === shows) return made.element;
    const element = this.#team(t, open, members);
    if (made) morph(made.element, element);
    this.#made.set(t.team, { shows, element: made?.element ?? element });
    return made?.element ?? element;
  }

  // draft reports whether something is being written to a member, in a conversation that is
  // not open.
  #draft(t, member) {
    const { here } = this.#shown;
    return !(here?.team === t.team && here.member === member) && draftOf(t.team, instance(t), member) !== "";
  }

  #ended(over) {
    const { counts } = this.#shown;
    return h("div", null,
      h("h2", null, h("button", { type: "button", "aria-expanded": String(this.#over) },
        h("span", { class: "turn", "aria-hidden": "true" }), h("span", { class: "team-name" }, "Ended"),
        h("span", { class: "heard" }, String(over.length)), needs(over.reduce((n, t) => n + (counts.get(t.team) ?? 0), 0)))),
      this.#over ? h("p", { class: "about" }, over.length === 1 ? "The team's lead is not running." : "The leads of these teams are not running.") : null);
  }

  #team(t, open, members) {
    const { counts, labels } = this.#shown;
    const working = members.filter(works).length;
    const doing = open || ended(t) || working === 0 ? null : h("span", { class: "heard" }, `${working} working`);
    return h("li", { class: "team", "data-key": t.team },
      h("h2", null, h("button", { type: "button", "data-team": t.team, "aria-expanded": String(open), title: [flat(t.team), flat(t.cwd)].filter(Boolean).join("\n") },
        h("span", { class: "turn", "aria-hidden": "true" }), h("span", { class: "team-name" }, escaped(labels.get(t.team))), doing,
        needs(counts.get(t.team) ?? 0))),
      t.problem ? h("p", { class: "about warn" }, "⚠ " + flat(t.problem)) : null,
      open && !t.problem ? h("ul", { class: "members" },
        // Sessions have nothing to do with one another: nobody writes to all of them by a click.
        t.sessions ? null : h("li", { "data-key": "*" }, this.#row(t, null, null, h("span", { class: "face all", "aria-hidden": "true" }, "∗"), "Everyone")),
        members.map((s) => h("li", { "data-key": "m" + s.member }, this.#member(s, t)))) : null);
  }

  #member(s, t) {
    const why = s.section === "needs-you" || s.section === "stuck" ? s.sectionWhy : "";
    const more = [state(s), s.relay && `relay ${flat(s.relay.state)}`, s.unread > 0 && (queued(t) ? `${s.unread} waiting` : `${s.unread} unread in its inbox`)];
    return this.#row(t, s.member, s.state, face(s.member, colorOf(s.member, s.color), dot(s)),
      [escaped(s.member), s.member === t.lead && !/lead/i.test(s.member) ? h("span", { class: "role" }, "lead") : null,
        s.relay?.state === "local" ? h("span", { class: "role" }, "terminal") : null], more.filter(Boolean).join("\n"),
      h("span", { class: "heard" }, h("span", { class: "word", "data-word": s.word }, flat(s.word)),
        h("span", { class: "unseen" }, ", last heard"), " ", since(new Date(s.heard)).replace("just\u00a0", "")),
      why && !ended(t) ? h("span", { class: "doing" }, escaped(cut(why, 300))) : null);
  }

  #row(t, member, state, avatar, name, title, heard, why) {
    const { here, unread } = this.#shown;
    const current = here?.team === t.team && here.member === member;
    const draft = this.#draft(t, member);
    return h("a", { class: "member", href: pathTo(t.team, member), "aria-current": current ? "page" : null, "data-state": state, title }, avatar,
      h("span", { class: "member-name" }, name),
      h("span", { class: "end" }, draft ? h("span", { class: "draft" }, "Draft") : heard, member === null ? null : badge(unread(t.team, member), "unread")), why);
  }
}
