import assert from "node:assert/strict";
import { test } from "node:test";

import { changesPath, parse, pathTo, searchPath, tasksPath } from "./route.js";

test("each URL names one view", () => {
  for (const hash of ["", "#", "#/"]) assert.deepEqual(parse(hash), { view: "home" });
  assert.deepEqual(parse("#/teams"), { view: "home", list: true });
  assert.deepEqual(parse("#/team/a"), { view: "conversation", team: "a", member: null, createdAt: 0, at: null, write: false });
  assert.equal(parse(pathTo("a", "b", { write: 1 })).write, true);
  assert.deepEqual(parse("#/search?q=a%26b&team=c"), { view: "search", fields: { q: "a&b", team: "c" } });
  assert.deepEqual(parse("#/tasks"), { view: "tasks", fields: {} });
  for (const hash of ["#/x", "#/team", "#/team/", "#/team/a/b/c", "#/team/%", "#/search/x", "#/tasks/x", "#/changes", "#/changes/a", "#/changes/a/b/c", "#team/a", "#/teams/a"]) {
    assert.deepEqual(parse(hash), { view: "nothing" }, hash);
  }
});

test("names come back as they were", () => {
  for (const name of ["a b", "a/b", "100%", "é?x=1#y", "<b>"]) {
    assert.deepEqual(parse(pathTo(name, name, { of: 7, at: 9 })), { view: "conversation", team: name, member: name, createdAt: 7, at: 9, write: false });
    assert.deepEqual(parse(searchPath({ q: name, team: "" })), { view: "search", fields: { q: name } });
    assert.deepEqual(parse(changesPath(name, name, { days: 7 })), { view: "changes", team: name, member: name, fields: { days: "7" } });
    assert.deepEqual(parse(tasksPath({ team: name, owner: "" })), { view: "tasks", fields: { team: name } });
  }
});
