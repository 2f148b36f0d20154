import assert from "node:assert/strict";
import { test } from "node:test";
import { quote } from "./actions.js";
import { passes } from "./filter.js";

test("a filter shows its kind of messages", () => {
  const mine = (name) => name === "you";
  const idle = (fields) => ({ kind: "idle_notification", from: "a", inbox: "lead", text: JSON.stringify({ type: "idle_notification", ...fields }) });
  const of = {
    "to me": { kind: "message", from: "a", inbox: "you", text: "" },
    "from me": { kind: "message", from: "you", inbox: "a", text: "" },
    between: { kind: "message", from: "a", inbox: "b", text: "" },
    answer: { kind: "answer", from: "a", inbox: "a", text: "", answer: {} },
    finished: idle({ result: "Done." }),
    failed: idle({ idleReason: "failed" }),
    idle: idle({ idleReason: "available" }),
    "turn failed": { kind: "turn", from: "a", inbox: "a", text: "", work: {} },
    tool: { kind: "tool", from: "a", inbox: "a", text: "", work: {} },
  };
  const shown = (filter) => Object.keys(of).filter((name) => passes(filter, { records: [of[name]] }, mine));
  assert.deepEqual(shown("all"), Object.keys(of));
  assert.deepEqual(shown("me"), ["to me", "answer"]);
  assert.deepEqual(shown("agents"), ["between", "finished", "failed"]);
  assert.deepEqual(shown("work"), ["answer", "finished", "failed", "turn failed"]);
});

test("a quote is the beginning of a text", () => {
  assert.equal(quote("one\n\ntwo\n"), "> one\n>\n> two\n\n");
  const long = quote(Array.from({ length: 30 }, (_, n) => `line ${n}`).join("\n"));
  assert.ok(long.endsWith("> line 9\n> …\n\n") && long.split("\n").length === 13);
});
