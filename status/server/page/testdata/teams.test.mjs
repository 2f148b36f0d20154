import assert from "node:assert/strict";
import { test } from "node:test";

import { labels, needing, order, total } from "./teams.js";

const team = (name, cwd, more = {}) => ({ team: name, cwd, leadState: "alive", createdAt: "2026-01-01T00:00:00Z", ...more });
const named = (...teams) => Object.fromEntries(labels(teams));

test("a team is called by its directory, told apart where two are the same", () => {
  assert.deepEqual(named(team("a", "/home/ada/app"), team("b", "C:\\src\\api"), team("c", "/"), team("d", "")), { a: "app", b: "api", c: "c", d: "d" });
  assert.deepEqual(named(team("a", "/x/app"), team("b", "/y/app"), team("c", "/y/web")), { a: "x/app", b: "y/app", c: "web" });
  assert.deepEqual(named(team("a", "/x/app"), team("b", "/x/app"), team("c", "/y/app")), { a: "app · a", b: "app · b", c: "y/app" });
  assert.deepEqual(named(team("a", "/x/app"), team("b", "/x/app", { leadState: "gone" })), { a: "app", b: "app" });
});

test("teams that need the reader are first, then those at work, then by when they were heard of", () => {
  const at = (team, word, heard, section) => ({ team, member: "a", word, section, heard: `2026-01-0${heard}T00:00:00Z` });
  const snapshot = {
    teams: ["quiet", "quieter", "older work", "newer work", "unread", "asks", "ended"].map((name, n) =>
      team(name, "", { createdAt: `2025-01-0${n + 1}T00:00:00Z`, leadState: name === "ended" ? "gone" : "unknown" })),
    status: [at("quiet", "idle", 3), at("quieter", "idle", 2), at("older work", "working", 9), at("newer work", "working", 8), at("asks", "idle", 1, "needs-you"), at("ended", "working", 9)],
    attention: [{ team: "unread", kind: "unread", member: "user", from: "somebody" }, { team: "quiet", kind: "idle", member: "" }],
  };
  const { live, over } = order(snapshot);
  assert.deepEqual(live.map(({ t }) => t.team), ["asks", "unread", "newer work", "older work", "quiet", "quieter"]);
  assert.deepEqual(over.map(({ t }) => t.team), ["ended"]);
});

test("what needs the reader is counted once for an agent, whatever waits because of it", () => {
  const status = [["a", "needs-you"], ["b", "stuck"], ["c", "working"], ["d", "idle"]].map(([member, section]) => ({ team: "t", member, section }));
  const attention = [
    { kind: "unread", member: "user", from: "a" }, { kind: "unread", member: "user", from: "a" }, { kind: "question", member: "a" }, { kind: "silent", member: "b" },
    { kind: "unread", member: "user", from: "one who has left" }, { kind: "idle", member: "" }, { kind: "ended", member: "lead" },
  ].map((a) => ({ team: "t", ...a }));
  const counts = needing({ teams: [], status, attention });
  assert.deepEqual([...counts], [["t", 3]]);
  assert.equal(total(counts), 3);
  assert.equal(needing({ teams: [], status: status.slice(2), attention: attention.slice(-2) }).size, 0);
});

test("sessions are listed by their projects, before teams, and not as a team", () => {
  const teams = [team("t", "/home/ada/app"), team("sessions", "", { sessions: true })];
  const session = (member, cwd, section) => ({ team: "sessions", member, cwd, section, heard: "2026-01-01T00:00:00Z" });
  const status = [session("app-1", "/home/ada/app"), session("web-1", "/home/ada/web", "needs-you"), session("app-2", "/home/ada/app", "stuck"), session("x", undefined)];
  const { live } = order({ teams, status, attention: [] });
  assert.deepEqual(live.map((e) => [e.label, ...e.members.map((s) => s.member)]), [["app", "app-1", "app-2"], ["web", "web-1"], ["no team", "x"], ["app"]]);
  assert.deepEqual(live.map(({ key }) => needing({ teams, status, attention: [] }).get(key) ?? 0), [1, 1, 0, 0]);
});
