import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.document = { createElement: () => ({ append() {}, setAttribute() {}, addEventListener() {} }) };
globalThis.matchMedia = () => ({});
const { found } = await import("./post.js");

test("whom a name means: as it is offered, alone, or by its beginning", () => {
  const list = [["api", "web"], ["api-1", "web"], ["worker", "web"], ["worker", "app"]].map(([name, team]) => ({ name, team, offer: `${name} · ${team}` }));
  const of = (name) => found(list, name).map((p) => p.offer);
  assert.deepEqual(of("api · web"), ["api · web"]);
  assert.deepEqual(of(" API "), ["api · web"]);
  assert.deepEqual(of("api-"), ["api-1 · web"]);
  assert.deepEqual(of("worker"), ["worker · web", "worker · app"]);
  assert.deepEqual(of("worker · a"), ["worker · app"]);
  assert.deepEqual(of("x"), []);
  assert.deepEqual(of(" "), []);
});
