import assert from "node:assert/strict";
import { test } from "node:test";
import { History } from "./history.js";
import { notice, summaryOf } from "./notice.js";
import { layout } from "./work.js";

const record = (kind, fields, of) => ({ from: "worker", inbox: "team-lead", kind, text: JSON.stringify({ type: kind, ...fields }), ...of });

test("what agents tell about themselves is a notice, and what there is to read is not", () => {
  const idle = (fields) => notice(record("idle_notification", fields));
  assert.deepEqual(idle({ idleReason: "available", summary: "[to tester] look" }), { who: "worker", did: "went idle", about: "[to tester] look", more: "" });
  assert.equal(idle({ idleReason: "interrupted" }).did, "was interrupted");
  for (const fields of [{ result: "Done." }, { idleReason: "failed" }, { failureReason: "boom" }]) assert.equal(idle(fields), null);
  assert.deepEqual(notice(record("task_assignment", { subject: "Measure", description: "Twice.", assignedBy: "docs" })),
    { who: "team-lead", did: "was given a task by docs", about: "Measure", more: "Twice." });
  assert.equal(notice(record("shutdown_request", { reason: 7 })).about, "");
  for (const r of [record("permission_request", {}), { kind: "message", text: "{}" }, { kind: "idle_notification", text: "no JSON" }, record("idle_notification", {}, { answer: {} })]) {
    assert.equal(notice(r), null);
  }
});

test("notices are summed up by what happened", () => {
  const told = (who, did) => ({ who, did });
  const name = (n) => (n === "operator" ? "you" : n);
  assert.equal(summaryOf([told("a", "went idle")], name), "a went idle");
  assert.equal(summaryOf([told("a", "went idle"), told("operator", "was given a task by a"), told("b", "went idle"), told("a", "went idle")], name),
    "a and b went idle 3 times · you were given a task by a");
  assert.equal(summaryOf([told("a", "was interrupted"), told("b", "was interrupted")], name), "a and b were interrupted");
  assert.equal(summaryOf(["a", "b", "c", "d", "e"].map((n) => told(n, "went idle")), name), "a, b, c and 2 others went idle");
});

test("consecutive notices of one day are one block", () => {
  const h = new History("t", 1, null);
  let seq = 0;
  const add = (kind, day) => h.add({
    ...record(kind, {}), seq: ++seq, team: "t", createdAt: 1, id: `m-${seq}`, read: false, noise: false,
    timestamp: new Date(2026, 1, day, 12).toISOString(), firstSeen: new Date(2026, 1, day, 12).toISOString(),
  });
  for (const [kind, day] of [["idle_notification", 1], ["shutdown_request", 1], ["message", 1], ["shutdown_approved", 1], ["idle_notification", 2]]) add(kind, day);
  assert.deepEqual(layout(h.items, { withSteps: true }).map((b) => b.item?.seq ?? b.notices.map((i) => i.seq)), [[1, 2], 3, [4], [5]]);
});

test("that an agent went idle is left out after what it has said, and nowhere else", () => {
  const h = new History("t", 1, null);
  let seq = 0;
  const at = "2026-02-01T12:00:00.000Z";
  const add = (r) => h.add({ ...r, seq: ++seq, team: "t", createdAt: 1, id: `m-${seq}`, inbox: "lead", read: false, noise: false, timestamp: at, firstSeen: at });
  const idle = (from, fields) => add({ ...record("idle_notification", { type: "idle_notification", idleReason: "available", ...fields }), from });
  const says = (from) => add({ ...record("message", {}), from, text: "Done." });
  says("worker"); // 1
  idle("worker", {}); // left out
  idle("worker", { summary: "[to lead] Done." }); // left out
  idle("worker", { summary: "all tests pass" }); // 4
  says("worker"); // 5
  idle("tester", {}); // 6
  idle("worker", {}); // 7
  says("tester"); // 8
  idle("tester", { idleReason: "interrupted" }); // 9
  assert.deepEqual(layout(h.items, { withSteps: true }).map((b) => b.item?.seq ?? b.notices.map((i) => i.seq)), [1, [4], 5, [6, 7], 8, [9]]);
});
