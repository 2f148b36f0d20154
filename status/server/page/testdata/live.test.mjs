import assert from "node:assert/strict";
import { mock, test } from "node:test";

mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
let clock = 0;
performance.now = () => clock;
const pass = (ms, awake = true) => { // ms of one question after the other, or of sleep
  clock += ms;
  mock.timers.tick(awake ? ms : 10000);
};

const workers = [];
globalThis.SharedWorker = class {
  said = [];
  port = { postMessage: (message) => { this.said.push(message); if (this.alive && message === "there?") this.port.onmessage({ data: {} }); } };
  alive = true;
  constructor() { workers.push(this); }
};
const sources = [];
globalThis.EventSource = class {
  static CLOSED = 2;
  on = {};
  constructor(url) { Object.assign(this, { url }); sources.push(this); }
  addEventListener(kind, f) { this.on[kind] = f; }
  close() { this.closed = true; }
};
globalThis.addEventListener = () => {};
const listeners = new Set();
globalThis.document = { visibilityState: "visible", addEventListener: (_, f) => listeners.add(f), removeEventListener: (_, f) => listeners.delete(f) };

const { startLive } = await import("./live.js");

function start() {
  const log = [];
  startLive({ state: (s) => log.push(s), reset: () => log.push("reset"), snapshot: (s) => log.push(s), message: (m) => log.push(m) });
  return log;
}

test("a tab is live while the worker is there, and says when it is not", () => {
  const log = start();
  const [first] = workers;
  const say = (w, data) => w.port.onmessage({ data });
  say(first, { state: "live" });
  say(first, { kind: "message", data: '{"a":1}' });
  assert.deepEqual(log.splice(0), ["live", { a: 1 }]);
  for (let n = 0; n < 20; n++) pass(10000);
  assert.deepEqual(log, []);
  first.alive = false;
  pass(10000);
  for (let n = 0; n < 5; n++) pass(3600e3, false); // the tab sleeps, and nothing can answer
  assert.deepEqual([log, workers.length], [[], 1]);
  for (let n = 0; n < 3; n++) pass(10000);
  assert.deepEqual([log.splice(0), workers.length], [["reconnecting", "reset"], 2]);
  say(first, { state: "live" }); // too late
  say(workers[1], { state: "live" });
  assert.deepEqual(log.splice(0), ["live"]);
  say(workers[1], { state: "signed out" });
  pass(100000);
  assert.deepEqual([log, workers.length, workers[1].said.at(-1)], [["signed out"], 2, "bye"]);
});

test("without a shared worker, a tab has a stream of its own while it is visible", () => {
  const log = start();
  workers.at(-1).onerror();
  const show = (state) => { document.visibilityState = state; for (const f of listeners) f(); };
  sources[0].onopen();
  sources[0].on.message({ lastEventId: "7.1", data: "{}" });
  show("hidden");
  assert.deepEqual([log.splice(0), sources[0].closed], [["live", {}, "paused"], true]);
  show("visible");
  assert.equal(sources[1].url, "/v1/events?after=7.1"); // nothing is missed
});

test("tabs share one stream, whoever comes and goes", async () => {
  await import("./shared.js");
  const before = sources.length;
  const come = () => {
    const tab = { got: [], postMessage(m) { this.got.push(m); } };
    globalThis.onconnect({ ports: [tab] });
    return tab;
  };
  const [a, b] = [come(), come()];
  assert.equal(sources.length, before + 1);
  const source = sources.at(-1);
  source.onopen();
  source.on.snapshot({ lastEventId: "1", data: "{}" });
  const c = come();
  assert.deepEqual(c.got, [{ state: "live" }, { kind: "snapshot", data: "{}" }]);
  a.onmessage({ data: "bye" });
  source.on.message({ data: '{"b":2}' });
  assert.deepEqual([a, b, c].map((t) => t.got.at(-1).kind), ["snapshot", "message", "message"]);
  // Signed out, and in again by another tab.
  globalThis.fetch = async () => ({ ok: false, status: 401, json: async () => ({}) });
  source.readyState = EventSource.CLOSED;
  source.onerror();
  for (let n = 0; n < 20; n++) await null;
  assert.deepEqual(b.got.slice(-2), [{ state: "reconnecting" }, { state: "signed out" }]);
  assert.deepEqual([come().got, sources.length], [[{ state: "connecting" }], before + 2]);
});
