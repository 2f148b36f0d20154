// Tokens and cost, at the end of the overview. They are requested when the reader opens it.

import { escaped, h, setText } from "./dom.js";
import { Problem, usage } from "./request.js";
import { cut } from "./text.js";

const ways = { agent: "Agent", team: "Team", project: "Project", model: "Model", day: "Day" };
const spans = { 1: "Today", 7: "7 days", 30: "30 days" };
const every = 60000; // ms between two requests

// beginning returns when the first of the last days began.
function beginning(days) {
  const at = new Date();
  at.setHours(0, 0, 0, 0);
  at.setDate(at.getDate() - days + 1);
  return at.toISOString();
}

const count = (n) => n.toLocaleString("en");

// money returns a cost as its program states it; "+" means that the cost of some tokens is not in it.
function money({ costUSD: cost, unstated }) {
  if (cost === undefined) return "–";
  return "$" + (cost < 0.01 ? cost.toFixed(6) : cost.toFixed(2)) + (unstated ? "+" : "");
}

const choice = (label, list, value, onchange) => h("select", { "aria-label": label, onchange },
  Object.entries(list).map(([v, text]) => h("option", { value: v, selected: v === value }, text)));

// Usage is this part of the page, below the summary of a details element.
export class Usage {
  #folded;
  #asked = 0; // when the last request was sent
  #number = 0;
  #by = choice("Count by", ways, "agent", () => this.ask());
  #days = choice("Since", spans, "7", () => this.ask());
  #note = h("p", { class: "usage-note", role: "status" });
  #table = h("div", { class: "usage-table", tabindex: "0", role: "region", "aria-label": "Tokens and cost" });

  constructor(folded) {
    this.#folded = folded;
    folded.lastElementChild.replaceWith(h("div", null, h("p", { class: "usage-by" }, this.#by, this.#days), this.#note, this.#table));
  }

  // refresh requests them again, once a minute at most.
  refresh() {
    if (this.#folded.open && Date.now() - this.#asked > every) this.ask();
  }

  // ask requests the table, and shows it.
  async ask() {
    if (!this.#folded.open) return;
    this.#asked = Date.now();
    const number = ++this.#number;
    const by = this.#by.value;
    let note = "", table = null;
    try {
      const all = await usage(by, beginning(Number(this.#days.value)));
      if (all.rows.length === 0) note = "No agent has used any tokens.";
      else table = this.#draw(by, all);
      if (all.missed) note = "Not counted: " + cut(all.missed.join("; "), 300);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      note = problem.message;
    }
    if (number !== this.#number) return; // there was another request meanwhile
    setText(this.#note, note);
    this.#table.replaceChildren(...[table].filter(Boolean));
    this.#table.hidden = !table;
  }

  #draw(by, { rows, total }) {
    const name = (r) => ({ agent: r.member + "@" + r.team, team: r.team, project: r.project, model: r.model, day: r.day })[by] || "unknown";
    const line = (title, r) => h("tr", null, h("th", { scope: "row" }, title), ["answers", "input", "cacheCreation", "cacheRead", "output"].map((k) => h("td", null, count(r[k]))), h("td", null, money(r)));
    return h("table", null,
      h("thead", null, h("tr", null, [ways[by], "Answers", "Input", "Cache write", "Cache read", "Output", "Cost"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", null, rows.map((r) => line(escaped(cut(name(r), 120)), r))),
      h("tfoot", null, line("Total", total)));
  }
}
