// The colors of members, on their avatars and names. colors.css defines them.

import { h } from "./dom.js";
import { flat } from "./text.js";

// The colors that Claude Code gives to members.
export const colors = ["red", "blue", "green", "yellow", "purple", "orange", "pink", "cyan"];

// colorOf returns the color of a member: the given one or, if that is not known, one derived
// from its name. Elements have it as data-color.
export function colorOf(name, given) {
  if (colors.includes(given)) return given;
  let n = 0;
  for (const c of String(name)) n = (n * 31 + c.codePointAt(0)) >>> 0;
  return colors[n % colors.length];
}

// face returns the avatar of a member.
export const face = (name, color, ...inside) =>
  h("span", { class: "face", "data-color": color, "aria-hidden": "true" }, flat([...String(name)][0] ?? "?").toUpperCase(), inside);
