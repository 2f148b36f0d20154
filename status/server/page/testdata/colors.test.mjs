import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { colorOf, colors } from "./colors.js";

test("a member has the color that it was given, or always the same one", () => {
  for (const c of colors) assert.equal(colorOf("worker", c), c);
  assert.ok(colors.includes(colorOf("worker")));
  assert.equal(colorOf("worker", "mauve"), colorOf("worker"));
  assert.ok(new Set("abcdefghijklmnop".split("").map((n) => colorOf(n))).size === colors.length);
});

test("each color can be read on each background, and as a background", () => {
  const pairs = (file) => [...readFileSync(new URL(file, import.meta.url), "utf8").matchAll(/(?:data-color=(\w+)\] \{ )?--([\w-]+): light-dark\((#\w+), (#\w+)\)/g)];
  const light = (hex) => {
    const [r, g, b] = hex.match(/\w\w/g).map((v) => parseInt(v, 16) / 255).map((v) => (v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
  const grounds = pairs("style.css").filter(([, , name]) => ["ground", "surface", "sunk", "mine"].includes(name));
  const members = pairs("colors.css").filter(([, color]) => color);
  assert.deepEqual([grounds.length, members.map(([, color]) => color).sort()], [4, [...colors].sort()]);
  for (const [, color, , ...themes] of members) {
    for (const [theme, own] of themes.entries()) {
      for (const [, , name, ...ground] of grounds) assert.ok(contrast(own, ground[theme]) >= 4.5, `${color} on ${name}, ${theme}: ${contrast(own, ground[theme])}`);
      assert.ok(contrast(own, ["#ffffff", "#101312"][theme]) >= 4.5, `a face that is ${color}, ${theme}`);
    }
  }
});
