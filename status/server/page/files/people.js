// The list of teams and members, and what they are doing.

import { colorOf, face } from "./colors.js";
import { escaped, h, morph, place } from "./dom.js";
import { draftOf } from "./outbox.js";
import { instance } from "./reader.js";
import { pathTo } from "./route.js";
import { ended, order, queued, total } from "./teams.js";
import { capital, cut, flat, since } from "./text.js";

const fewTeams = 4; // if there are at most as many, they are unfolded at first

// heardOf says when a member was last heard, such as "last heard 3 min ago".
function heardOf(s) {
  const ago = since(new Date(s.heard));
  return `last heard ${ago}${ago.startsWith("just") ? "" : " ago"}`;
}

// state describes what a member is doing.
export const state = (s) => [capital(flat(s.word)), s.why && flat(s.why), heardOf(s)].filter(Boolean).join(" · ");

// dot shows the word for an agent's state by color and shape.
export const dot = ({ word }) => h("span", { class: "dot", "data-word": word, title: capital(flat(word)), "aria-hidden": "true" });

// legend shows the dot of each word.
export const legend = () => h("p", { class: "legend" }, ["working", "waiting for you", "idle", "blocked", "unknown", "ended"].map((word) => h("span", null, dot({ word }), " ", word)));

// badge shows a number of things, which what names.
export const badge = (n, what, kind = "badge") => (n > 0 ? h("span", { class: kind }, String(n), h("span", { class: "unseen" }, " " + what)) : null);

const works = (s) => s.word === "working";
const needs = (n) => badge(n, n === 1 ? "thing needs you" : "things need you", "badge needs");

// People is this list.
export class People {
  #root;
  #parts;
  #open = new Map(); // by team or project: whether its members are shown
  #over = false; // whether ended teams are shown
  #made = new Map(); // by team or project: its element, and what that shows
  #shown; // the argument of the last show
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

  // show draws a snapshot. home is whether Home is open, and here the open conversation.
  // counts has how many agents and items need the reader, as needing returns it. unread counts the
  // unread messages of a member, or of a team for null.
  show(shown) {
    this.#shown = shown;
    const { counts, here, home, snapshot } = shown;
    const { live, over } = order(snapshot);
    const there = here ? pathTo(here.team, here.member) : "";
    const moved = there !== this.#there;
    this.#there = there;
    const all = [...live, ...over];
    for (const { key, t, members } of all) {
      if (moved && t.team === here?.team && (!t.sessions || members.some((s) => s.member === here.member))) {
        this.#open.set(key, true);
        this.#over ||= ended(t);
      } else if (!this.#open.has(key)) this.#open.set(key, live.length <= fewTeams && !ended(t));
    }
    const keys = new Set(all.map(({ key }) => key));
    for (const key of [...this.#made.keys()]) if (!keys.has(key)) this.#made.delete(key);
    const p = this.#parts;
    morph(p.home, h("a", { class: "member to-home", href: "#/", "aria-current": home ? "page" : null },
      h("span", { class: "face", "aria-hidden": "true" }, "⌂"), h("span", { class: "member-name" }, "Home"), h("span", { class: "end" }, needs(total(counts)))));
    morph(p.none, h("div", { class: "nobody", hidden: live.length > 0 }, h("p", null, all.length > 0 ? "No team is running." : "No agents yet.")));
    place(p.live, live.map((e) => this.#item(e)));
    p.over.hidden = over.length === 0;
    morph(p.overHead, this.#ended(over));
    place(p.overList, this.#over ? over.map((e) => this.#item(e)) : []);
    if (moved) this.#root.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  // item returns the element of a team or project. It reuses an unchanged one: there can be hundreds
  // of members, and show is called after each message.
  #item(e) {
    const { key, t, members, ...names } = e;
    const { counts, here, unread } = this.#shown;
    const open = this.#open.get(key);
    const ours = here?.team === t.team;
    const shows = JSON.stringify([t, open, names, counts.get(key), ours && here.member,
      open ? members.map((s) => [s, since(new Date(s.heard)), unread(s.team, s.member), this.#draft(t, s.member)]) : members.filter(works).length,
      open && this.#draft(t, null)]);
    const made = this.#made.get(key);
    if (made?.shows === shows) return made.element;
    const element = this.#team(e, open);
    if (made) morph(made.element, element);
    this.#made.set(key, { shows, element: made?.element ?? element });
    return made?.element ?? element;
  }

  // draft reports whether there is a draft for a member whose conversation is not open.
  #draft(t, member) {
    const { here } = this.#shown;
    return !(here?.team === t.team && here.member === member) && draftOf(t.team, instance(t), member) !== "";
  }

  #ended(over) {
    const { counts } = this.#shown;
    return h("div", null,
      h("h2", null, h("button", { type: "button", "aria-expanded": String(this.#over) },
        h("span", { class: "turn", "aria-hidden": "true" }), h("span", { class: "team-name" }, "Ended"),
        h("span", { class: "heard" }, String(over.length)), needs(over.reduce((n, { key }) => n + (counts.get(key) ?? 0), 0)))),
      this.#over ? h("p", { class: "about" }, over.length === 1 ? "The team's lead is not running." : "The leads of these teams are not running.") : null);
  }

  #team({ key, t, label, title, members }, open) {
    const working = members.filter(works).length;
    const doing = open || ended(t) || working === 0 ? null : h("span", { class: "heard" }, `${working} working`);
    return h("li", { class: "team", "data-key": key },
      h("h2", null, h("button", { type: "button", "data-team": key, "aria-expanded": String(open), title: title.filter(Boolean).map(flat).join("\n") },
        h("span", { class: "turn", "aria-hidden": "true" }), h("span", { class: "team-name" }, escaped(label)), doing,
        needs(this.#shown.counts.get(key) ?? 0))),
      t.problem ? h("p", { class: "about warn" }, "⚠ " + flat(t.problem)) : null,
      open && !t.problem ? h("ul", { class: "members" },
        // Sessions are unrelated, so no click writes to all of them.
        t.sessions ? null : h("li", { "data-key": "*" }, this.#row(t, null, null, h("span", { class: "face all", "aria-hidden": "true" }, "∗"), "Everyone")),
        members.map((s) => h("li", { "data-key": "m" + s.member }, this.#member(s, t)))) : null);
  }

  #member(s, t) {
    const why = (s.section === "needs-you" || s.section === "stuck") && s.sectionKind !== "unread" ? s.sectionWhy : ""; // a badge counts messages
    const more = [state(s), s.relay && `relay ${flat(s.relay.state)}`, s.unread > 0 && (queued(t) ? `${s.unread} waiting` : `${s.unread} unread in its inbox`)];
    return this.#row(t, s.member, s.word, face(s.member, colorOf(s.member, s.color), dot(s)),
      [escaped(s.member), s.member === t.lead && !/lead/i.test(s.member) ? h("span", { class: "role" }, "lead") : null,
        s.relay?.state === "local" ? h("span", { class: "role" }, "terminal") : null], more.filter(Boolean).join("\n"),
      h("span", { class: "heard" }, h("span", { class: "word", "data-word": s.word }, flat(s.word)),
        h("span", { class: "unseen" }, ", last heard"), " ", since(new Date(s.heard)).replace("just\u00a0", "")),
      why && !ended(t) ? h("span", { class: "doing" }, escaped(cut(why, 300))) : null);
  }

  #row(t, member, word, avatar, name, title, heard, why) {
    const { here, unread } = this.#shown;
    const current = here?.team === t.team && here.member === member;
    const draft = this.#draft(t, member);
    return h("a", { class: "member", href: pathTo(t.team, member), "aria-current": current ? "page" : null, "data-word": word, title }, avatar,
      h("span", { class: "member-name" }, name),
      h("span", { class: "end" }, draft ? h("span", { class: "draft" }, "Draft") : heard, member === null ? null : badge(unread(t.team, member), "unread")), why);
  }
}
