// What was found.

import { search } from "./ask.js";
import { h, said } from "./dom.js";
import { pathTo } from "./people.js";
import { dayOf, timeOf, wholeTime } from "./text.js";

// found shows the messages that hold words, in main. talk says whose
// conversation a message is part of, and who is called what.
export async function found(main, words, talk) {
  const list = h("ol", { class: "hits" });
  const count = h("p", { class: "count", role: "status" }, "Searching…");
  const more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => load() }, "Show older ones");
  main.replaceChildren(h("section", { class: "found", "aria-labelledby": "found-title" },
    h("header", { class: "head" },
      h("a", { class: "back", href: "#/", "aria-label": "Back to teams and members" }, h("span", { "aria-hidden": "true" }, "‹")),
      h("div", { class: "head-text" }, h("h1", { id: "found-title", tabindex: "-1" }, "Search"), count)),
    h("div", { class: "scroll" }, h("div", { class: "column" }, list, more))));
  let before;
  let total = 0;
  async function load() {
    more.disabled = true;
    try {
      const answer = await search({ q: words, before, limit: 50 });
      if (!list.isConnected) return;
      for (const hit of answer.hits) list.append(item(hit, talk));
      total += answer.hits.length;
      before = answer.hits.at(-1)?.seq;
      const what = `${total}${answer.more ? " or more" : ""} ${total === 1 ? "message has" : "messages have"}`;
      count.replaceChildren(total === 0 ? "Nothing has " : what + " ", h("q", null, said(words)));
      more.hidden = !answer.more;
    } catch (problem) {
      count.textContent = [problem.message, problem.hint].filter(Boolean).join(". ");
    }
    more.disabled = false;
  }
  await load();
}

function item(hit, talk) {
  const at = new Date(hit.firstSeen);
  const where = talk(hit);
  return h("li", null, h("a", { class: "hit", href: pathTo(hit.team, where.member, { of: hit.createdAt, at: hit.seq }) },
    h("span", { class: "hit-head" },
      h("span", { class: "pair" }, h("b", null, said(where.from)), " → ", said(where.to)),
      h("span", { class: "hit-team" }, said(hit.team)),
      h("time", { datetime: hit.firstSeen, title: wholeTime(at) }, `${dayOf(at)} ${timeOf(at)}`)),
    h("span", { class: "snippet", dir: "auto" }, hit.snippet.map((p) => (p.match ? h("mark", null, said(p.text, true)) : said(p.text, true))))));
}
