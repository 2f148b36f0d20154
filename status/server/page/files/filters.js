// The filters of a search: team, sender, receiver and days.

import { h } from "./dom.js";
import { ended, labels } from "./teams.js";
import { flat } from "./text.js";

const names = ["team", "from", "to", "since", "until"];

// startOf returns when the day of an input begins, in the form of the API; later is a number of
// days to add. It returns "" if the value is no day.
function startOf(day, later) {
  const [y, m, d] = String(day ?? "").split("-").map(Number);
  const at = new Date(y, m - 1, d + later);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

// startFilters makes the filters. change is called with the fields that the reader chose.
export function startFilters(page, change) {
  const chosen = () => Object.fromEntries(names.map((n) => [n, inputs[n].value]));
  const select = (label) => h("select", { "aria-label": label, onchange: () => change(chosen()) });
  const day = (label) => h("input", { type: "date", "aria-label": label, title: label, onchange: () => change(chosen()) });
  const inputs = { team: select("Team"), from: select("From"), to: select("To"), since: day("From this day on"), until: day("Up to this day") };
  const clear = h("button", { type: "button", class: "small", onclick: () => change({}) }, "Clear filters");
  let fields = {};

  // fill sets the options of a select: one for all, and those of a list of values and texts.
  function fill(input, all, list, value) {
    const known = value === "" || list.some(([v]) => v === value) ? list : [...list, [value, flat(value)]];
    const options = [["", all], ...known].map(([v, text]) => h("option", { value: v }, text));
    const before = [...input.options].map((o) => o.value + "\0" + o.text).join("\n");
    if (before !== options.map((o) => o.value + "\0" + o.text).join("\n")) input.replaceChildren(...options);
    input.value = value;
  }

  return {
    element: h("div", { class: "filters", role: "group", "aria-label": "Filters" }, inputs.team, inputs.from, h("span", { "aria-hidden": "true" }, "→"), inputs.to,
      inputs.since, h("span", { "aria-hidden": "true" }, "–"), inputs.until, clear),
    // show shows the fields of a URL.
    show(next) {
      fields = Object.fromEntries(names.map((n) => [n, next[n] ?? ""]));
      const { status, teams } = page.snapshot;
      const named = labels(teams);
      const members = new Set(["user"]);
      for (const t of teams) {
        if (fields.team === "" || t.team === fields.team) for (const name of page.reader.detail(t.team)?.ours ?? []) members.add(name);
      }
      for (const s of status) if (fields.team === "" || s.team === fields.team) members.add(s.member);
      const list = [...members].sort().map((name) => [name, flat(name)]);
      fill(inputs.team, "All teams", teams.map((t) => [t.team, flat(named.get(t.team)) + (ended(t) ? " (ended)" : "")]), fields.team);
      fill(inputs.from, "From anyone", list, fields.from);
      fill(inputs.to, "To anyone", list, fields.to);
      for (const n of ["since", "until"]) if (inputs[n].value !== fields[n]) inputs[n].value = fields[n];
      clear.hidden = !this.any;
    },
    get any() {
      return names.some((n) => fields[n] !== "");
    },
    // query returns the fields of the request.
    query: () => ({
      team: fields.team, from: fields.from, inbox: fields.to,
      since: fields.since && startOf(fields.since, 0), until: fields.until && startOf(fields.until, 1),
    }),
  };
}
