// The files that an agent has changed with its tools, and the changes in each.

import { diffLines } from "./difflines.js";
import { escaped, h, morph, pageHead, rows, setText } from "./dom.js";
import { changes, Problem } from "./request.js";
import { changesPath, pathTo } from "./route.js";
import { cut, dayOf, flat, since, timeOf, wholeTime } from "./text.js";

const spans = { 1: "Today", 7: "7 days", 30: "30 days", all: "All" };
const mostPath = 400; // characters that are shown
const mostAsked = 8000; // characters of a path in a request; no file system has such paths

// beginning returns when the first of the last days began; "" for all.
function beginning(span) {
  const at = new Date();
  at.setHours(0, 0, 0, 0);
  at.setDate(at.getDate() - Number(span) + 1);
  return span === "all" ? "" : at.toISOString();
}

const counts = ({ added, removed }) => h("span", { class: "change-counts" }, h("span", { class: "added" }, `+${added}`), " ", h("span", { class: "removed" }, `−${removed}`));

// Changes is the view.
export class Changes {
  #main;
  #page;
  #go;
  #parts = null;
  #route;
  #number = 0; // of the last request; answers to earlier ones are ignored

  // go is called after the URL was changed.
  constructor(main, page, go) {
    this.#main = main;
    this.#page = page;
    this.#go = go;
  }

  open(route) {
    if (!this.#parts) this.#build();
    this.#route = route;
    const span = Object.hasOwn(spans, route.fields.days ?? "") ? route.fields.days : "1";
    this.#parts.days.value = span;
    this.refresh();
    this.#ask(beginning(span));
  }

  close() {
    this.#parts = null;
    this.#number++;
  }

  #build() {
    const p = this.#parts = { of: h("span", { class: "in" }), about: h("p", { class: "doing", role: "status" }), note: h("p", { class: "empty", role: "status" }), list: h("ul", { class: "changed" }) };
    p.days = h("select", { "aria-label": "Since", onchange: () => {
      const { team, member } = this.#route;
      history.replaceState(null, "", changesPath(team, member, { days: p.days.value }));
      this.#go();
    } }, Object.entries(spans).map(([value, text]) => h("option", { value }, text)));
    p.again = h("button", { type: "button", class: "small", onclick: () => this.open(this.#route) }, "Refresh");
    this.#main.replaceChildren(h("section", { class: "talk", "aria-labelledby": "view-title" },
      pageHead(h("div", { class: "head-text" }, h("h1", { id: "view-title", tabindex: "-1" }, "Changed files", p.of), p.about), h("div", { class: "change-filters" }, p.days, p.again)),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Changed files" }, h("div", { class: "column wide" }, p.note, p.list))));
  }

  // refresh names the agent and its team, whose name to show can change.
  refresh() {
    if (!this.#parts) return;
    const { team, member } = this.#route;
    morph(this.#parts.of, h("span", { class: "in", title: flat(team) }, h("a", { href: pathTo(team, member) }, escaped(cut(member, 100))), " ",
      escaped(this.#page.snapshot.teams.some((t) => t.team === team) ? this.#page.label(team) : team)));
  }

  async #ask(from) {
    const p = this.#parts, number = ++this.#number, { team, member } = this.#route;
    p.list.replaceChildren();
    setText(p.about, "");
    setText(p.note, "Loading…");
    p.note.hidden = false;
    let list = [], note = "";
    try {
      list = await changes(team, member, { since: from });
      if (list.length === 0) note = from ? "It has not changed any file since then." : "It has not changed any file.";
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      note = [problem.message, problem.hint].filter(Boolean).join(". ");
    }
    if (number !== this.#number) return;
    setText(p.note, note);
    p.note.hidden = !note;
    if (list.length === 0) return;
    const sum = (key) => list.reduce((n, f) => n + f[key], 0);
    p.about.replaceChildren(`${list.length} ${list.length === 1 ? "file" : "files"} `, counts({ added: sum("added"), removed: sum("removed") }), " lines, by its tools; changes by its shell commands are not known");
    p.list.append(rows(list, (f) => this.#file(f, from), "files", (f) => Math.min(f.file.length, mostPath)));
  }

  // file shows a file, and its changes once it is unfolded.
  #file(f, from) {
    const body = h("div", { class: "change-body" });
    const at = new Date(f.last);
    let asked = false;
    return h("li", null, h("details", { class: "change", ontoggle: ({ currentTarget }) => {
      if (!currentTarget.open || asked) return;
      asked = true;
      this.#fill(f, from, body).catch((problem) => {
        asked = false;
        if (!(problem instanceof Problem)) throw problem;
        body.replaceChildren(h("p", { class: "warn", role: "alert" }, escaped(problem.message)));
      });
    } }, h("summary", null, h("code", { class: "change-file", title: flat(cut(f.file, mostPath)) }, h("bdi", null, escaped(cut(f.file, mostPath)))),
      f.created ? h("span", { class: "change-new" }, "new") : null, counts(f),
      h("time", { datetime: f.last, title: wholeTime(at) }, since(at))), body));
  }

  async #fill({ file }, from, body) {
    const { team, member } = this.#route;
    if (encodeURIComponent(file.toWellFormed()).length > mostAsked) return body.replaceChildren(h("p", null, "The path of this file is too long to request its changes."));
    body.replaceChildren(h("p", { role: "status" }, "Loading…"));
    const found = (await changes(team, member, { since: from, file, patches: true })).find((f) => f.file === file);
    const patches = found?.patches?.toReversed() ?? []; // the last one first
    if (patches.length === 0) return body.replaceChildren(h("p", null, "Its changes are not known."));
    body.replaceChildren(rows(patches, (patch) => {
      const at = new Date(patch.at);
      return h("figure", { class: "ask-diff" }, h("figcaption", null, h("time", { datetime: patch.at, title: wholeTime(at) }, `${dayOf(at)} ${timeOf(at)}`), patch.cut ? " · only the beginning" : ""),
        diffLines(parse(patch.text), "Change of " + flat(cut(file, mostPath))));
    }, "changes", (patch) => patch.text.length));
  }
}

// parse returns the lines of a unified diff as [sign, line]. The sign of a hunk's head is null.
function parse(text) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => (/^[ +-]/.test(line) ? [line[0], line.slice(1)] : [null, line]));
}
