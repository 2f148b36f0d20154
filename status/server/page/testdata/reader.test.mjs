import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Reader } from "./reader.js";

const createdAt = "2026-11-30T12:00:00Z", instance = Date.parse(createdAt);
const teams = ["a", "b"].map((team) => ({ team, createdAt, members: [] }));
const message = (team, seq, more) => ({ team, createdAt: instance, inbox: "user", seq, id: team + seq, from: "worker", ...more });

let answers; // functions that answer the requests so far, by path
globalThis.fetch = (path) => new Promise((done) => {
  answers.set(path, (body, status = 200) => done({ ok: status < 300, status, json: async () => body }));
});
beforeEach(() => { answers = new Map(); });

// answered answers a request once it was made.
async function answered(start, body, status) {
  for (;;) {
    const path = [...answers.keys()].find((p) => p.startsWith(start));
    if (path) {
      answers.get(path)(body, status);
      answers.delete(path);
      return;
    }
    await new Promise(setImmediate);
  }
}

// loaded answers the requests for a team, with the messages to its reader.
async function loaded(team, messages = []) {
  await answered(`/v1/teams/${team}`, { team, createdAt, ours: ["user"] });
  await answered(`/v1/teams/${team}/messages`, { messages });
}

const start = () => {
  const late = [], changes = [], waiting = [];
  const reader = new Reader({ changed: () => { changes.push(""); waiting.shift()?.(); }, late: (r) => late.push(r.id), readOnly() {} });
  return { reader, late, changed: () => new Promise((done) => waiting.push(done)) };
};

test("a message that comes before its team is loaded is told of once it is", async () => {
  const { reader, late, changed } = start();
  const first = changed(), second = changed();
  reader.load(teams);
  assert.equal(reader.message(message("a", 1), true), false);
  assert.equal(reader.message(message("b", 2), true), false);
  reader.message(message("b", 3), true);
  reader.message(message("b", 3), false); // read elsewhere
  reader.message(message("b", 4, { inbox: "worker" }), true);
  reader.message(message("b", 5, { noise: true }), true);
  reader.message(message("b", 6, { createdAt: 1 }), true); // of an earlier team of that name
  await loaded("a", [message("a", 1)]);
  await first;
  assert.equal(reader.message(message("a", 7), true), true);
  await loaded("b", [message("b", 2), message("b", 1)]);
  await second;
  await new Promise(setImmediate);
  assert.deepEqual(late, ["a1", "b2"]);
  assert.deepEqual([reader.unread("a", null), reader.unread("b", null)], [2, 2]);
});

test("so is one that came before a request failed", async () => {
  const { reader, late, changed } = start();
  let next = changed();
  reader.load(teams.slice(0, 1));
  reader.message(message("a", 1), true);
  await answered("/v1/teams/a", { code: "locked" }, 423);
  await next;
  next = changed();
  reader.load(teams.slice(0, 1));
  await loaded("a", []);
  await next;
  await new Promise(setImmediate);
  assert.deepEqual(late, ["a1"]);
});

test("of a team that cannot be loaded, the last messages are kept", async () => {
  const { reader, late, changed } = start();
  let next = changed();
  reader.load(teams.slice(0, 1));
  for (let seq = 1; seq <= 600; seq++) reader.message(message("a", seq), true);
  await answered("/v1/teams/a", { code: "locked" }, 423);
  await next;
  next = changed();
  reader.load(teams.slice(0, 1));
  await loaded("a", []);
  await next;
  await new Promise(setImmediate);
  assert.deepEqual([late.length, late[0], late.at(-1)], [500, "a101", "a600"]);
});

test("after clear, a load that was under way changes nothing", async () => {
  const { reader, late, changed } = start();
  const [first, second] = [changed(), changed()];
  reader.load(teams);
  await loaded("a", [message("a", 1)]);
  await first;
  reader.clear();
  assert.equal(reader.unread("a", null), 0);
  reader.load(teams.slice(0, 1));
  reader.message(message("a", 2), true);
  await loaded("a", [message("a", 1)]);
  await second;
  await new Promise(setImmediate);
  assert.deepEqual([late, reader.unread("a", null)], [["a2"], 2]);
});
