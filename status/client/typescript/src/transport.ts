import { Agent, Request, fetch } from "undici";

import { type Code, type Problem, ServiceError, SkewError, UnreachableError } from "./errors.js";
import type { Place } from "./find.js";

/** How long a connection may take, in milliseconds. */
const connectTimeout = 2000;

/**
 * Transport sends requests to one service. What it returns is a success: everything else is thrown,
 * as one of our errors or, if the request was aborted, as the reason for that.
 */
export class Transport {
  readonly base: string;
  readonly where: string;
  private readonly agent: Agent;
  private readonly headers: [string, string][] = [];

  constructor(place: Place) {
    // The Agent of undici goes with its own fetch; that of Node.js can be of another version. A
    // request may wait for an agent for hours, so answers have no time limit.
    const options: Agent.Options = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: connectTimeout } };
    if ("socket" in place) {
      this.base = "http://teambridge"; // the service takes any name without a dot on its socket
      this.where = `unix:${place.socket}`;
      options.connect = { timeout: connectTimeout, socketPath: place.socket };
    } else {
      this.base = `http://${place.address}`;
      this.where = place.address;
      this.headers.push(["Authorization", `Bearer ${place.token}`]);
    }
    this.agent = new Agent(options);
  }

  /** close closes the connections, once the requests in progress are answered. */
  close(): Promise<void> {
    return this.agent.close();
  }

  /** request is the global Request as openapi-fetch needs it, of the same implementation as fetch. */
  readonly Request = Request as unknown as typeof globalThis.Request;

  /** fetch sends a request, and returns a successful answer of one of the media types. */
  async fetch(request: globalThis.Request, ...media: string[]): Promise<globalThis.Response> {
    for (const [name, value] of this.headers) request.headers.set(name, value);
    const what = `${request.method} ${new URL(request.url).pathname}`;
    let response: globalThis.Response;
    try {
      response = (await fetch(request as unknown as Request, {
        dispatcher: this.agent,
        redirect: "manual",
      })) as unknown as globalThis.Response;
    } catch (err) {
      throw this.failed(err, request.signal);
    }
    const type = mediaType(response);
    if (response.ok) {
      if (media.includes(type)) return response;
      await response.body?.cancel();
      throw new SkewError(this.where, `the answer to ${what} is ${JSON.stringify(type)}`);
    }
    if (type !== "application/problem+json") {
      await response.body?.cancel();
      throw new SkewError(this.where, `the answer to ${what} is ${response.status} as ${JSON.stringify(type)}`);
    }
    const problem = new ServiceError((await this.read(request.signal, () => response.json())) as Problem);
    if (skewed.has(problem.code)) throw new SkewError(this.where, `to ${what} it says: ${problem.message}`, { cause: problem });
    throw problem;
  }

  /** read reads a body, or throws what fits why it could not be read. */
  async read<T>(signal: AbortSignal | null | undefined, body: () => Promise<T>): Promise<T> {
    try {
      return await body();
    } catch (err) {
      throw this.failed(err, signal);
    }
  }

  /** failed returns the error for what undici has thrown. */
  failed(err: unknown, signal: AbortSignal | null | undefined): unknown {
    if (signal?.aborted) return signal.reason;
    if (err instanceof SyntaxError) return new SkewError(this.where, `its JSON is invalid: ${err.message}`, { cause: err });
    const cause = err instanceof TypeError ? (err.cause as NodeJS.ErrnoException | undefined) : undefined;
    if (!cause) return err; // one of ours, or a mistake in the request
    const connecting = cause.syscall === "connect" || cause.code === "UND_ERR_CONNECT_TIMEOUT";
    return new UnreachableError(`the service at ${this.where} does not answer: ${cause.message}`, !connecting, { cause: err });
  }
}

/** The codes of a service that has no such request. That it has the path, but not the method, is a mistake of who asks: the service says it. */
const skewed = new Set<Code>(["no_route", "body"]);

function mediaType(response: globalThis.Response): string {
  return (response.headers.get("Content-Type") ?? "").split(";")[0]!.trim().toLowerCase();
}
