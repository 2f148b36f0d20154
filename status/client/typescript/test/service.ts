// What the tests run: the service, and what stands between it and a client.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import http from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import type { Place } from "@teambridge/client";

/** A service of the Claude directory that the environment names. */
export interface Service {
  process: ChildProcess;
  end(signal?: NodeJS.Signals): Promise<void>;
}

/** serve starts a service, and returns once it listens. */
export async function serve(...flags: string[]): Promise<Service> {
  const child = spawn("teambridge", ["serve", "--json", ...flags], { stdio: ["ignore", "pipe", "inherit"] });
  const exit = once(child, "exit");
  const first = await Promise.race([once(createInterface({ input: child.stdout }), "line"), exit]);
  if (child.exitCode !== null) throw new Error(`the service ended: ${first}`);
  return {
    process: child,
    async end(signal: NodeJS.Signals = "SIGTERM") {
      child.kill(signal);
      await exit;
    },
  };
}

/** Between is a server where a client expects the service. */
export interface Between extends AsyncDisposable {
  place: Place;
  connections: number;
}

/** listen listens on a unix socket or, with a token, on a loopback address. */
async function listen(server: net.Server, token?: string): Promise<Between> {
  const dir = await mkdtemp(join(tmpdir(), "tb"));
  const socket = join(dir, "s");
  const open = new Set<net.Socket>();
  server.on("connection", (conn: net.Socket) => {
    between.connections++;
    open.add(conn);
    conn.on("close", () => open.delete(conn));
  });
  const between: Between = {
    place: { socket },
    connections: 0,
    async [Symbol.asyncDispose]() {
      server.close();
      for (const conn of open) conn.destroy();
      await rm(dir, { recursive: true });
    },
  };
  if (token) server.listen(0, "127.0.0.1");
  else server.listen(socket);
  await once(server, "listening");
  if (token) between.place = { address: `127.0.0.1:${(server.address() as net.AddressInfo).port}`, token };
  return between;
}

/** cutter passes connections on to a service, and cuts them, one after the other, after so many bytes of the answers. */
export function cutter(to: Place, cuts: number[]): Promise<Between> {
  const [host, port] = "address" in to ? to.address.split(":") : [];
  return listen(
    net.createServer((conn) => {
      const service = "socket" in to ? net.connect(to.socket) : net.connect(Number(port), host);
      let left = cuts.shift() ?? Infinity;
      const cut = () => (conn.destroy(), service.destroy());
      for (const end of [conn, service]) end.on("error", cut).on("close", cut);
      conn.pipe(service);
      service.on("data", (data) => {
        conn.write(data.subarray(0, left), data.length < left ? undefined : cut);
        left = Math.max(0, left - data.length);
      });
    }),
    "token" in to ? to.token : undefined,
  );
}

/** pretender plays a service that answers each request as handle does. */
export function pretender(handle: http.RequestListener): Promise<Between> {
  return listen(http.createServer(handle));
}
