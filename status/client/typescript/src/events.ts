import { setTimeout as sleep } from "node:timers/promises";

import { type EventSourceMessage, type ParseError, createParser } from "eventsource-parser";

import { ServiceError, SkewError, UnreachableError } from "./errors.js";
import type { components } from "./schema.js";
import type { Transport } from "./transport.js";

type Schemas = components["schemas"];

interface EventOf<Name extends string, Data> {
  name: Name;
  /** Where it is in the journal of the service: begin after it with the option after. */
  id: string;
  /** The number at the end of the id. */
  seq: number;
  data: Data;
}

/** Event is an event of a stream. A later service may also send others: ignore names that you do not know. */
export type Event =
  | EventOf<"snapshot", Schemas["Snapshot"]>
  | EventOf<"message", Schemas["MessageEvent"]>
  | EventOf<"receipt", Schemas["Receipt"]>
  | EventOf<"relay", Schemas["RelayEvent"]>
  | EventOf<"envelope", Schemas["Envelope"]>
  | EventOf<"question", Schemas["QuestionEvent"]>
  | EventOf<"reset", Schemas["Reset"]>;

export interface StreamOptions {
  /**
   * Begin after the event with this id, or after a number of the journal, such as the seq of a
   * page of messages. Default: begin with the next event.
   */
  after?: string | number | undefined;
  /** Ends the stream, without an error. */
  signal?: AbortSignal | undefined;
  /** Called when the stream broke, or could not be connected again, before the next attempt. */
  onBroken?: ((err: Error) => void) | undefined;
}

/** The first and the longest delay between two attempts, in milliseconds. */
const backOff = { first: 100, most: 5000 };

/** The largest event, in characters. */
const maxEvent = 256 << 20;

/** follow yields the events of one connection after another. */
export async function* follow(transport: Transport, silence: number, path: string, query: Record<string, string>, options: StreamOptions): AsyncGenerator<Event, void, undefined> {
  const { signal } = options;
  let after = options.after === undefined ? "" : String(options.after);
  let wait = backOff.first;
  while (!signal?.aborted) {
    try {
      for await (const event of stream(transport, silence, path, query, after, signal)) {
        wait = backOff.first;
        after = event.id;
        yield event;
      }
    } catch (err) {
      if (signal?.aborted) return;
      if (final(err)) throw err;
      options.onBroken?.(err as Error);
    }
    await sleep(wait, undefined, { signal }).catch(() => {}); // only an abort fails
    wait = Math.min(2 * wait, backOff.most);
  }
}

/** final reports whether another attempt would fail in the same way. */
function final(err: unknown): boolean {
  if (err instanceof ServiceError) return err.status < 500; // a service that is ending, or has too many streams, comes back
  return !(err instanceof UnreachableError);
}

/** stream yields the events of one connection, and throws when it ends. */
async function* stream(transport: Transport, silence: number, path: string, query: Record<string, string>, after: string, outer: AbortSignal | undefined): AsyncGenerator<Event, void, undefined> {
  const running = new AbortController();
  const signal = outer ? AbortSignal.any([outer, running.signal]) : running.signal;
  const silent = setTimeout(() => {
    running.abort(new UnreachableError(`the service at ${transport.where} does not answer: nothing was received for ${silence / 1000} s`, false));
  }, silence);
  try {
    const url = new URL(path, transport.base);
    for (const [name, value] of Object.entries(after ? { ...query, after } : query)) url.searchParams.set(name, value);
    const request = new transport.Request(url, { headers: { Accept: "text/event-stream" }, signal });
    const response = await transport.fetch(request, "text/event-stream");
    const messages: EventSourceMessage[] = [];
    const tooLarge: ParseError[] = [];
    const parser = createParser({
      maxBufferSize: maxEvent,
      onEvent: (message) => messages.push(message),
      onError: (err) => err.type === "max-buffer-size-exceeded" && tooLarge.push(err),
    });
    const decoder = new TextDecoder();
    let last = after ? seqOf(after) : -1;
    for await (const chunk of response.body!) {
      silent.refresh();
      parser.feed(decoder.decode(chunk as Uint8Array, { stream: true }));
      if (tooLarge[0]) throw new SkewError(transport.where, "an event is too large", { cause: tooLarge[0] });
      for (const message of messages.splice(0)) {
        signal.throwIfAborted(); // by the reader of the last event
        const event = decode(transport, message);
        if (event.seq <= last && !["snapshot", "question", "reset"].includes(event.name)) continue; // the service repeats it
        last = event.seq;
        yield event;
      }
    }
    throw new UnreachableError(`the service at ${transport.where} has ended the stream`, true);
  } catch (err) {
    throw transport.failed(err, signal);
  } finally {
    clearTimeout(silent);
    running.abort();
  }
}

function decode(transport: Transport, message: EventSourceMessage): Event {
  const { event: name, id, data } = message;
  const seq = id ? seqOf(id) : NaN;
  if (!name || !Number.isSafeInteger(seq)) {
    throw new SkewError(transport.where, `an event cannot be read: ${JSON.stringify({ name, id })}`);
  }
  return { name, id, seq, data: JSON.parse(data) } as Event;
}

/** seqOf returns the number at the end of an id, or NaN. */
function seqOf(id: string): number {
  return Number(/(?:^|-)(\d+)$/.exec(id)?.[1] ?? NaN);
}
