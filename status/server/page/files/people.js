// Teams and members, and what they are doing.

import { escaped, h, morph } from "./dom.js";
import { pathTo } from "./route.js";
import { flat, since } from "./text.js";

// state describes what a member is doing.
export function state(s) {
  const word = flat(s.word);
  return [word.charAt(0).toUpperCase() + word.slice(1), s.why && flat(s.why), since(new Date(s.wordSince))].filter(Boolean).join(" · ");
}

// dot shows a state by color and shape, next to the words.
export const dot = (s) => h("span", { class: "dot", "data-state": s.state, "aria-hidden": "true" });

const rank = { alive: 0, unknown: 1, gone: 2 };

// People is the list of teams.
export class People {
  #root;
  #open = new Map(); // by name: whether the reader opened or closed it
  #shown; // by show

  constructor(root) {
    this.#root = root;
    root.addEventListener("click", (e) => {
      const name = e.target.closest("button[data-team]")?.dataset.team;
      if (name === undefined) return;
      this.#open.set(name, e.target.closest("button").getAttribute("aria-expanded") !== "true");
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

  // show shows a snapshot. here is the open conversation, and unread counts the unread
  // messages of a member, or of a team for null.
  show(shown) {
    this.#shown = shown;
    const teams = [...shown.snapshot.teams].sort((a, b) => (rank[a.leadState] ?? 1) - (rank[b.leadState] ?? 1) ||
      Date.parse(b.createdAt) - Date.parse(a.createdAt) || (a.team < b.team ? -1 : 1));
    const list = h("nav", { id: "people", "aria-label": "Teams and members" },
      teams.length === 0
        ? h("div", { class: "nobody" }, h("p", null, "No teams yet."), h("p", null, "A team appears here when Claude Code creates it."))
        : h("ul", { class: "teams" }, teams.map((t, n) => this.#team(t, n))));
    morph(this.#root, list);
  }

  #team(t, n) {
    const { here, unread, snapshot } = this.#shown;
    const open = this.#open.get(t.team) ?? (here?.team === t.team || (n < 6 && t.leadState !== "gone"));
    const count = unread(t.team, null);
    const place = flat(t.cwd).replace(/^.*\/(?=[^/]+\/[^/]+$)/, "…/");
    const about = t.problem ? ["⚠ " + flat(t.problem)] : [place, t.leadState === "gone" && "the lead has ended"].filter(Boolean);
    return h("li", { class: "team", "data-key": t.team },
      h("h2", null, h("button", { type: "button", "data-team": t.team, "aria-expanded": String(open) },
        h("span", { class: "turn", "aria-hidden": "true" }),
        h("span", { class: "team-name" }, escaped(t.team)),
        open ? null : badge(count))),
      about.length ? h("p", { class: "about", title: flat(t.cwd) || null }, about.join(" · ")) : null,
      open && !t.problem ? h("ul", { class: "members" },
        h("li", { "data-key": "*" }, this.#link(t.team, null, null, h("span", { class: "face all", "aria-hidden": "true" }, "∗"), "Everyone", "All messages in the team")),
        snapshot.status.filter((s) => s.team === t.team).map((s) => h("li", { "data-key": "m" + s.member }, this.#member(s, t)))) : null);
  }

  #member(s, t) {
    return this.#link(s.team, s.member, s.state, h("span", { class: "face", "aria-hidden": "true" }, initial(s.member), dot(s)),
      [escaped(s.member), s.member === t.lead ? h("span", { class: "role" }, "lead") : null],
      [state(s), relay(s), waiting(s)], badge(this.#shown.unread(s.team, s.member)));
  }

  #link(team, member, state, face, name, doing, badge) {
    const { here } = this.#shown;
    const current = here?.team === team && here.member === member;
    return h("a", { class: "member", href: pathTo(team, member), "aria-current": current ? "page" : null, "data-state": state }, face,
      h("span", { class: "who" }, h("span", { class: "member-name" }, name), h("span", { class: "doing" }, doing)), badge);
  }
}

// initial returns the first letter of a name.
const initial = (name) => flat([...String(name)][0] ?? "?").toUpperCase();

function badge(n) {
  return n > 0 ? h("span", { class: "badge" }, String(n), h("span", { class: "unseen" }, " unread")) : null;
}

function waiting(s) {
  return s.unread > 0 ? h("span", { class: "waiting" }, `${s.unread} unread in its inbox`) : null;
}

function relay(s) {
  if (!s.relay) return null;
  const bad = s.relay.state === "dead" || s.relay.deadLetters > 0 || s.relay.held?.length > 0;
  return h("span", { class: bad ? "warn" : null }, ` · ${bad ? "⚠ " : ""}relay ${flat(s.relay.state)}`);
}
