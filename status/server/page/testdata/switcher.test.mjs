import assert from "node:assert/strict";
import { test } from "node:test";

import { score } from "./fuzzy.js";

test("a text matches words in any order, and letters in order", () => {
  for (const query of ["", "worker", "WORK", "light work", "work light", "wkr", "lgt wrk"]) assert.ok(score(query, "worker lighthouse") > 0, query);
  for (const query of ["x", "worker x", "krow", "rekrow"]) assert.equal(score(query, "worker lighthouse"), 0, query);
});

test("a beginning is worth more than the beginning of a word, and that more than a place inside", () => {
  const list = ["worker", "co-worker", "coworker", "web-orchestrator-kit"].map((text) => score("work", text));
  assert.deepEqual(list, [...list].sort((a, b) => b - a));
  assert.equal(new Set(list).size, 4);
  assert.ok(list.every((n) => n > 0));
});
