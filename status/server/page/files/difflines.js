// Lines of which some were added or removed, as elements.

import { escaped, h, long, rows } from "./dom.js";

const words = { "-": "removed: ", "+": "added: ", " ": null };

// diffLines shows lines: [sign, line], with the sign " ", "+" or "-". With the sign null, it is where
// something is left out, as the line says. name is for screen readers.
export const diffLines = (lines, name) => h("div", { class: "ask-lines", tabindex: "0", role: "group", "aria-label": name }, // so that the keyboard can scroll it
  h("div", null, rows(lines, ([sign, line]) => (sign === null ? (line ? h("p", { class: "diff-hunk" }, escaped(line)) : h("hr"))
    : h("div", { class: "diff-line", "data-sign": sign.trim() || null },
      h("span", { class: "sign", "aria-hidden": "true" }, sign), words[sign] ? h("span", { class: "unseen" }, words[sign]) : null,
      h("code", null, long(line)))), "lines", ([, line]) => line.length)));
