// The dialog that goes to a team, a member or Home by a few letters of its name.

import { colorOf, face } from "./colors.js";
import { showDialog } from "./dialog.js";
import { escaped, h, setAttr } from "./dom.js";
import { score } from "./fuzzy.js";
import { badge, dot } from "./people.js";
import { places, recent } from "./places.js";
import { flat } from "./text.js";

const mostShown = 50;

// find returns the places that match a query, the best first; those that were opened last
// are first among equals, and here is last.
export function find(query, list, here, last = recent()) {
  const rank = (p) => (p.path === here ? Infinity : last.includes(p.path) ? last.indexOf(p.path) : last.length + (p.over ? 1 : 0));
  return list
    .map((p) => ({ p, value: Math.max(score(query, `${p.name} ${p.team} ${p.own ?? ""}`), score(query, `${p.team} ${p.name}`)) - (p.over ? 0.5 : 0), rank: rank(p) }))
    .filter(({ value }) => value > 0)
    .sort((a, b) => (query.trim() ? b.value - a.value : 0) || a.rank - b.rank)
    .map(({ p }) => p);
}

// openSwitcher opens the dialog. go is called with the path that was chosen.
export function openSwitcher(page, go) {
  const here = location.hash.split("?")[0] || "#/";
  const list = places(page);
  let shown = [];
  let at = 0;
  const input = h("input", {
    class: "switch-words", role: "combobox", "aria-expanded": "true", "aria-controls": "switch-list", "aria-autocomplete": "list",
    "aria-label": "Team or member", placeholder: "Go to a team or member", autocomplete: "off", spellcheck: "false",
  });
  const options = h("ul", { id: "switch-list", role: "listbox", "aria-label": "Teams and members" });
  const none = h("p", { class: "switch-none", role: "status" });
  const dialog = showDialog("switcher", "Go to a team or member", input, options, none);

  function point(n) {
    at = Math.max(0, Math.min(shown.length - 1, n));
    [...options.children].forEach((o, i) => setAttr(o, "aria-selected", String(i === at)));
    setAttr(input, "aria-activedescendant", shown.length > 0 ? "switch-" + at : null);
    options.children[at]?.scrollIntoView({ block: "nearest" });
  }
  function show() {
    shown = find(input.value, list, here).slice(0, mostShown);
    options.replaceChildren(...shown.map((p, n) => h("li", { role: "option", id: "switch-" + n, class: "option", onclick: () => choose(n) },
      p.status ? face(p.name, colorOf(p.name, p.status.color), dot(p.status)) : h("span", { class: "face all", "aria-hidden": "true" }, p.face),
      h("span", { class: "member-name" }, escaped(p.name)), h("span", { class: "in" }, escaped(p.team)),
      h("span", { class: "end" }, p.status ? h("span", { class: "heard" }, flat(p.status.word)) : p.over ? h("span", { class: "heard" }, "ended") : null, badge(p.unread ?? 0, "unread")))));
    none.textContent = shown.length === 0 ? "No team or member has this name." : "";
    point(0);
  }
  function choose(n) {
    if (!shown[n]) return;
    dialog.close();
    go(shown[n].path);
  }
  input.addEventListener("input", show);
  input.addEventListener("keydown", (e) => {
    if (e.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[e.key];
    if (step) point(at + step);
    else if (e.key === "Enter") choose(at);
    else return;
    e.preventDefault();
  });
  show();
  input.focus();
}
