import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

// The parts of a browser that the outbox uses.
const listeners = {};
globalThis.addEventListener = (name, f) => { listeners[name] = f; };
globalThis.localStorage = Object.create({
  setItem(k, v) { this[k] = String(v); },
  getItem(k) { return Object.hasOwn(this, k) ? this[k] : null; },
  removeItem(k) { delete this[k]; },
});
let answer; // of the service: a response, or a function that throws
const requests = [];
globalThis.fetch = async (path, options) => {
  requests.push({ path, key: options.headers["Idempotency-Key"], body: JSON.parse(options.body) });
  const { status, body } = await answer();
  return { ok: status < 300, status, statusText: "", json: async () => body };
};
const { draftOf, keepDraft, Outbox } = await import("./outbox.js");

const place = ["t", 1, "worker"];
const message = { team: "t", createdAt: 1, member: "worker", text: "hello" };
const stored = () => Object.keys(localStorage).filter((k) => k.startsWith("teambridge:out:"));
const states = (o, ...of) => o.of(...(of.length ? of : place)).map((e) => e.state);
const accept = () => ({ status: 201, body: { id: "x" } });
const noAnswer = () => { throw new TypeError("network"); };
const refuse = () => ({ status: 423, body: { code: "locked", detail: "the lock is held", hint: "try again" } });

beforeEach(() => {
  for (const k of Object.keys(localStorage)) delete localStorage[k];
  requests.length = 0;
});

test("a message that was sent is not stored, and goes once it has arrived", async () => {
  const o = new Outbox(() => {});
  answer = accept;
  assert.deepEqual(await o.post(message), [{ id: "x" }]);
  assert.deepEqual([states(o), stored()], [["sent"], []]);
  o.arrived(requests[0].key);
  assert.deepEqual(states(o), []);
  assert.equal(o.text(requests[0].key), "hello");
});

test("without an answer it is uncertain, and is sent again under its key", async () => {
  const o = new Outbox(() => {});
  answer = noAnswer;
  assert.equal(await o.post(message), null);
  assert.deepEqual([states(o), stored().length], [["uncertain"], 1]);
  answer = accept;
  await o.retry(o.of(...place)[0]);
  assert.equal(requests[0].key, requests[1].key);
  assert.deepEqual(states(o), ["sent"]);
});

test("a refused message has failed, with the reason", async () => {
  const o = new Outbox(() => {});
  answer = refuse;
  await o.post(message);
  const [e] = o.of(...place);
  assert.deepEqual([e.state, e.code, e.detail, e.hint], ["failed", "locked", "the lock is held", "try again"]);
  answer = accept;
  await o.retry(e, true);
  assert.equal(requests[1].body.force, true);
});

test("entries of an earlier page come back, but not old or broken ones", async () => {
  let changes = 0;
  answer = () => new Promise(() => {}); // the page is closed before the answer
  new Outbox(() => {}).post(message);
  const [name] = stored();
  localStorage.setItem("teambridge:out:old", JSON.stringify({ ...JSON.parse(localStorage[name]), key: "old", at: Date.now() - 8 * 86400e3 }));
  localStorage.setItem("teambridge:out:broken", "{");
  const o = new Outbox(() => changes++);
  assert.deepEqual([states(o), stored()], [["uncertain"], [name]]);
  listeners.storage({ key: name, newValue: null }); // another tab has sent it
  assert.deepEqual([states(o), changes], [[], 1]);
});

test("a message to all fails as a whole, and has arrived once all were sent", async () => {
  const all = { ...message, member: null };
  const o = new Outbox(() => {});
  answer = () => ({ status: 207, body: [{ member: "a" }, { member: "b", error: { code: "locked", message: "held", hint: "" } }] });
  await o.post(all);
  const [e] = o.of("t", 1, null);
  assert.deepEqual([e.state, e.detail], ["failed", "Not sent to b: held"]);
  o.arrived(`${e.key}-a`);
  assert.deepEqual(states(o, "t", 1, null), ["failed"]);
  answer = () => ({ status: 201, body: [{ member: "a" }, { member: "b" }] });
  await o.retry(e);
  o.arrived(`${e.key}-b`);
  assert.deepEqual(states(o, "t", 1, null), []);
});

test("each conversation has its draft", () => {
  keepDraft("t", 1, "worker", "to the worker");
  keepDraft("t", 1, null, "to all");
  assert.deepEqual([draftOf("t", 1, "worker"), draftOf("t", 1, null), draftOf("t", 2, null)], ["to the worker", "to all", ""]);
  keepDraft("t", 1, null, "");
  assert.equal(draftOf("t", 1, null), "");
});
