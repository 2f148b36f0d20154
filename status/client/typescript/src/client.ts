import createClient, { type Client as Fetching, type ClientPathsWithMethod, type MaybeOptionalInit, type MethodResponse, defaultPathSerializer } from "openapi-fetch";

import { type Problem, ServiceError } from "./errors.js";
import { type Event, type StreamOptions, follow } from "./events.js";
import { type FindOptions, type Place, find } from "./find.js";
import type { components, paths } from "./schema.js";
import { Transport } from "./transport.js";

/** Schemas has the types of the API by their names in its document, such as Schemas["Member"]. */
export type Schemas = components["schemas"];

type Api = Fetching<paths, "application/json">;
type Optional<Init> = undefined extends Init ? [init?: Init] : [init: Init];

/**
 * Call sends a request to a path of the API, with params (path, query, header), body and signal, and
 * returns the answer.
 */
export type Call<Method extends "get" | "post" | "put" | "delete"> = <Path extends ClientPathsWithMethod<Api, Method>>(
  path: Path,
  ...init: Optional<MaybeOptionalInit<paths[Path], Method>>
) => Promise<MethodResponse<Api, Method, Path>>;

/** The paths whose answers are lines of JSON. */
type LinesPath = "/v1/teams/{team}/members/{member}/transcript" | "/v1/transcripts/{session}" | "/v1/tasks";

/** Line is a line of an answer: tasks, or an envelope of the session protocol. */
export type Line<Path> = Path extends "/v1/tasks" ? Schemas["Tasks"] : { [key: string]: unknown };

/** ClientOptions has what is not about where the service is. */
export interface ClientOptions {
  /** How long a stream of events may be silent before it counts as broken, in milliseconds. Default: 45000, three times the heartbeat of the service. */
  silence?: number | undefined;
}

/**
 * Client talks to one teambridge service, as the person who runs it. Requests throw a ServiceError if
 * the service refuses or fails, an UnreachableError if it does not answer, a SkewError if it is another
 * version, and the reason of their signal if that is aborted.
 */
export class Client {
  /** Where the service is: unix:PATH or HOST:PORT. */
  readonly where: string;
  readonly get: Call<"get">;
  readonly post: Call<"post">;
  readonly put: Call<"put">;
  readonly delete: Call<"delete">;

  private readonly transport: Transport;
  private readonly http: Api;
  private readonly silence: number;

  /** The constructor does not connect. */
  constructor(place: Place, options: ClientOptions = {}) {
    this.transport = new Transport(place);
    this.where = this.transport.where;
    this.silence = options.silence ?? 45_000;
    this.http = createClient<paths, "application/json">({
      baseUrl: this.transport.base,
      Request: this.transport.Request,
      fetch: (request) => this.transport.fetch(request, "application/json"),
      pathSerializer,
    });
    const http = this.http as unknown as { [method: string]: (path: string, init?: object) => Promise<{ data?: unknown }> };
    const call = (method: string) =>
      (async (path: string, init?: { signal?: AbortSignal }) => {
        return (await this.transport.read(init?.signal, () => http[method]!(path, init))).data;
      }) as never; // its type is that of the property
    this.get = call("GET");
    this.post = call("POST");
    this.put = call("PUT");
    this.delete = call("DELETE");
  }

  /** find returns a client of the service that runs for a Claude directory, or throws an UnreachableError if none does. */
  static async find(options: FindOptions & ClientOptions = {}): Promise<Client> {
    return new Client(await find(options), options);
  }

  /**
   * send sends a message to a member; "lead" is the lead. Sending again under the same id is sending
   * once. Without an id, the service makes one.
   */
  async send(team: string, member: string, message: Schemas["NewMessage"], options: { id?: string; signal?: AbortSignal } = {}): Promise<Schemas["Sent"]> {
    const { id, signal } = options;
    return (await this.post("/v1/teams/{team}/members/{member}/messages", {
      params: { path: { team, member }, ...(id !== undefined && { header: { "Idempotency-Key": idHeader(id) } }) },
      body: message,
      ...(signal && { signal }),
    })) as Schemas["Sent"]; // SentPayloads answers payloads alone
  }

  /**
   * events yields the events of a team, or of all teams, until the signal is aborted or the loop is
   * left with break; only the signal ends it while it waits. The first one is a snapshot, and another one follows whenever the state changes. Messages,
   * receipts, relay events and envelopes come once each, in the order of the journal.
   *
   * If the connection breaks, it is made again, after 0.1 s to 5 s, and the events continue without a
   * gap or a repeat. If events were pruned, or the journal is another one, there is a reset event:
   * read everything again. It throws if connecting again is of no use.
   */
  events(options: StreamOptions & { team?: string | undefined } = {}): AsyncGenerator<Event, void, undefined> {
    const query = { ...(options.team && { team: options.team }) };
    return follow(this.transport, this.silence, "/v1/events", query, options);
  }

  /** envelopes yields what the agent of a relay says and does, as events does: envelopes, and resets. */
  envelopes(relay: string, options: StreamOptions = {}): AsyncGenerator<Extract<Event, { name: "envelope" | "reset" }>, void, undefined> {
    const path = pathSerializer("/v1/relays/{relay}/events", { relay });
    return follow(this.transport, this.silence, path, {}, options) as ReturnType<Client["envelopes"]>;
  }

  /** lines yields the lines of an answer as they come: a transcript, or tasks (with follow in their query). */
  async *lines<Path extends LinesPath>(path: Path, ...init: Optional<MaybeOptionalInit<paths[Path], "get">>): AsyncGenerator<Line<Path>, void, undefined> {
    const options = init[0] as { signal?: AbortSignal } | undefined;
    const { data } = await this.http.GET(path, {
      ...options,
      parseAs: "stream",
      fetch: (request: globalThis.Request) => this.transport.fetch(request, "application/x-ndjson"),
    } as never);
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for await (const chunk of data as unknown as AsyncIterable<Uint8Array>) {
        const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
        rest = lines.pop()!;
        for (const line of lines) yield this.line(line) as Line<Path>;
      }
    } catch (err) {
      throw this.transport.failed(err, options?.signal);
    }
  }

  private line(text: string): unknown {
    const line = JSON.parse(text) as { error?: Pick<Problem, "code" | "hint"> & { message: string } };
    if (!text.startsWith('{"error":') || !line.error) return line;
    const { code, hint, message } = line.error;
    throw new ServiceError({ status: 0, code, hint, detail: message });
  }

  /** close closes the connections once the requests in progress are answered; end streams with their signals. */
  close(): Promise<void> {
    return this.transport.close();
  }
}

/** pathSerializer refuses names that would change the path, which a URL resolves. */
function pathSerializer(path: string, params: Record<string, unknown>): string {
  for (const [name, value] of Object.entries(params)) {
    if (["", ".", ".."].includes(String(value))) throw new TypeError(`${name} is ${JSON.stringify(value)}, which is no name`);
  }
  return defaultPathSerializer(path, params);
}

/** idHeader returns the header of a message with an id: its bytes in UTF-8, each as one character. */
function idHeader(id: string): string {
  if (!id.isWellFormed()) throw new TypeError(`the id ${JSON.stringify(id)} has half of a surrogate pair`);
  return `"${Buffer.from(id).toString("latin1")}"`;
}
