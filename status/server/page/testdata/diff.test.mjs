import assert from "node:assert/strict";
import test from "node:test";
import { diff } from "./diff.js";

const text = (before, after) => diff(before, after).map(([sign, line]) => sign + line).join("|");

test("lines that stay, go and come", () => {
  for (const [before, after, want] of [
    ["", "", ""],
    ["", "a\nb\n", "+a|+b"],
    ["a\nb\n", "", "-a|-b"],
    ["a\nb\nc\nd", "a\nx\nc\ny\nd", " a|-b|+x| c|+y| d"],
    ["same", "same", " same"],
    ["a\n", "a\nb\n", " a|+b"],
    ["a", "a\n", " a|+"], // only the end of the last line
    ["a\n", "a", " a|-"],
    ["\n\n", "\n", " |-"],
    ["a ", "a", "-a |+a"],
  ]) assert.equal(text(before, after), want, JSON.stringify([before, after]));
});

test("both texts can be read from the lines, however long they are", () => {
  const lines = (n, f) => Array.from({ length: n }, (_, i) => f(i)).join("\n");
  for (const [before, after] of [
    [lines(40, (i) => i % 7), lines(50, (i) => i % 5)],
    [lines(3000, (i) => "a" + i), lines(3000, (i) => (i % 3 ? "a" + i : "b" + i))],
  ]) {
    const list = diff(before, after);
    assert.equal(list.filter(([sign]) => sign !== "+").map(([, line]) => line).join("\n"), before);
    assert.equal(list.filter(([sign]) => sign !== "-").map(([, line]) => line).join("\n"), after);
  }
});
