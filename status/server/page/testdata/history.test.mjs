import assert from "node:assert/strict";
import { test } from "node:test";
import { History } from "./history.js";

const key = "0b0c7a52-3f4e-4c1d-9a55-1f3d2c4b5a69";
const record = (seq, fields) => ({
  seq, team: "t", createdAt: 1, inbox: "worker", from: "user", id: `m-${seq}`, text: `text ${seq}`, firstSeen: "2026-01-01T00:00:00Z", read: false, gone: false, noise: false, ...fields,
});
const receipt = (seq, fields) => ({ seq, team: "t", createdAt: 1, member: "worker", id: "m-1", state: "verified", ...fields });
const seqs = (h) => h.items.map((i) => i.seq);

test("what was seen at the same time is in the order of seq, however it comes", () => {
  const h = new History("t", 1, "worker");
  for (const seq of [5, 2, 9, 1]) assert.equal(h.add(record(seq)).fresh, true);
  assert.deepEqual(seqs(h), [1, 2, 5, 9]);
  assert.deepEqual(h.range(), { low: 1, high: 9 });
  assert.equal(new History("t", 1, null).range(), null);
});

test("a message that was recorded late is shown where it was first seen", () => {
  const h = new History("t", 1, "worker");
  const at = (seq, ms) => record(seq, { firstSeen: new Date(ms).toISOString() });
  for (const r of [at(3, 3000), at(5, 1000), at(4, 3000), at(1, 2000)]) h.add(r);
  assert.deepEqual(seqs(h), [5, 1, 3, 4]);
  assert.deepEqual(h.range(), { low: 1, high: 5 });
});

test("a message that comes twice is one, and news only add", () => {
  const h = new History("t", 1, "worker");
  h.add(record(1, { read: true, readAt: "2026-01-01T00:00:00Z" }));
  const again = h.add(record(1));
  assert.deepEqual([again.fresh, again.changed, seqs(h)], [false, false, [1]]);
  assert.equal(again.item.records[0].read, true);
  assert.equal(h.add(record(1, { gone: true })).changed, true);
});

test("has takes the messages of the conversation alone", () => {
  const one = new History("t", 1, "worker"), all = new History("t", 1, null);
  assert.equal(one.has(record(1, { inbox: "user", from: "worker" })), true);
  assert.equal(one.has(record(1, { inbox: "other" })), false);
  assert.equal(all.has(record(1, { inbox: "other" })), true);
  for (const wrong of [{ team: "u" }, { createdAt: 2 }]) assert.equal(all.has(record(1, wrong)), false);
});

test("a message to all is one item, in everyone's conversation alone", () => {
  const copies = ["reviewer", "worker"].map((inbox, n) => record(n + 3, { inbox, id: `${key}-${inbox}` }));
  const all = new History("t", 1, null);
  for (const r of copies) all.add({ ...r });
  all.add(record(7, { inbox: "worker", id: `${key}-reviewer` })); // only looks like one
  assert.deepEqual(all.items.map((i) => i.records.length), [2, 1]);
  const one = new History("t", 1, "worker");
  for (const r of copies) one.add({ ...r });
  assert.equal(one.items.length, 2);
});

test("a message that was lost and sent again is one, with its last content", () => {
  const h = new History("t", 1, "worker");
  h.add(record(1, { gone: true, receipt: receipt(2, { state: "lost" }) }));
  const again = h.add(record(3, { id: "m-1", text: "text 1", receipt: receipt(4) }));
  assert.deepEqual([again.fresh, seqs(h)], [false, [1]]);
  const [r] = h.items[0].records;
  assert.deepEqual([r.gone, r.receipt.state], [false, "verified"]);
  h.add(record(1, { gone: true })); // an old page comes late
  assert.equal(h.items[0].records[0].gone, false);
  assert.equal(h.find(3), h.items[0]);
});

test("an id that was made of the content does not join two messages", () => {
  const h = new History("t", 1, "worker");
  for (const seq of [1, 2]) h.add(record(seq, { id: "inbox-abc", text: "same" }));
  assert.deepEqual(seqs(h), [1, 2]);
});

test("a receipt that comes before its message counts, and the last one stays", () => {
  const h = new History("t", 1, "worker");
  assert.equal(h.receipt(receipt(9, { state: "consumed" })), null);
  const { item } = h.add(record(1));
  assert.equal(item.records[0].receipt.state, "consumed");
  assert.equal(h.receipt(receipt(8)), item);
  assert.equal(item.records[0].receipt.state, "consumed");
  assert.equal(h.receipt(receipt(10, { createdAt: 2, state: "lost" })), null); // an earlier team of that name
});

test("the state of a relayed message is the latest", () => {
  const h = new History("t", 1, "worker");
  const { item } = h.add(record(1));
  assert.equal(h.relayed("t", 1, "worker", "m-1", { state: "done", at: "2026-01-01T00:00:05Z" }), item);
  h.relayed("t", 1, "worker", "m-1", { state: "claimed", at: "2026-01-01T00:00:01Z" });
  assert.equal(item.records[0].relay.state, "done");
  assert.equal(h.relayed("t", 1, "reviewer", "m-1", { state: "done", at: "2026-01-01T00:00:05Z" }), null);
});
