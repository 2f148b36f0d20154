import assert from "node:assert/strict";
import { test } from "node:test";
import { History } from "./history.js";
import { codeParts, lasted, layout, running, summary } from "./work.js";

const message = (seq, fields) => ({
  seq, team: "t", createdAt: 1, inbox: "worker", from: "user", id: `m-${seq}`, kind: "message", text: `text ${seq}`,
  timestamp: new Date(seq * 1000).toISOString(), read: false, gone: false, noise: false, ...fields,
});
const work = (seq, kind, fields, state = "done") =>
  message(seq, { from: "worker", kind, id: `e-${seq}`, work: { envelope: `e-${seq}`, session: "s", turn: "1", state, ...fields } });
const tool = (seq, fields, state) => work(seq, "tool", { tool: "Bash", call: `c-${seq}`, ...fields }, state);

// blocks lays out records, in the order in which they came, as seqs.
function blocks(list, withSteps = true) {
  const h = new History("t", 1, null);
  for (const r of list) h.add(structuredClone(r));
  const seqs = (steps) => steps.map((s) => (s.steps.length ? [s.item.seq, seqs(s.steps)] : s.item.seq));
  return layout(h.items, { withSteps }).map((b) => (b.item ? b.item.seq : seqs(b.steps)));
}

test("consecutive steps of a turn are one block, and what is said separates them", () => {
  assert.deepEqual(blocks([message(1), work(2, "thinking"), tool(3), work(4, "file"), work(5, "text"), tool(6)]), [1, [2, 3, 4], 5, [6]]);
  assert.deepEqual(blocks([tool(1), tool(2, { turn: "2" }), tool(3, { turn: "2" })]), [[1], [2, 3]]);
  assert.deepEqual(blocks([tool(1), work(2, "turn", {}, "failed"), work(3, "service")]), [[1], 2, 3]);
});

test("a file that a step names is no step of its own", () => {
  const wrote = tool(1, { tool: "Write" });
  wrote.text = "wrote /src/a.go · 0.1 s";
  const file = (seq, path) => ({ ...work(seq, "file"), text: "file `" + path + "`" });
  assert.deepEqual(blocks([wrote, tool(2), file(3, "/src/a.go"), file(4, "/src/b.go")]), [[1, 2, 4]]);
});

test("agents that work at the same time have a block each", () => {
  const other = (seq) => ({ ...tool(seq), inbox: "other", from: "other" });
  assert.deepEqual(blocks([tool(1), other(2), tool(3), other(4)]), [[1, 3], [2, 4]]);
});

test("steps can be left out, but not what is said and how a turn ends", () => {
  const list = [message(1), tool(2), work(3, "text"), work(4, "text", { subagent: "a" }), work(5, "turn", {}, "failed")];
  assert.deepEqual(blocks(list, false), [1, 3, 5]);
});

test("the work of subagents is below the call that started it", () => {
  const list = [
    tool(1, { starts: "a" }), tool(2, { starts: "b" }), tool(3, { subagent: "b" }), tool(4, { subagent: "a", starts: "c" }),
    work(5, "text", { subagent: "c" }), work(6, "text", { subagent: "b" }), tool(7),
  ];
  assert.deepEqual(blocks(list), [[[1, [[4, [5]]]], [2, [3, 6]], 7]]);
  // The page that has the call was not requested yet.
  assert.deepEqual(blocks([tool(1), tool(2, { subagent: "a" }), tool(3), tool(4, { subagent: "a" })]), [[1, 3], [2, 4]]);
});

test("the last text of a turn gives way to its answer", () => {
  const answer = (text, truncated) => message(9, { from: "worker", kind: "answer", text, answer: { frame: "1", inReplyTo: [], truncated } });
  const list = [work(1, "text"), tool(2), work(3, "text"), work(4, "text", { turn: "2" }), work(5, "text", { subagent: "a" })];
  assert.deepEqual(blocks([...list, answer("text 3\n")]), [1, [2], 4, [5], 9]);
  assert.deepEqual(blocks([...list, answer("text", true)]), [1, [2], 4, [5], 9]);
  assert.deepEqual(blocks([...list, answer("another one")]), [1, [2], 3, 4, [5], 9]);
});

test("a tool call runs until it ends, or its turn does", () => {
  const runs = (...list) => {
    const h = new History("t", 1, null);
    for (const r of list) h.add(r);
    assert.equal(layout(h.items, { withSteps: true, over: true }).flatMap((b) => b.steps ?? []).some(running), false);
    return layout(h.items, { withSteps: true }).flatMap((b) => b.steps ?? []).filter(running).map((s) => s.item.seq);
  };
  const started = (seq, fields) => tool(seq, fields, "running");
  assert.deepEqual(runs(started(1), tool(2)), [1]);
  assert.deepEqual(runs(started(1), work(2, "turn", {}, "cancelled")), []);
  assert.deepEqual(runs(started(1), started(2, { turn: "2" })), [2]);
  assert.deepEqual(runs(started(1), started(2, { turn: "2" }), started(3, { subagent: "a" })), [2, 3]); // in the background
  assert.deepEqual(runs(started(1), message(2, { from: "worker", answer: { frame: "1", inReplyTo: [] } })), []);
  assert.deepEqual(runs(started(1), { ...tool(2), inbox: "other", from: "other" }), [1]);
});

test("the end of a tool call changes its record, whenever it comes", () => {
  const end = { ...tool(3), text: "ran it", seq: 3 };
  const h = new History("t", 1, "worker");
  assert.equal(h.progressed(structuredClone(end)), null); // its start is on a page to come
  assert.deepEqual([h.items.length, h.range()], [0, null]);
  const { item } = h.add(tool(3, {}, "running"));
  assert.deepEqual([item.records[0].text, item.records[0].work.state], ["ran it", "done"]);

  const later = new History("t", 1, "worker");
  const started = later.add(tool(3, {}, "running")).item;
  assert.equal(later.progressed(structuredClone(end)), started);
  assert.equal(later.progressed(structuredClone(end)), null);
  assert.equal(later.add(tool(3, {}, "running")).changed, false); // an old page comes late
  assert.deepEqual([later.items.length, started.records[0].work.state, started.records[0].text], [1, "done", "ran it"]);

  // A call whose agent seemed to be dead.
  const cut = new History("t", 1, "worker");
  const { item: lost } = cut.add(tool(3, {}, "cut"));
  assert.equal(cut.progressed({ ...end, work: { ...end.work, ended: "2026-11-23T00:00:00Z" } }), lost);
  assert.deepEqual([lost.records[0].work.state, lost.records[0].text], ["done", "ran it"]);
  assert.equal(cut.progressed({ ...end, work: { ...end.work, state: "cut" } }), null);
});

test("a group is summarized by the step that goes on, or by all of them", () => {
  const of = (...list) => {
    const h = new History("t", 1, null);
    for (const r of list) h.add(r);
    return summary(layout(h.items, { withSteps: true })[0].steps);
  };
  const ended = (seq, fields) => tool(seq, { ended: new Date((seq + 5) * 1000).toISOString(), ...fields });
  assert.deepEqual(of(ended(1), ended(2, { tool: "Read" }), ended(3), work(4, "thinking")), { text: "4 steps", after: "Bash ×2, Read · 7\u00a0s", running: false });
  assert.deepEqual(of(ended(1, { starts: "a" }), tool(2, { subagent: "a" }, "running")), { text: "text 2", after: "step 2", running: true });
  const not = of(ended(1), tool(2, {}, "denied"), tool(3, {}, "cut"), tool(4, {}, "denied"), tool(5, { tool: "Read" }, "failed"), tool(6, {}, "started"));
  assert.deepEqual(not, { text: "6 steps", after: "Bash ×5, Read · 1 failed, 2 denied, 1 cut off · 5\u00a0s", running: false });
  assert.deepEqual(of(work(1, "thinking")), { text: "thinking", after: "", running: false });
  assert.deepEqual(of(tool(1, {}, "running")), { text: "text 1", after: "", running: true });
});

test("durations", () => {
  assert.deepEqual([0, 999, 59_400, 60_000, 3_725_000].map(lasted), ["0\u00a0s", "1\u00a0s", "59\u00a0s", "1\u00a0min", "1\u00a0h 2\u00a0min"]);
});

test("the command in a line is set apart, even with backticks in it", () => {
  assert.deepEqual(codeParts("ran `go test` · 12 s"), [["ran ", false], ["go test", true], [" · 12 s", false]]);
  assert.deepEqual(codeParts("ran `echo `date`` · 1 s")[1], ["echo `date`", true]);
  for (const plain of ["read a.go", "one ` only", "``"]) assert.deepEqual(codeParts(plain), [[plain, false]]);
});
