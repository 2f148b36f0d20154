// The overview on Home: every agent is one row, in the section that the service chose.

import { colorOf, face } from "./colors.js";
import { escaped, h, morph, place, setText } from "./dom.js";
import { score } from "./fuzzy.js";
import { dot, legend } from "./people.js";
import { instance } from "./reader.js";
import { changesPath, pathTo, tasksPath } from "./route.js";
import { groupBy, keyOf, projects } from "./teams.js";
import { capital, cut, flat, short, since, wholeTime } from "./text.js";

const sections = ["needs-you", "stuck", "working", "idle", "ended"]; // of the API, in their order
const stored = "teambridge:group"; // in localStorage: "team" or "project", which groups the agents

const few = 3; // up to this many agents with one reason have no group of their own

// said names the author of the words that follow it.
export const said = (who) => h("span", { class: "said-by" }, escaped(short(who, 40)), ": ");

// Agents is this list. items(key) returns the attention items of an agent, as {list, draw, shows}: draw makes their
// rows, and shows is a text that changes whenever the rows do. dismiss dismisses a list of items.
export class Agents {
  #page;
  #items;
  #dismiss;
  #open = new Map(); // by group with one reason: whether its agents are shown
  #by = localStorage.getItem(stored) === "team" ? "team" : "project";
  #over = false; // whether ended agents are shown
  #rows = new Map(); // by agent: its element, and what that shows
  #groups = new Map(); // by section and group: its elements
  #sections = new Map();
  #filter = h("input", { class: "agents-filter", type: "search", "aria-label": "Filter agents", placeholder: "Filter agents", autocomplete: "off", spellcheck: "false", oninput: () => this.show() });
  #switch = ["project", "team"].map((by) => h("button", { type: "button", class: "small toggle", onclick: () => {
    this.#by = by;
    try {
      localStorage.setItem(stored, by);
    } catch { /* no space: it lasts until the page is closed */ }
    this.show();
  } }, "By " + by));
  #none = h("p", { class: "agents-none", role: "status" });
  #list = h("div", { class: "agents-list" });
  element = h("div", { class: "agents" }, h("div", { class: "agents-head" }, h("span", { class: "agents-words" }, this.#filter, h("kbd", { "aria-hidden": "true" }, "/")), h("a", { class: "small agents-tasks", href: tasksPath({}) }, "Tasks"),
    h("span", { class: "agents-by", role: "group", "aria-label": "Group agents" }, this.#switch)), this.#none, this.#list, legend());

  constructor(page, items, dismiss) {
    this.#page = page;
    this.#items = items;
    this.#dismiss = dismiss;
    for (const name of sections) {
      const title = capital(name.replace("-", " "));
      const count = h("span", { class: "agents-count" });
      const list = h("div", { class: "agents-groups" });
      const head = name !== "ended" ? [title, " ", count] : h("button", { type: "button", "aria-expanded": "false", onclick: () => {
        this.#over = !this.#over;
        this.show();
      } }, h("span", { class: "turn", "aria-hidden": "true" }), title, " ", count);
      this.#sections.set(name, { count, list, element: h("section", { class: "agents-section", "data-section": name }, h("h2", null, head), list) });
    }
  }

  // show draws the agents of the last snapshot. Unchanged rows are kept.
  show() {
    const { snapshot } = this.#page;
    const teams = new Map(snapshot.teams.map((t) => [t.team, t]));
    const dirs = projects(snapshot.status);
    const where = (s) => {
      const machine = teams.get(s.team)?.machine;
      const team = this.#page.label(s.team);
      const project = dirs.get(s.cwd) ?? (machine ? "on " + machine : team);
      const { name } = this.#page.names({ team: s.team, createdAt: teams.has(s.team) ? instance(teams.get(s.team)) : 0 });
      return { team, project, machine, other: this.#by === "team" ? project : teams.get(s.team)?.sessions ? "" : team, from: s.doingFrom ? name(s.doingFrom) : "", files: !machine && !teams.get(s.team)?.panes, group: this.#by === "team" ? s.team : s.cwd ?? project, label: this.#by === "team" ? team : project };
    };
    const query = this.#filter.value.trim();
    const all = snapshot.status.map((s) => ({ s, key: keyOf(s.team, s.member), ...where(s) }));
    const shown = query ? all.filter((one) => matches(query, one)) : all;
    for (const [at, by] of ["project", "team"].entries()) this.#switch[at].setAttribute("aria-pressed", String(this.#by === by));
    setText(this.#none, all.length > 0 && shown.length === 0 ? "No agent matches." : "");
    const several = new Set(all.map((one) => one.group)).size > 1;
    const bySection = groupBy(shown, ({ s }) => s.section ?? "idle");
    const groups = new Set();
    for (const [name, { count, element, list }] of this.#sections) {
      const here = bySection.get(name) ?? [];
      setText(count, String(here.length));
      element.hidden = here.length === 0;
      const open = name !== "ended" || this.#over || query !== "";
      if (name === "ended") element.querySelector("button").setAttribute("aria-expanded", String(open));
      const waits = name === "needs-you" || name === "stuck";
      if (waits) here.sort((a, b) => waited(a.s) - waited(b.s));
      place(list, !open ? [] : [...groupBy(here, waits ? reasons(here) : (one) => one.group)].map(([group, members]) => {
        const key = name + "\0" + group;
        groups.add(key);
        return !waits ? this.#group(key, members, several) : group === "" ? this.#group(key, members, false) : this.#alike(key, members, name === "needs-you" || query !== "");
      }));
    }
    for (const key of this.#groups.keys()) if (!groups.has(key)) this.#groups.delete(key);
    const keys = new Set(all.map((one) => one.key));
    for (const key of this.#rows.keys()) if (!keys.has(key)) this.#rows.delete(key);
    place(this.#list, [...this.#sections.values()].map(({ element }) => element));
  }

  #made(key) {
    let g = this.#groups.get(key);
    if (!g) this.#groups.set(key, g = { head: h("h3"), list: h("ul") });
    g.element ??= h("div", { class: "agents-group" }, g.head, g.list);
    return g;
  }

  // alike draws a group of agents that wait for the same reason: the reason once, with their number.
  #alike(key, members, shown) {
    const g = this.#made(key);
    const why = capital(flat(members[0].s.sectionWhy));
    const open = this.#open.get(key) ?? shown;
    const all = members.flatMap((one) => this.#items(one.key).list).filter((a) => a.dismissable && !a.delivery);
    morph(g.head, h("h3", { class: "agents-alike" },
      h("button", { type: "button", "aria-expanded": String(open) }, h("span", { class: "turn", "aria-hidden": "true" }), h("span", { class: "badge" }, String(members.length)), " ", short(why, 160)),
      all.length > 0 && !this.#page.readOnly ? h("button", { type: "button", class: "small", "data-key": "all" }, "Dismiss all", h("span", { class: "unseen" }, `: ${short(why, 60)}`)) : null));
    g.head.onclick = ({ target }) => {
      if (target.closest("[data-key=all]")) this.#dismiss(all);
      else if (target.closest("button")) this.show(this.#open.set(key, !open));
    };
    place(g.list, open ? members.map((one) => this.#row({ ...one, alike: true })) : []);
    return g.element;
  }

  #group(key, members, several) {
    const g = this.#made(key);
    setText(g.head, flat(members[0].label));
    g.head.title = flat(this.#by === "team" ? members[0].group : members[0].s.cwd ?? "");
    g.head.hidden = !several;
    place(g.list, members.map((one) => this.#row(one)));
    return g.element;
  }

  #row(one) {
    const { s, key } = one;
    const items = this.#items(key);
    const { heard, ...rest } = s; // heard changes with each message, and is not shown
    const shows = JSON.stringify([rest, one.alike, one.from, one.label, one.team, one.project, ago(s.sectionSince), ago(s.toolSince), items.shows, this.#by]);
    const made = this.#rows.get(key);
    if (made?.shows === shows) return made.element;
    const element = this.#draw(one, items.draw(one.alike ? one.s.sectionWhy : null));
    if (made) morph(made.element, element);
    this.#rows.set(key, { shows, element: made?.element ?? element });
    return made?.element ?? element;
  }

  #draw({ s, alike, from, other, machine, files, label }, items) {
    const waits = s.section === "needs-you" || s.section === "stuck";
    const at = s.sectionSince && new Date(s.sectionSince);
    const why = alike || (items.length > 0 && s.sectionKind) ? "" : s.sectionWhy ?? "";
    const inline = items.length > 0 && !alike; // the items replace the agent's activity
    return h("li", { class: inline ? "agent waits" : "agent", "data-key": keyOf(s.team, s.member), "data-section": s.section },
      h("a", { class: "agent-line", "data-row": "", href: pathTo(s.team, s.member) },
        face(s.member, colorOf(s.member, s.color), dot(s)),
        h("span", { class: "agent-name" }, h("b", null, escaped(cut(s.member, 100))), " ", h("span", { class: "in" }, escaped([waits ? label : "", other === label ? "" : other, waits && label.endsWith(machine) ? "" : machine, s.program].filter(Boolean).join(" · ")))),
        h("span", { class: "agent-word" }, capital(flat(s.word)), why ? h("span", { class: "unseen" }, ": ") : null),
        inline ? null : h("span", { class: "agent-doing" }, why ? h("span", { class: "agent-why" }, escaped(short(why, 160))) : null,
          s.task ? h("span", { class: "agent-task", title: `task #${flat(s.taskId)}` }, h("span", { class: "unseen" }, "task in progress: "), h("span", { "aria-hidden": "true" }, "▸ "), escaped(short(s.task, 120))) : null,
          s.doing ? h("span", { class: "agent-task", title: flat(`from ${s.doingFrom}`) }, said(from), h("span", { class: "said" }, escaped(short(s.doing, 120)))) : null,
          s.tool && s.word === "working" ? h("span", { class: "agent-tool" }, escaped(short(s.tool.replaceAll("`", ""), 90)), h("span", { class: "unseen" }, ", "), " ", h("span", { class: "in" }, ago(s.toolSince))) : null),
        at && !inline ? h("time", { datetime: s.sectionSince, title: wholeTime(at) }, since(at)) : null),
      items.length > 0 ? h("ul", { class: "needs" }, items) : null,
      files ? h("a", { class: "agent-files", href: changesPath(s.team, s.member), title: "The files that it has changed" }, "Changes", h("span", { class: "unseen" }, ` of ${flat(cut(s.member, 100))}`)) : null);
  }
}

// reasons returns the function that maps an agent to its group: the reason why it waits, if more than a few agents
// have the same, else "". Messages to the reader are never a common reason.
function reasons(list) {
  const why = ({ s }) => (s.sectionKind === "unread" ? "" : s.sectionWhy || "");
  const same = groupBy(list, why);
  return (one) => (same.get(why(one)).length > few ? why(one) : "");
}

const ago = (at) => (at ? since(new Date(at)) : "");
const waited = (s) => (s.sectionSince ? Date.parse(s.sectionSince) : Infinity);

// matches reports whether an agent matches a query, which has a few letters of its name, or words of its row.
function matches(query, { s, team, project, machine }) {
  if (score(query, s.member) > 0) return true;
  const text = [s.member, team, project, machine, s.word, s.section, s.sectionWhy, s.doing, s.task, s.tool, s.cwd].filter(Boolean).join("\n").toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
