// The board of the tasks of teams and sessions: their states, their owners, and what they wait for.

import { colorOf, face } from "./colors.js";
import { escaped, h, long, morph, pageHead, place, setText } from "./dom.js";
import { lines } from "./lines.js";
import { Problem, taskHistory } from "./request.js";
import { pathTo, tasksPath } from "./route.js";
import { cut, dayOf, flat, short, since, timeOf, wholeTime } from "./text.js";

const columns = { pending: "Pending", in_progress: "In progress", completed: "Completed" };
const nobody = "\0"; // the choice of tasks without an owner
const most = 100; // cards of a column that are drawn at once
const keyOf = (t) => t.list + "\0" + t.id;
const ownerOf = (t) => (t.owner ?? "").split("@")[0];

// Tasks is the view.
export class Tasks {
  #main;
  #page;
  #go;
  #parts = null;
  #fields = {};
  #found = null; // {tasks, problems}, as of the last change
  #note = ""; // why there are no tasks
  #open = null; // aborts the streamed answer
  #shown = new Map(); // by column: how many cards are drawn
  #cards = new Map(); // by task: its element, and what that shows
  #columns = new Map(); // by status: its elements
  #tries = 0;
  #timer = 0;
  #asked = 0; // the number of the last request for the history; answers to earlier ones are ignored

  // go is called after the URL was changed.
  constructor(main, page, go) {
    this.#main = main;
    this.#page = page;
    this.#go = go;
    // A hidden tab has no stream, so that many tabs do not use all connections.
    document.addEventListener("visibilitychange", () => this.#parts && this.#follow());
  }

  open({ fields }) {
    const same = this.#parts && ["team", "session"].every((k) => this.#fields[k] === fields[k]);
    this.#fields = fields;
    if (!this.#parts) this.#build();
    if (same) {
      this.refresh();
      return this.#ask();
    }
    this.#parts.changes.replaceChildren();
    this.#found = null;
    this.#note = "Loading…";
    this.#tries = 0;
    for (const made of [this.#shown, this.#cards, this.#columns]) made.clear();
    this.#follow();
    this.refresh();
  }

  close() {
    this.#stop();
    this.#parts = null;
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#open?.abort();
    this.#open = null;
  }

  #build() {
    const choose = (name) => (e) => {
      history.replaceState(null, "", tasksPath({ ...this.#fields, [name]: e.currentTarget.value }));
      this.#go();
    };
    const p = this.#parts = {
      about: h("p", { class: "doing", role: "status" }),
      owner: h("select", { "aria-label": "Owner", onchange: choose("owner") }),
      note: h("p", { class: "empty", role: "status" }),
      faults: h("ul", { class: "task-faults" }),
      board: h("div", { class: "board" }),
      changes: h("ol", { class: "task-changes" }),
      history: h("details", { class: "task-history", ontoggle: () => this.#ask() }, h("summary", null, "Changes")),
      historyNote: h("p", { class: "task-note", role: "status" }),
      older: h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#ask(true) }, "Show older changes"),
    };
    p.history.append(p.historyNote, p.changes, p.older);
    p.in = h("span", { class: "in" });
    p.all = h("a", { class: "small", href: tasksPath({}) }, "All teams");
    p.column = h("div", { class: "column wide" }, p.faults, p.note, p.board, p.history);
    p.column.addEventListener("click", (e) => {
      const { more } = e.target.dataset;
      if (!more) return;
      this.#shown.set(more, (this.#shown.get(more) ?? most) + most);
      this.refresh();
    });
    this.#main.replaceChildren(h("section", { class: "talk", "aria-labelledby": "view-title" },
      pageHead(h("div", { class: "head-text" }, h("h1", { id: "view-title", tabindex: "-1" }, "Tasks", p.in), p.about), h("div", { class: "task-filters" }, p.owner, p.all)),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Tasks" }, p.column)));
  }

  // follow requests the tasks, and shows each change until the view is closed.
  async #follow() {
    this.#stop();
    if (document.visibilityState !== "visible") return;
    const { team, session } = this.#fields;
    const mine = this.#open = new AbortController();
    const current = () => this.#open === mine;
    try {
      const query = new URLSearchParams(Object.entries({ team, session, follow: true }).filter(([, v]) => v));
      for await (const found of lines("/v1/tasks?" + query, mine.signal)) {
        if (!current()) return;
        this.#tries = 0;
        [this.#found, this.#note] = [found, ""];
        this.refresh();
        this.#ask();
      }
    } catch (problem) {
      if (!current()) return;
      if (!(problem instanceof Problem)) throw problem;
      this.#note = [problem.message, problem.hint].filter(Boolean).join(". ");
      if (problem.status === 404) this.#found = null;
      this.refresh();
      this.#timer = setTimeout(() => this.#follow(), Math.min(10000, 500 * 2 ** this.#tries++));
    }
  }

  // refresh shows the last tasks, with the times as of now.
  refresh() {
    const p = this.#parts;
    if (!p) return;
    const { team, session, owner = "" } = this.#fields;
    const all = this.#found?.tasks ?? [];
    morph(p.in, h("span", { class: "in", title: flat(team ?? session ?? "") }, team || session ? escaped(this.#label({ team, session })) : ""));
    p.all.hidden = !team && !session;
    this.#owners(all, owner);
    const list = all.filter((t) => owner === "" || (owner === nobody ? !t.owner : ownerOf(t) === owner));
    const of = (status) => list.filter((t) => t.status === status);
    setText(p.about, this.#found ? Object.entries(columns).map(([status, title]) => `${of(status).length} ${title.toLowerCase()}`).join(" · ") : "");
    setText(p.note, this.#note || (list.length > 0 ? "" : all.length > 0 ? "This owner has no tasks." : "No tasks."));
    p.note.hidden = !p.note.textContent;
    morph(p.faults, h("ul", { class: "task-faults" }, (this.#found?.problems ?? []).map((fault) => h("li", null, "⚠ ", escaped(cut(fault.message, 500))))));
    const odd = list.filter((t) => !Object.hasOwn(columns, t.status));
    const subjects = new Map(all.map((t) => [keyOf(t), t.subject]));
    const keys = new Set(all.map(keyOf));
    for (const key of this.#cards.keys()) if (!keys.has(key)) this.#cards.delete(key);
    place(p.board, list.length === 0 ? [] : [
      ...Object.entries(columns).map(([status, title]) => this.#column(status, title, of(status), subjects)),
      ...(odd.length > 0 ? [this.#column("other", "Other", odd, subjects)] : [])]);
  }

  // ask requests the history, if it is unfolded: the last changes, or older ones.
  async #ask(older = false) {
    const p = this.#parts;
    if (!p?.history.open) return;
    const number = ++this.#asked;
    const { team, session, owner } = this.#fields;
    let found, note = "";
    try {
      found = await taskHistory({ team, session, who: owner === nobody ? "" : owner, before: older ? p.changes.lastElementChild?.dataset.seq : "" });
      if (found.changes.length === 0 && !older) note = found.since ? `Nothing has changed since ${dayOf(new Date(found.since))} ${timeOf(new Date(found.since))}.` : "Nothing is recorded.";
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      note = problem.message;
    }
    if (number !== this.#asked || this.#parts !== p) return;
    setText(p.historyNote, note);
    if (!found) return;
    const items = found.changes.map((c) => this.#change(c));
    if (older) p.changes.append(...items);
    else p.changes.replaceChildren(...items);
    p.older.hidden = !found.more;
  }

  #change(c) {
    const at = new Date(c.at), after = c.after && new Date(c.after);
    const when = (d) => `${dayOf(d)} ${timeOf(d)}`;
    const is = (text) => h("b", null, escaped(short(text, 120) || "–"));
    const what = {
      created: () => ["created: ", is(c.now)], deleted: () => ["deleted, was ", is(c.was)],
      status: () => ["status: ", is(c.was), " → ", is(c.now)], owner: () => ["owner: ", is(c.was), " → ", is(c.now)], blockedBy: () => ["waits for: ", is(c.was), " → ", is(c.now)],
    }[c.what]?.() ?? [escaped(cut(c.what, 60))];
    return h("li", { "data-seq": c.seq }, h("time", { datetime: c.at, title: wholeTime(at) }, after ? `between ${when(after)} and ${when(at)}` : when(at)),
      h("span", { class: "task-change" }, what), h("span", { class: "task-of" }, escaped(short(c.subject, 120)), " #", escaped(cut(c.id, 60)),
        ...(this.#fields.team || this.#fields.session ? [] : [" · ", escaped(this.#label(c))])));
  }

  #owners(all, owner) {
    const names = [...new Set(all.map(ownerOf).filter(Boolean))].sort();
    if (owner && owner !== nobody && !names.includes(owner)) names.push(owner);
    const options = [["", "Any owner"], ...names.map((n) => [n, short(n, 60)]), ...(all.some((t) => !t.owner) || owner === nobody ? [[nobody, "No owner"]] : [])];
    const select = this.#parts.owner;
    const text = (list) => list.map(([value, name]) => value + "\n" + name).join("\n");
    if (text([...select.options].map((o) => [o.value, o.text])) !== text(options)) select.replaceChildren(...options.map(([value, name]) => h("option", { value }, name)));
    select.value = owner;
  }

  #column(status, title, list, subjects) {
    // The newest first, of tasks that are completed or in progress.
    const sorted = status === "pending" || status === "other" ? list : [...list].sort((a, b) => Date.parse(b.since) - Date.parse(a.since));
    const drawn = this.#shown.get(status) ?? most;
    const left = sorted.length - drawn;
    let c = this.#columns.get(status);
    if (!c) {
      c = { count: h("span", { class: "board-count" }), list: h("ul"), more: h("button", { type: "button", class: "quiet", "data-more": status }) };
      c.element = h("section", { class: "board-column", "data-status": status, "aria-labelledby": "column-" + status },
        h("h2", { id: "column-" + status }, title, " ", c.count), c.list, c.more);
      this.#columns.set(status, c);
    }
    setText(c.count, String(list.length));
    place(c.list, sorted.slice(0, drawn).map((t) => this.#card(t, subjects)));
    c.more.hidden = left <= 0;
    setText(c.more, `Show more (${left} of ${list.length} are not shown)`);
    return c.element;
  }

  // card returns the card of a task. An unchanged card is reused, and a new one keeps its description unfolded.
  #card(t, subjects) {
    const { since: at, ...rest } = t;
    const shows = JSON.stringify([rest, t.waitsFor.map((id) => subjects.get(t.list + "\0" + id))]);
    const was = this.#cards.get(keyOf(t));
    const element = was?.shows === shows ? was.element : this.#draw(t, subjects);
    if (was && was.element !== element && was.element.querySelector("details[open]")) element.querySelector("details")?.setAttribute("open", "");
    const time = element.querySelector("time");
    time.dateTime = at;
    time.title = wholeTime(new Date(at));
    setText(time, since(new Date(at)));
    this.#cards.set(keyOf(t), { shows, element });
    return element;
  }

  #draw(t, subjects) {
    const { team, session } = this.#fields;
    const owner = ownerOf(t);
    const color = owner && this.#page.snapshot.status.find((s) => s.team === t.team && s.member === owner)?.color;
    const waits = t.status === "completed" ? [] : t.waitsFor;
    const named = (id) => [h("b", null, "#", escaped(cut(id, 60))), subjects.has(t.list + "\0" + id) ? [" ", escaped(short(subjects.get(t.list + "\0" + id), 60))] : ""].flat();
    return h("li", { class: "task", "data-key": keyOf(t), "data-waits": waits.length > 0 ? "true" : null },
      h("p", { class: "task-head" }, h("b", null, escaped(short(t.subject, 300) || "No subject")), " ", h("span", { class: "task-id" }, "#", escaped(cut(t.id, 60)))),
      t.status === "in_progress" && t.activeForm ? h("p", { class: "task-active" }, escaped(short(t.activeForm, 200))) : null,
      Object.hasOwn(columns, t.status) ? null : h("p", { class: "task-active" }, escaped(short(t.status, 100) || "no status")),
      waits.length > 0 ? h("p", { class: "task-waits" }, "Waits for ", waits.slice(0, 5).map((id, n) => [n > 0 ? ", " : "", ...named(id)]).flat(), waits.length > 5 ? ` and ${waits.length - 5} more` : "") : null,
      t.description ? h("details", null, h("summary", null, "Description"), h("p", { class: "text" }, long(t.description))) : null,
      h("p", { class: "task-foot" },
        owner ? h("span", { class: "task-owner" }, face(owner, colorOf(owner, color)), " ", t.team && color !== undefined ? h("a", { href: pathTo(t.team, owner) }, escaped(cut(owner, 60))) : escaped(cut(owner, 60))) : h("span", { class: "task-owner" }, "No owner"),
        team || session ? null : h("a", { class: "task-list", href: tasksPath(t.team ? { team: t.team } : { session: t.session }), title: flat(t.list) }, escaped(this.#label(t))),
        h("time")));
  }

  // label returns the name to show for a list: that of its team or session.
  #label({ team, session }) {
    const { status, teams } = this.#page.snapshot;
    if (team) return teams.some((t) => t.team === team) ? this.#page.label(team) : team;
    return status.find((s) => s.taskList?.startsWith(session) && s.taskList !== s.team)?.member ?? "session " + session.slice(0, 8);
  }
}
