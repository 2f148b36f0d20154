// The page shows unchecked texts and shapes of any kind, in a number of steps that grows no faster
// than they do, and with a bounded number of elements.
// Steps are counted, not timed: V8 counts how often each block of the page's files runs.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Session } from "node:inspector";
import { after, test } from "node:test";

// The part of a document that drawing needs.
let nodes = 0, characters = 0;
class Stub {
  children = [];
  dataset = {};
  style = {};
  classList = { toggle() {}, add() {}, contains: () => false };
  constructor(name) {
    this.name = name;
    nodes++;
  }
  setAttribute() {}
  addEventListener(kind, f) { this["on" + kind] = f; }
  querySelectorAll() { return []; }
  querySelector() { return null; }
  prepend(...list) { this.append(...list); }
  append(...list) {
    assert.ok(list.length < 1000, "a call with many arguments");
    for (const c of list) {
      if (typeof c === "string") characters += c.length;
      this.children.push(c);
    }
  }
}
globalThis.document = { createElement: (name) => new Stub(name), createDocumentFragment: () => new Stub("") };
globalThis.ResizeObserver = class { observe() {} };

const { default: shapes } = await import("./shapes.mjs");
const { quote } = await import("./actions.js");
const { content, Fields, ruleWords, title } = await import("./asked.js");
const { History } = await import("./history.js");
const { ready } = await import("./markdown.js");
const { Lexer } = await import("./marked.js");
const { beginning, content: described } = await import("./message.js");
const { notice, summaryOf } = await import("./notice.js");
const { Rows } = await import("./row.js");
const { flat, gist, json, short } = await import("./text.js");
const { layout, summary } = await import("./work.js");

await ready();

// A regular expression that may backtrack reads no long text, because its steps are not counted. Those of marked do:
// markdown.test.mjs and TestHostile have texts that are slow for them.
const forward = /^(\\s|\[[^\]]*\])\+?$/, mostRead = 5000;
for (const name of ["exec", "test", Symbol.replace, Symbol.split, Symbol.match, Symbol.matchAll]) {
  const f = RegExp.prototype[name];
  RegExp.prototype[name] = function (text, ...more) {
    if (!forward.test.running && String(text).length > mostRead) {
      forward.test.running = true;
      try {
        assert.ok(forward.exec(this.source), `${this} reads ${text.length} characters`);
      } finally {
        forward.test.running = false;
      }
    }
    return f.call(this, text, ...more);
  };
}

const { lex } = Lexer.prototype;
Lexer.prototype.lex = function (text) {
  assert.ok(text.length <= 20000, `marked reads ${text.length} characters`);
  forward.test.running = true;
  try {
    return lex.call(this, text);
  } finally {
    forward.test.running = false;
  }
};

const session = new Session();
session.connect();
const post = (method, params) => {
  let answer;
  session.post(method, params, (problem, result) => { answer = problem ?? result; }); // it answers at once
  return answer;
};
post("Profiler.enable");
post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
after(() => session.disconnect());

// steps returns how often blocks of the page's files ran since the last call.
function steps() {
  let n = 0;
  for (const { url, functions } of post("Profiler.takePreciseCoverage").result) {
    if (!/^file:.*\/(?!hostile)[a-z]+\.js$/.test(url)) continue;
    for (const f of functions) for (const r of f.ranges) n += r.count;
  }
  return n;
}

// bounded calls f, which may read each of that many characters several times.
function bounded(what, read, f) {
  [nodes, characters] = [0, 0];
  steps();
  const made = f();
  const took = steps();
  assert.ok(took <= 60 * read + 3e6, `${what}: ${took} steps for ${read} characters`);
  assert.ok(nodes <= 10000, `${what}: ${nodes} elements for ${read} characters`);
  assert.ok(characters <= 400000, `${what}: ${characters} characters shown of ${read}`);
  return made;
}

let state = 1;
function random(n) { // the same in each run
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor(state / 2 ** 32 * n);
}
const one = (list) => list[random(list.length)];

const atoms = ["`", "```\n", "~~~", "[", "](", "![", "*", "**", "_", "__", "> ", "- ", "1. ", "# ", "|", "|-", "\n", "\n\n", " ", "\t", "a", "word ", "é", "👩\u200d💻",
  "\u202e", "\u0000", "\u001b[31m", "\ud800", "\udc00", "a\u0301", "<b>", "&amp;", "{", "}", "[[", "\"", "\\", "https://a.example/", "mcp__", "(", ")"];
const texts = [...JSON.parse(readFileSync(new URL("corpus.json", import.meta.url))), ...shapes(20000)].map((text) => ({ text }));
for (let n = 0; n < 80; n++) {
  const few = [one(atoms), one(atoms), one(atoms)].slice(random(3));
  const size = one([200, 5000, 50000]);
  const text = few.map((a) => a.repeat(size / few.length / a.length)).join("");
  texts.push({ text: n % 2 ? text : few.join("").repeat(size / few.join("").length) });
}
for (const depth of [8, 3000, 9990]) {
  for (const [open, close] of [["[", "]"], ['{"a":', "}"], ['[1,{"b":', "}]"]]) texts.push({ text: `{"type":"x","a":${open.repeat(depth)}0${close.repeat(depth)}}` });
}

// value is any JSON.
function value(depth = 3) {
  switch (random(depth > 0 ? 9 : 6)) {
    case 0: return null;
    case 1: return one([0, -1, 1e308, true, false]);
    case 2: return one(texts).text;
    case 3: case 4: case 5: return one(["", "a", "a\nb", "__proto__", "/tmp/a.go"]);
    case 6: return Array.from({ length: one([0, 1, 3]) }, () => value(depth - 1));
    case 7: return JSON.parse(one(["[", '{"a":']).repeat(0) + "[".repeat(3000) + "]".repeat(3000));
    default: return object(depth - 1);
  }
}
const names = ["file_path", "description", "command", "old_string", "new_string", "edits", "content", "questions", "question", "options", "label", "preview", "header",
  "allowedPrompts", "tool", "prompt", "plan", "__proto__", "toString", "valueOf", "constructor", "then", "length"];
function object(depth) {
  const made = {};
  for (let n = random(6); n > 0; n--) Object.defineProperty(made, one(names), { value: value(depth), enumerable: true, configurable: true, writable: true });
  return made;
}

const kinds = ["message", "answer", "x", "idle_notification", "task_assignment", "shutdown_request", "shutdown_rejected", "teammate_terminated", "permission_request",
  "plan_approval_request", "toString", "a".repeat(100000)];
const record = (seq, kind, text, fields) => ({
  seq, team: "t", createdAt: 1, inbox: "user", from: "worker", id: `m-${seq}`, kind, text, summary: "", timestamp: "2026-01-01T00:00:00Z", firstSeen: "2026-01-01T00:00:00Z", ...fields,
});
const view = { names: () => ({ mine: () => false, name: (name) => name }), color: () => undefined, place: { member: "worker" }, page: { reach: () => undefined } };

test("every text is shown, or its beginning, in a bounded number of steps", () => {
  const rows = new Rows(view);
  for (const [n, { text }] of texts.entries()) {
    for (const kind of ["message", one(kinds), one(kinds)]) {
      const r = record(n + 1, kind, text, kind === "answer" ? { answer: {} } : { summary: one(["", text]) });
      bounded(`text ${n} as ${kind.slice(0, 30)}: ${JSON.stringify(text.slice(0, 40))}`, 10 * text.length + kind.length, () => {
        const shown = described(r);
        for (const f of [gist, quote, beginning, (t) => short(t, 200)]) assert.equal(typeof f(shown.text ?? ""), "string");
        const told = notice(r);
        if (told) summaryOf([told], (name) => name);
        assert.equal(rows.render({ seq: r.seq, records: [r] }).children.length, 1);
      });
    }
  }
});

test("a message that cannot be drawn is its text", (t) => {
  t.mock.method(console, "warn", () => {});
  const r = record(1, "message", "the text");
  Object.defineProperty(r, "summary", { get() { throw new Error("it has none"); } });
  const words = (node) => (typeof node === "string" ? node : node.children.map(words).join(" "));
  assert.match(words(new Rows(view).render({ seq: 1, records: [r] })), /cannot be shown correctly.*the text/);
});

test("every question is shown, or its beginning, in a bounded number of steps", () => {
  const long = (line, n) => line.repeat(n);
  const shapes = [
    { tool: "Write", input: { file_path: "/a", content: long("a,b\n", 300000) } }, { tool: "Write", input: { file_path: "/a", content: long("a", 2e6) } },
    { tool: "Edit", input: { file_path: "/a", old_string: long("a\nb\n", 50000), new_string: long("b\na\n", 50000) } },
    { tool: "MultiEdit", input: { edits: Array.from({ length: 20000 }, () => ({ old_string: long("a\n", 20), new_string: long("b\n", 20) })) } },
    { tool: "x", input: Object.fromEntries(Array.from({ length: 50000 }, (_, n) => ["k" + n, n])) }, { tool: long("mcp__a", 50000), input: null },
    { kind: "plan", tool: "ExitPlanMode", plan: long("# a\n", 50000), input: { allowedPrompts: Array.from({ length: 50000 }, () => ({ tool: "Bash", prompt: "x" })) } },
    { kind: "question", tool: "AskUserQuestion", input: { questions: Array.from({ length: 50000 }, () => ({ question: "a", options: ["b"] })) } },
    { kind: "question", tool: "AskUserQuestion", input: { questions: [{ question: "a", options: [{ label: { toString: 1, valueOf: 1 } }, null, 1], header: {} }] } },
  ];
  for (let n = 0; n < 200; n++) {
    const input = random(4) ? object(3) : value();
    shapes.push({ kind: one(["permission", "plan", "question"]), tool: one([one(texts).text, "Write", "mcp__a__b"]), input, plan: one(["", one(texts).text]), display: one(["", "Read"]) });
  }
  for (const [n, shape] of shapes.entries()) {
    const q = { id: "q", kind: "permission", reason: one(texts).text, blockedPath: "/x", subagent: one(texts).text, description: one(texts).text, ...shape };
    bounded(`question ${n}: ${short(json(shape), 200)}`, 10 * json(q).length, () => {
      assert.ok(title({ kind: q.kind, words: "asks you a question", question: q }).length > 0);
      content(q);
      if (q.kind === "question") new Fields(q);
    });
  }
  for (const { text } of texts) ruleWords(text.slice(0, 1000));
});

test("what is behind a button is all of the rest", () => {
  const all = (node) => (typeof node === "string" ? node : node.children.filter((c) => c.name !== "button").map(all).join(""));
  const lines = Array.from({ length: 5000 }, (_, n) => `line ${n}`);
  const [, figure] = content({ kind: "permission", tool: "Write", input: { file_path: "/a", content: lines.join("\n") } });
  let shown = figure.children[1].children[0].children[0], text = all(shown), clicks = 0;
  for (let next = shown.children.at(-1); next.name === "button"; next = shown.children.at(-1)) {
    next.onclick({ currentTarget: { closest: () => null, replaceWith: (made) => { shown = made; } } });
    text += all(shown);
    clicks++;
  }
  assert.equal(text, lines.map((l) => "+added: " + l).join(""));
  assert.ok(clicks >= 9, `${clicks} clicks`);
});

test("JSON of any depth is written as JSON.stringify writes it", () => {
  for (const { text } of texts) {
    let o;
    try {
      o = JSON.parse(text);
    } catch {
      continue;
    }
    if (text.length < 5000) assert.equal(json(o), JSON.stringify(o, null, 2));
    const written = json(o);
    assert.ok(written === json(JSON.parse(written)), text.slice(0, 40));
  }
  for (let n = 0; n < 100; n++) {
    const o = object(2);
    assert.ok(json(JSON.parse(json(o))) === json(o));
  }
});

test("subagents below each other, and below themselves, are laid out", () => {
  const h = new History("t", 1, null);
  const call = (seq, subagent, starts) => record(seq, "tool", "a", { inbox: "worker", work: { tool: "Task", session: "s", turn: "1", state: "done", subagent, starts } });
  h.add(call(1, "a", "a"));
  for (let n = 2; n < 8000; n++) h.add(call(n, `${n - 1}`, `${n}`));
  const blocks = layout(h.items, { withSteps: true });
  const depth = (list) => (list.length === 0 ? 0 : 1 + Math.max(...list.map((s) => depth(s.steps))));
  for (const b of blocks) {
    assert.ok(depth(b.steps) <= 12);
    summary(b.steps);
  }
  assert.equal(flat(String(blocks.length)), String(blocks.length));
});
