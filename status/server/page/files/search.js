// The results of a search.

import { search } from "./request.js";
import { escaped, h, pageHead } from "./dom.js";
import { pathTo, searchPath } from "./route.js";
import { dayOf, timeOf, wholeTime } from "./text.js";

// Search is the view of the messages that match words.
export class Search {
  #main;
  #page;
  constructor(main, page) {
    this.#main = main;
    this.#page = page;
  }
  open({ fields }) {
    showResults(this.#main, fields.q ?? "", (hit) => {
      const names = this.#page.names(hit);
      return { member: names.mine(hit.inbox) ? hit.from : hit.inbox, from: names.name(hit.from), to: names.name(hit.inbox) };
    });
  }
  close() {}
  refresh() {}
}

// showResults shows the messages that match words, in main. describe returns the
// conversation of a message, and the names in it.
async function showResults(main, words, describe) {
  const list = h("ol", { class: "hits" });
  const count = h("p", { class: "count", role: "status" }, words ? "Searching…" : "Type words to find messages.");
  const more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => load() }, "Show older results");
  main.replaceChildren(h("section", { class: "found", "aria-labelledby": "found-title" },
    pageHead(h("div", { class: "head-text" }, h("h1", { id: "found-title", tabindex: "-1" }, "Search"), count)),
    h("div", { class: "scroll" }, h("div", { class: "column" }, list, more))));
  let before;
  let total = 0;
  async function load() {
    more.disabled = true;
    try {
      const answer = await search({ q: words, before, limit: 50 });
      if (!list.isConnected) return;
      for (const hit of answer.hits) list.append(item(hit, describe));
      total += answer.hits.length;
      before = answer.hits.at(-1)?.seq;
      const number = total === 0 ? "No messages match " : total === 1 ? "1 message matches " : `${total}${answer.more ? " or more" : ""} messages match `;
      count.replaceChildren(number, h("q", null, escaped(words)));
      more.hidden = !answer.more;
    } catch (problem) {
      count.textContent = [problem.message, problem.hint].filter(Boolean).join(". ");
    }
    more.disabled = false;
  }
  if (words) await load();
}

function item(hit, describe) {
  const at = new Date(hit.firstSeen);
  const where = describe(hit);
  return h("li", null, h("a", { class: "hit", href: pathTo(hit.team, where.member, { of: hit.createdAt, at: hit.seq }) },
    h("span", { class: "hit-head" },
      h("span", { class: "pair" }, h("b", null, escaped(where.from)), hit.work || hit.answer ? null : [" → ", escaped(where.to)]),
      hit.work && hit.kind !== "text" ? h("span", { class: "label" }, escaped(hit.kind)) : null,
      h("span", { class: "hit-team" }, escaped(hit.team)),
      h("time", { datetime: hit.firstSeen, title: wholeTime(at) }, `${dayOf(at)} ${timeOf(at)}`)),
    h("span", { class: "snippet", dir: "auto" }, hit.snippet.map((p) => (p.match ? h("mark", null, escaped(p.text, true)) : escaped(p.text, true))))));
}

const typing = 300; // ms without a key before words are searched for

// startSearchBox searches for what is typed. searching reports whether the search is open.
export function startSearchBox(words, { searching, go, goTo }) {
  let timer = 0;
  function search(done) {
    clearTimeout(timer);
    const q = words.value.trim();
    const to = searchPath({ q });
    if (done && q) {
      words.blur();
      goTo(to);
    } else if (!q) {
      if (searching()) history.back();
    } else if (searching() && location.hash !== to) {
      history.replaceState(null, "", to);
      go();
    } else location.hash = to;
  }
  words.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, typing);
  });
  words.form.addEventListener("submit", (e) => {
    e.preventDefault();
    search(true);
  });
}
