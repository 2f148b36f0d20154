import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document = { createElement: () => ({ append() {}, setAttribute() {}, addEventListener() {} }) };
globalThis.matchMedia = () => ({});
const { toDo } = await import("./home.js");

test("what the page does with buttons is no command to type, and other commands are there to copy", () => {
  const of = (kind, text) => toDo({ kind, do: text });
  assert.deepEqual(of("terminal", "answer it: claude attach 5e55104e"), ["answer it", "claude attach 5e55104e"]);
  assert.deepEqual(of("stopped", "resume it: claude --resume 5e55104e-0000"), ["resume it", "claude --resume 5e55104e-0000"]);
  assert.deepEqual(of("stopped", "register its new pane: teambridge pane add a --replace --pane TARGET"), ["register its new pane", "teambridge pane add a --replace --pane TARGET"]);
  assert.deepEqual(of("lead", "answer it at the terminal of team-lead"), ["answer it at the terminal of team-lead", ""]);
  for (const [kind, text] of [["silent", "look at what it does, or ask it: teambridge ask a@b"], ["lost", "if the agent did not get it, send it again: teambridge send a@b --id x --force"], ["failed", "teambridge relay retry x, or relay drop"],
    ["held", "teambridge relay release a@b c"], ["loop", "tell one of them to stop: teambridge send a@b TEXT"], ["unread", "teambridge read operator --team b --mark-read"]]) assert.deepEqual(of(kind, text), ["", ""], text);
});
