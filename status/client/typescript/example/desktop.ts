// The backend of a desktop program, such as the main process of Electron: it shows the members of a
// team, sends a message and what becomes of it, follows what happens, and lets the person answer what
// agents ask.
//
//   node desktop.js TEAM MEMBER TEXT
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline/promises";
import { argv, stdin, stdout } from "node:process";
import { fileURLToPath } from "node:url";

import { Client, type Schemas, ServiceError, UnreachableError } from "@teambridge/client";

/** Window is the user interface: in Electron, show is webContents.send, and ask a dialog. */
export interface Window {
  show(what: string, value: unknown): void;
  /** ask returns whether the agent may do it. */
  ask(question: string): Promise<boolean>;
}

export class Backend {
  /** Resolves once events come: what is sent from then on is followed from its beginning. */
  readonly ready: Promise<void>;
  private begun!: () => void;
  private readonly asked = new Set<string>();
  private after: string | undefined;

  constructor(
    private readonly client: Client,
    private readonly team: string,
    private readonly window: Window,
  ) {
    this.ready = new Promise((resolve) => (this.begun = resolve));
  }

  /** run follows the team until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await this.members();
    const { client, team, window } = this;
    const onBroken = (err: Error) => window.show("offline", err.message); // it is tried again
    for await (const event of client.events({ team, after: this.after, signal, onBroken })) {
      this.begun();
      this.after = event.id; // a program that keeps it goes on from here when it is started again
      switch (event.name) {
        case "snapshot": // the state, first and whenever it changes
          window.show("status", event.data.status);
          for (const waits of event.data.attention) void this.answer(waits);
          break;
        case "message": // who wrote what to whom
          if (event.data.change === "appeared") window.show("message", event.data.message);
          break;
        case "receipt": // what became of a message that was sent: verified, consumed, lost, unknown
        case "relay": // the same of the turn of a headless agent: accepted, done, failed
          window.show("outcome", event.data);
          break;
        case "reset": // events are missing, which are too old: what is shown has to be read again
          await this.members();
          break;
      }
    }
  }

  /** send sends a message. If it throws an UnreachableError, send it again under the same id. */
  async send(member: string, text: string, id: string = randomUUID()): Promise<Schemas["Sent"]> {
    return await this.client.send(this.team, member, { text }, { id });
  }

  private async members(): Promise<void> {
    const params = { path: { team: this.team } };
    this.window.show("members", await this.client.get("/v1/teams/{team}/members", { params }));
  }

  /** answer lets the person answer the question of an agent, once. */
  private async answer({ question, answerable, partial }: Schemas["Attention"]): Promise<void> {
    if (!answerable || question?.kind !== "permission" || this.asked.has(question.id)) return;
    this.asked.add(question.id);
    try {
      const params = { path: { question: question.id } };
      const whole = partial ? await this.client.get("/v1/questions/{question}", { params }) : question;
      const allow = await this.window.ask(`${whole.tool} ${JSON.stringify(whole.input)}?`);
      // The digest is that of what was shown, so that nothing else is allowed.
      const body = { question: whole.id, digest: whole.digest, allow, ...(!allow && { reason: "not now" }) };
      await this.client.post("/v1/questions/{question}", { params, body });
    } catch (err) {
      if (err instanceof UnreachableError) this.asked.delete(question.id); // the next snapshot asks again
      this.window.show("error", describe(err)); // or it was answered elsewhere
    }
  }
}

/** describe says what went wrong, and what to do about it. */
export function describe(err: unknown): string {
  if (err instanceof ServiceError) return err.hint ? `${err.message} (${err.hint})` : err.message;
  if (err instanceof UnreachableError) return err.message;
  throw err;
}

async function main(team: string, member: string, text: string): Promise<void> {
  const terminal = createInterface({ input: stdin, output: stdout });
  const end = new AbortController();
  terminal.on("close", () => end.abort());
  const backend = new Backend(await Client.find(), team, {
    show: (what, value) => console.log(what, JSON.stringify(value)),
    ask: async (question) => (await terminal.question(`${question} [y/N]\n`)) === "y",
  });
  const running = backend.run(end.signal);
  await Promise.race([backend.ready, running]);
  await backend.send(member, text);
  await running;
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const [team, member, text] = argv.slice(2);
  if (!team || !member || !text) throw new Error("usage: node desktop.js TEAM MEMBER TEXT");
  await main(team, member, text).catch((err) => {
    console.error(describe(err));
    process.exitCode = 1;
  });
}
