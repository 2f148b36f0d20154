// The messages that match words, and the filters of a search.

import { escaped, h, pageHead } from "./dom.js";
import { startFilters } from "./filters.js";
import { when } from "./message.js";
import { search } from "./request.js";
import { pathTo, searchPath } from "./route.js";
import { labels } from "./teams.js";
import { cut, dayOf, timeOf, wholeTime } from "./text.js";

const mostSnippet = 1000; // characters of a part; a word can have any number

// Search is the view of the messages that match words.
export class Search {
  #main;
  #page;
  #go;
  #parts = null;
  #filters;
  #fields = {};
  #before; // the seq of the oldest hit
  #total = 0;
  #load = 0; // the number of the last search; earlier answers are ignored

  // go is called after the URL was changed.
  constructor(main, page, go) {
    this.#main = main;
    this.#page = page;
    this.#go = go;
  }

  // open searches. The filters stay if they are there already, so that one keeps the focus.
  open({ fields }) {
    if (!this.#parts) this.#build();
    this.#filters.show(fields);
    this.#fields = fields;
    this.#parts.list.replaceChildren();
    this.#parts.more.hidden = true;
    this.#before = undefined;
    this.#total = 0;
    this.#load++;
    this.#parts.count.textContent = fields.q ? "Searching…" : "Type words to find messages.";
    if (fields.q) this.#more();
  }

  close() {
    this.#parts = null;
    this.#load++;
  }

  refresh() {
    this.#filters.show(this.#fields);
  }

  #build() {
    const p = this.#parts = {
      list: h("ol", { class: "hits" }),
      count: h("p", { class: "count", role: "status" }),
      more: h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#more() }, "Show older results"),
    };
    this.#filters = startFilters(this.#page, (fields) => {
      history.replaceState(null, "", searchPath({ q: this.#fields.q, ...fields }));
      this.#go();
    });
    this.#main.replaceChildren(h("section", { class: "found", "aria-labelledby": "found-title" },
      pageHead(h("div", { class: "head-text" }, h("h1", { id: "found-title", tabindex: "-1" }, "Search"), p.count)),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Results" }, h("div", { class: "column" }, this.#filters.element, p.list, p.more))));
  }

  async #more() {
    const load = ++this.#load;
    const { count, list, more } = this.#parts;
    more.disabled = true;
    try {
      const answer = await search({ ...this.#filters.query(), q: this.#fields.q, before: this.#before, limit: 50 });
      if (load !== this.#load) return;
      const named = labels(this.#page.snapshot.teams);
      list.append(...answer.hits.map((hit) => this.#item(hit, named)));
      this.#total += answer.hits.length;
      this.#before = answer.hits.at(-1)?.seq;
      const n = this.#total;
      const number = n === 0 ? "No messages match " : n === 1 ? "1 message matches " : `${n}${answer.more ? " or more" : ""} messages match `;
      count.replaceChildren(number, h("q", null, escaped(this.#fields.q)), n === 0 && this.#filters.any ? " with these filters" : "");
      more.hidden = !answer.more;
    } catch (problem) {
      if (load !== this.#load) return;
      count.textContent = [problem.message, problem.hint].filter(Boolean).join(". ");
    }
    more.disabled = false;
  }

  #item(hit, named) {
    const at = when(hit);
    const names = this.#page.names(hit);
    const member = names.mine(hit.inbox) ? hit.from : hit.inbox;
    return h("li", null, h("a", { class: "hit", href: pathTo(hit.team, member, { of: hit.createdAt, at: hit.seq }) },
      h("span", { class: "hit-head" },
        h("span", { class: "pair" }, h("b", null, escaped(names.name(hit.from))), hit.work || hit.answer ? null : [" → ", escaped(names.name(hit.inbox))]),
        hit.work && hit.kind !== "text" ? h("span", { class: "label" }, escaped(hit.kind)) : null,
        h("span", { class: "hit-team" }, escaped((this.#page.team(hit) && named.get(hit.team)) ?? hit.team)),
        h("time", { datetime: at.toISOString(), title: wholeTime(at) }, `${dayOf(at)} ${timeOf(at)}`)),
      h("span", { class: "snippet", dir: "auto" }, hit.snippet.map(({ match, text }) => {
        const words = escaped(cut(text, mostSnippet), true);
        return match ? h("mark", null, words) : words;
      }))));
  }
}
