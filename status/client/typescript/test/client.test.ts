// The tests run a service of the environment's Claude directory, which has the team t with the member
// worker. TestRealTypeScriptClient of cmd/teambridge starts them.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { after, before, describe, test } from "node:test";

import { Client, type Event, type Place, ServiceError, SkewError, UnreachableError, find } from "@teambridge/client";

import { type Service, cutter, pretender, serve } from "./service.js";

const team = "t";
const member = "worker";
const timeout = 60_000;

// The service is found, whatever it listens on.
for (const [name, flags] of [["unix socket", []], ["TCP", ["--listen", "127.0.0.1:0"]]] as const) {
  describe(name, { timeout }, () => {
    let service: Service, place: Place, client: Client;

    before(async () => {
      service = await serve(...flags);
      place = await find();
      assert.equal("socket" in place, name === "unix socket");
      client = new Client(place);
      const body = { team, member, dir: process.cwd(), command: ["agent"], permissions: "ask" };
      const relay = await client.post("/v1/relays", { body });
      assert.equal(relay.member, member);
    });
    after(async () => {
      const relay = await client.delete("/v1/relays/{relay}", { params: { path: { relay: `${member}@${team}` } } });
      assert.equal(relay.member, member);
      await client.close();
      await service.end();
    });

    test("the example lists members, sends, follows and answers", async () => {
      const example = fileURLToPath(import.meta.resolve("../example/desktop.js"));
      const child = spawn(process.execPath, [example, team, member, "ASK:Bash"], { stdio: ["pipe", "pipe", "inherit"] });
      let output = "";
      const chunks = child.stdout[Symbol.asyncIterator]();
      const says = async (pattern: RegExp) => {
        while (!pattern.test(output)) {
          const { value, done } = await chunks.next();
          assert.ok(!done, `${pattern} is not in ${output}`);
          output += value;
        }
      };
      await says(/^Bash \{"command":"echo hi"\}\? \[y\/N\]$/m);
      child.stdin.write("y\n");
      await says(/^outcome .*"state":"consumed"/m);
      await says(/^outcome .*"state":"done"/m);
      await says(/^message .*"text":"[^"]*allowed/m);
      assert.match(output, /^members \[.*"member":"worker"/m);
      assert.match(output, /^status \[.*"member":"worker"/m);
      child.stdin.end();
      if (child.exitCode === null) await once(child, "exit");
      assert.equal(child.exitCode, 0);
    });

    test("a stream goes on where it was cut", async (t) => {
      const end = new AbortController();
      const { signal } = end;
      t.after(() => end.abort());
      const { seq } = await client.get("/v1/teams/{team}/messages", { params: { path: { team } } });
      // In headers, in snapshots, in events, and between them.
      const cuts = [0, 100, 700, 1500, ...Array.from({ length: 12 }, (_, i) => 1500 + 977 * i)];
      const count = cuts.length;
      await using between = await cutter(place, cuts);
      const far = new Client(between.place);
      let broken = 0;
      const ids = Array.from({ length: 30 }, (_, i) => `${randomUUID()} ü "${i}"`);
      const whole = journal(client.events({ team, after: seq, signal }), ids);
      const pieces = journal(far.events({ team, after: seq, signal, onBroken: () => broken++ }), ids);
      for (const id of ids) {
        const sent = await client.send(team, member, { text: `message ${id}` }, { id });
        assert.equal(sent.id, id);
        assert.equal(sent.deduplicated, false);
      }
      const again = await client.send(team, member, { text: `message ${ids[0]}` }, { id: ids[0]! });
      assert.equal(again.deduplicated, true);
      const [want, have] = await Promise.all([whole, pieces]);
      assert.deepEqual(have, want);
      t.diagnostic(`${have.length} events, and ${broken} cuts`);
      assert.equal(broken, count);
      await far.close();
    });

    test("an outcome is waited for", async () => {
      const tried = await client.send(team, member, { text: "hello", mode: { model: null }, dryRun: true });
      assert.equal(tried.state, "dry-run");
      const sent = await client.send(team, member, { text: "hello" });
      const outcome = await client.get("/v1/teams/{team}/members/{member}/outcome", {
        params: { path: { team, member }, query: { until: "consumed", id: sent.id, ...(sent.delivery && { delivery: sent.delivery }) } },
      });
      assert.equal(outcome.state, "consumed");
    });

    test("lines", async () => {
      const end = new AbortController();
      const tasks = client.lines("/v1/tasks", { params: { query: { follow: true } }, signal: end.signal });
      assert.ok(Array.isArray((await tasks.next()).value?.tasks));
      end.abort();
      await assert.rejects(tasks.next(), { name: "AbortError" });
      const said: unknown[] = [];
      for await (const envelope of client.lines("/v1/teams/{team}/members/{member}/transcript", { params: { path: { team, member } } })) said.push(envelope);
      assert.ok(said.length > 0);
    });

    test("errors have code and hint", async () => {
      const params = { path: { team, member: "wroker" } };
      await assert.rejects(client.post("/v1/teams/{team}/members/{member}/messages", { params, body: { text: "x" } }), (err) => {
        assert.ok(err instanceof ServiceError);
        const { status, code, message, hint, nearest } = err;
        assert.deepEqual({ status, code, nearest: nearest[0] }, { status: 404, code: "not_found", nearest: "worker" });
        assert.match(message, /wroker/);
        assert.notEqual(hint, "");
        return true;
      });
      await assert.rejects(client.send("..", member, { text: "x" }), TypeError);
      await assert.rejects(client.send(team, member, { text: "x" }, { id: "\ud83d" }), TypeError);
      await assert.rejects(client.send(team, member, { text: "\ud83d" }), { status: 422, code: "invalid" });
      const idle = { params: { path: { relay: `${member}@${team}` } } };
      await assert.rejects(client.post("/v1/relays/{relay}/interrupt", idle), { status: 409, code: "not_in_flight" });
      // @ts-expect-error: there is no such path
      await assert.rejects(client.get("/v1/nothing"), SkewError);
      // @ts-expect-error: it cannot be posted to
      await assert.rejects(client.post("/v1/teams"), { name: "ServiceError", status: 405, code: "method", hint: "allowed: GET, HEAD" });
    });

    test("a signal ends a stream and a request", async () => {
      const end = new AbortController();
      for await (const event of client.events({ signal: end.signal })) {
        assert.equal(event.name, "snapshot");
        end.abort();
      }
      const waiting = client.get("/v1/teams/{team}/wait", { params: { path: { team }, query: { for: "terminated", member } }, signal: AbortSignal.timeout(10) });
      await assert.rejects(waiting, { name: "TimeoutError" });
    });

    if (name === "TCP") {
      test("a wrong token", async () => {
        assert.ok("address" in place);
        const stranger = new Client({ address: place.address, token: "wrong" });
        const refused = (err: unknown) => err instanceof ServiceError && err.status === 401 && err.code === "unauthorized" && err.hint !== "";
        await assert.rejects(stranger.get("/v1/teams"), refused);
        await assert.rejects(stranger.events().next(), refused); // it is of no use to try again
        assert.deepEqual(await stranger.get("/healthz"), { status: "ok" });
        await stranger.close();
      });
    }
  });
}

/** journal returns the events that come until each of the messages is done, without those that depend on the moment. */
async function journal(events: AsyncIterable<Event>, ids: string[]): Promise<string[]> {
  const open = new Set(ids);
  const seen: string[] = [];
  let last = 0;
  for await (const event of events) {
    assert.notEqual(event.name, "reset");
    if (event.name === "snapshot" || event.name === "question") continue;
    assert.ok(event.seq > last, `${event.id} came after ${last}`);
    last = event.seq;
    if (event.name === "receipt") continue; // has the state of its moment
    seen.push(`${event.name} ${event.id}`);
    if (event.name === "relay" && event.data.state === "done" && open.delete(event.data.id!) && open.size === 0) break;
  }
  return seen;
}

describe("without a service", { timeout }, () => {
  test("none is found, and none answers", async () => {
    const none = (err: unknown) => err instanceof UnreachableError && !err.sent && /no service runs for .*teambridge serve/s.test(err.message);
    await assert.rejects(find(), none);
    const service = await serve();
    const place = await find();
    await service.end("SIGKILL");
    await assert.rejects(find(), none);
    const client = new Client(place);
    await assert.rejects(client.get("/v1/teams"), (err) => err instanceof UnreachableError && !err.sent);

    // A stream waits until there is one again.
    const broken: Error[] = [];
    let again: Promise<Service> | undefined;
    const onBroken = (err: Error) => (broken.push(err), (again ??= serve()));
    for await (const event of client.events({ onBroken })) {
      assert.equal(event.name, "snapshot");
      break;
    }
    assert.ok(broken[0] instanceof UnreachableError);
    await (await again)?.end();
    await client.close();
  });

  test("a silent one is left", async () => {
    await using silent = await pretender((_, answer) => answer.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders());
    const client = new Client(silent.place, { silence: 50 });
    const end = new AbortController();
    const onBroken = (err: Error) => {
      assert.match(err.message, /nothing was received/);
      if (silent.connections > 1) end.abort();
    };
    for await (const _ of client.events({ onBroken, signal: end.signal })) assert.fail();
    assert.ok(silent.connections > 1);
    await client.close();
  });

  test("what one repeats comes once", async () => {
    const asked: string[] = [];
    await using repeats = await pretender((request, answer) => {
      asked.push(request.url!);
      const data = (seq: number) => `event: relay\nid: epoch-${seq}\ndata: {"seq":${seq}}\n\n`;
      answer.writeHead(200, { "Content-Type": "text/event-stream" }).end(data(1) + data(asked.length) + "event: relay\nid: epoch-9\ndata: {");
    });
    const client = new Client(repeats.place);
    const ids: string[] = [];
    for await (const event of client.events({ team: "a&b", after: "epoch-0" })) if (ids.push(event.id) === 3) break;
    assert.deepEqual(ids, ["epoch-1", "epoch-2", "epoch-3"]); // and not the one that was cut
    assert.deepEqual(asked, [0, 1, 2].map((seq) => `/v1/events?team=a%26b&after=epoch-${seq}`));
    await client.close();
  });

  test("one that answers halfway may have done it", async () => {
    await using half = await pretender((_, answer) => {
      answer.writeHead(201, { "Content-Type": "application/json", "Content-Length": 100 });
      answer.write('{"team":', () => answer.destroy());
    });
    const client = new Client(half.place);
    await assert.rejects(client.send(team, member, { text: "x" }), (err) => err instanceof UnreachableError && err.sent);
    await client.close();
  });

  test("another program is none", async () => {
    await using other = await pretender((_, answer) => answer.writeHead(302, { "Content-Type": "text/html", Location: "/elsewhere" }).end("<html>"));
    const client = new Client(other.place);
    await assert.rejects(client.get("/v1/teams"), SkewError);
    await assert.rejects(client.events().next(), SkewError);
    await client.close();
  });
});
