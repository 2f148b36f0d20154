import assert from "node:assert/strict";
import { test } from "node:test";
import { beginning, content, fate, outcome, tick, when } from "./message.js";
import { dayOf, flat, gist, pieces, short, since, size, wholeTime } from "./text.js";

test("control characters and marks that reorder text are escaped", () => {
  for (const [text, want] of [
    ["plain", "plain"], ["a\nb\tc\r", "a\\nb\\tc\\r"], ["\u001b[31m", "\\e[31m"], ["\u0000\u009b", "\\x00\\x9b"],
    ["\u202egnp", "\\u202egnp"], ["\u{e0041}", "\\U000e0041"], ["\u2028", "\\u2028"], ["👩\u200d💻", "👩\u200d💻"], ["\ud800", "\ufffd"],
  ]) assert.equal(flat(text), want);
  assert.deepEqual(pieces("a\nb\u202e", true), [["a\nb", false], ["\\u202e", true]]);
});

test("a short text is one line, and not longer than asked for", () => {
  assert.equal(short(" a\n b\t ", 10), "a b");
  assert.equal(short("x".repeat(20), 5), "xxxx…");
});

test("the gist of Markdown is its first paragraph, without marks", () => {
  for (const [text, want] of [
    ["Yes, on **all** systems:\n\n| a | b |\n|---|---|", "Yes, on all systems:"], ["one `x`\n```go\ncode\n```", "one x"],
    ["## Done\n\nAll of it.", "Done"], ["- [x] one\n- two", "one\ntwo"], ["see [the page](https://a.example)", "see the page"],
    ["2 * 3 * 4 and snake_case__x", "2 * 3 * 4 and snake_case__x"], ["", ""], ["| a |", "| a |"],
  ]) assert.equal(gist(text), want);
});

test("times and sizes", () => {
  const now = new Date(2026, 5, 15, 12);
  const ago = (s) => since(new Date(now - s * 1000), now).replace("\u00a0", " ");
  assert.deepEqual([-5, 59, 60, 3599, 3600, 86399, 86400].map(ago), ["just now", "just now", "1 min", "59 min", "1 h", "23 h", "1 d"]);
  assert.equal(dayOf(new Date(2026, 5, 15, 0, 1), now), "Today");
  assert.equal(dayOf(new Date(2026, 5, 14, 23, 59), now), "Yesterday");
  assert.deepEqual(["é", "x".repeat(1024), "x".repeat(10240)].map(size), ["2 bytes", "1.0 KiB", "10 KiB"]);
});

test("a message has its sender's time, unless that is later than it was seen", () => {
  const firstSeen = "2026-01-01T00:00:10Z";
  const at = (timestamp) => when({ timestamp, firstSeen }).toISOString();
  assert.equal(at("2026-01-01T00:00:09Z"), "2026-01-01T00:00:09.000Z");
  for (const wrong of ["2026-01-02T00:00:00Z", "yesterday"]) assert.equal(at(wrong), "2026-01-01T00:00:10.000Z");
});

test("structured texts are described, and others shown as they are", () => {
  const of = (kind, o) => content({ kind, summary: "s", text: typeof o === "string" ? o : JSON.stringify(o) });
  assert.deepEqual(of("message", "hello"), { summary: "s", text: "hello" });
  assert.deepEqual(of("idle_notification", { idleReason: "failed", failureReason: "boom" }), { label: "⚠ failed", summary: "", text: "boom" });
  assert.equal(of("idle_notification", { idleReason: "available" }).label, "idle");
  assert.deepEqual(of("new_kind", { a: 1 }), { label: "new kind", summary: "s", text: '{\n  "a": 1\n}', raw: true });
  assert.equal(of("shutdown_request", "{broken").raw, true);
  // An answer that looks like a message of the protocol is still a text.
  assert.deepEqual(content({ kind: "answer", answer: {}, text: '{"type":"shutdown_approved"}' }), { label: "answer", text: '{"type":"shutdown_approved"}' });
});

test("what happened to a message: its receipt, or else its row", () => {
  const said = (r) => { const f = fate(r); return `${tick(f.word)} ${outcome(f)}${f.more ?? ""}`; };
  assert.equal(said({}), "✓ sent");
  assert.equal(said({ read: true }), "✓✓ received");
  assert.equal(said({ read: true, receipt: { state: "verified", word: "sent" } }), "✓✓ received");
  assert.equal(said({ gone: true }), "✓ sent (not tracked)");
  assert.equal(said({ gone: true, receipt: { state: "consumed", word: "received" } }), "✓✓ received");
  assert.equal(said({ read: true, receipt: { state: "lost", word: "lost", why: "it was overwritten" } }), "⚠ lost: it was overwritten");
  const seen = { receipt: { state: "consumed", word: "seen", consumedAt: "2026-01-01T00:00:01Z", seenAt: "2026-01-01T00:00:02Z" } };
  assert.equal(said(seen), "✓✓✓ seen");
  assert.equal(fate(seen).title, "seen by the model at " + wholeTime(new Date("2026-01-01T00:00:02Z")));
  assert.equal(said({ receipt: { state: "unknown", word: "unknown", why: "nobody knows" } }), "⚠ unknown: nobody knows");
  assert.equal(said({ relay: { pane: true, state: "held", word: "waiting", why: "a draft" } }), "… waiting: a draft");
});

test("a long text is cut at so many lines or characters, but not for a little", () => {
  assert.equal(beginning("x".repeat(4100)).length, 4100);
  assert.equal(beginning("x".repeat(5000)).length, 4000);
  assert.equal(beginning("line\n".repeat(200)).split("\n").length, 60);
});
