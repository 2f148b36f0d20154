import { createHash } from "node:crypto";
import { readFile, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";

import { SkewError, UnreachableError } from "./errors.js";

/** Place says where a service is: at a unix socket, or at a loopback address, which needs the token. */
export type Place = { socket: string } | { address: string; token: string };

/** FindOptions names the directories of a service. */
export interface FindOptions {
  /** Claude Code's directory. Default: $CLAUDE_CONFIG_DIR, or ~/.claude. */
  claudeDir?: string | undefined;
  /** teambridge's own. Default: $TEAMBRIDGE_STATE, $XDG_STATE_HOME/teambridge, or ~/.local/state/teambridge. */
  stateDir?: string | undefined;
}

/** The version of the API that this client knows. New fields and routes do not raise it. */
const level = 1;

/** Card is the file by which clients find a service. */
interface Card {
  pid: number;
  listen: string[];
  api: number;
  version: string;
}

/**
 * find says where the service for a Claude directory is. It prefers the socket, except on Windows,
 * where Node.js has no unix sockets.
 */
export async function find(options: FindOptions = {}): Promise<Place> {
  const claude = resolve(options.claudeDir || process.env["CLAUDE_CONFIG_DIR"] || join(homedir(), ".claude"));
  const state = stateDir(options.stateDir);
  const none = (why: string, cause?: unknown) =>
    new UnreachableError(`no service runs for ${claude}: ${why}; start it with: teambridge serve`, false, { cause });
  let card: Card;
  let root: string;
  try {
    root = await realpath(claude);
    // The path is hashed, because that of a socket must be short.
    const key = createHash("sha256").update(root).digest("hex").slice(0, 12);
    card = JSON.parse(await readFile(join(state, `${key}.service.json`), "utf8")) as Card;
  } catch (err) {
    throw none((err as Error).message, err);
  }
  // A service that was killed leaves its card.
  if (!alive(card.pid)) throw none(`process ${card.pid} has ended`);
  if (card.api > level) {
    throw new SkewError(card.listen.join(", "), `it has version ${card.api} of the API (teambridge ${card.version}), and this client has ${level}`);
  }
  const socket = card.listen.find((l) => l.startsWith("unix:"));
  if (socket && process.platform !== "win32") return { socket: socket.slice("unix:".length) };
  const address = card.listen.find((l) => !l.startsWith("unix:"));
  if (!address) throw none("it has no address; start it with --listen 127.0.0.1:PORT");
  try {
    return { address, token: (await readFile(join(state, "api.token"), "utf8")).trim() };
  } catch (err) {
    throw new Error(`read the token of the service for ${claude}: ${(err as Error).message}`, { cause: err });
  }
}

function stateDir(given: string | undefined): string {
  const own = given || process.env["TEAMBRIDGE_STATE"];
  if (own) return resolve(own);
  const xdg = process.env["XDG_STATE_HOME"];
  return join(xdg && isAbsolute(xdg) ? xdg : join(homedir(), ".local", "state"), "teambridge");
}

function alive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (err) {
    return (err as NodeJS.ErrnoException).code === "EPERM"; // another user's
  }
}
