// The elements of a diff.

import { escaped, h, long, rows } from "./dom.js";

const words = { "-": "removed: ", "+": "added: ", " ": null };

// diffLines shows lines: [sign, line], with the sign " ", "+" or "-". The sign null marks a gap between
// lines, with the head of the next hunk or "". name is for screen readers.
export const diffLines = (lines, name) => h("div", { class: "ask-lines", tabindex: "0", role: "group", "aria-label": name }, // for the keyboard
  h("div", null, rows(lines, ([sign, line]) => (sign === null ? (line ? h("p", { class: "diff-hunk" }, escaped(line)) : h("hr"))
    : h("div", { class: "diff-line", "data-sign": sign.trim() || null },
      h("span", { class: "sign", "aria-hidden": "true" }, sign), words[sign] ? h("span", { class: "unseen" }, words[sign]) : null,
      h("code", null, long(line)))), "lines", ([, line]) => line.length)));
