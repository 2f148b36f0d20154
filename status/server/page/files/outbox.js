// What was written here, and is not known to have arrived.
//
// Each text gets its key before it is sent for the first time, and keeps it: to
// send it again after a lost connection, or after the page was closed in the
// middle, is to send it once.

import { broadcast, Problem, send } from "./ask.js";

const prefix = "teambridge:out:";
const week = 7 * 86400e3;

export class Outbox {
  #entries = new Map(); // by key
  #texts = new Map(); // what was sent from this page, by key
  #changed;

  // changed is called when something changed. Entries of an earlier page come back.
  constructor(changed) {
    this.#changed = changed;
    for (const name of Object.keys(localStorage)) {
      if (name.startsWith(prefix)) this.#read(name, localStorage.getItem(name));
    }
    addEventListener("storage", (e) => { // another tab
      if (!e.key?.startsWith(prefix)) return;
      if (e.newValue === null) this.#entries.delete(e.key.slice(prefix.length));
      else if (!this.#entries.has(e.key.slice(prefix.length))) this.#read(e.key, e.newValue);
      changed();
    });
  }

  #read(name, value) {
    try {
      const entry = JSON.parse(value);
      if (Date.now() - entry.at > week) throw new Error("too old");
      if (entry.state === "sending") Object.assign(entry, { state: "unsure", detail: "The page was closed before an answer came", hint: "" });
      this.#entries.set(entry.key, entry);
    } catch {
      localStorage.removeItem(name);
    }
  }

  #keep(entry) {
    this.#entries.set(entry.key, entry);
    try {
      localStorage.setItem(prefix + entry.key, JSON.stringify(entry));
    } catch { /* no room: it is kept as long as the page */ }
    this.#changed();
  }

  // of returns what waits in a conversation, the oldest first.
  of(team, createdAt, member) {
    return [...this.#entries.values()]
      .filter((e) => e.team === team && e.createdAt === createdAt && e.member === member)
      .sort((a, b) => a.at - b.at);
  }

  // write sends a text to a member, or to all (member is null). It answers with
  // what the service said, or null.
  write({ team, createdAt, member, text, lead = false }) {
    return this.again({ key: crypto.randomUUID(), team, createdAt, member, text, lead, at: Date.now() });
  }

  // again sends an entry, for the first time or under the same key.
  async again(entry, force = false) {
    entry = { ...entry, state: "sending", detail: "", hint: "", code: "" };
    this.#texts.set(entry.key, entry.text);
    this.#keep(entry);
    try {
      const { team, member, text, key } = entry;
      if (member !== null) {
        const sent = await send(team, member, { text, force }, key);
        this.#sent(entry);
        return [sent];
      }
      const all = await broadcast(team, { text, includeLead: entry.lead }, key);
      const failed = all.filter((s) => s.error);
      if (failed.length === 0) this.#sent(entry);
      else {
        const names = failed.map((s) => s.member).join(", ");
        this.#fail(entry, new Problem({ status: 207, code: failed[0].error.code, detail: `Not sent to ${names}: ${failed[0].error.message}`, hint: failed[0].error.hint }));
      }
      return all;
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.#fail(entry, problem);
      return null;
    }
  }

  #sent(entry) {
    localStorage.removeItem(prefix + entry.key);
    if (!this.#entries.has(entry.key)) return; // it was seen to be there already
    this.#entries.set(entry.key, { ...entry, state: "sent" });
    this.#changed();
  }

  #fail(entry, problem) {
    if (!this.#entries.has(entry.key)) return;
    const state = problem.unsure ? "unsure" : "failed";
    this.#keep({ ...entry, state, detail: problem.message, hint: problem.hint, code: problem.code });
  }

  // text returns what was sent from this page under an id, if that was.
  text(id) {
    return this.#texts.get(id) ?? this.#texts.get(id.slice(0, 36));
  }

  // arrived is told of a message that is there.
  arrived(id) {
    const entry = this.#entries.get(id);
    if (entry && entry.member !== null) this.drop(id);
    // A message to all is there when it is there for all of them: when that was said.
    const all = /^(.{36})-/.exec(id)?.[1];
    if (all && this.#entries.get(all)?.state === "sent") this.drop(all);
  }

  drop(key) {
    this.#entries.delete(key);
    localStorage.removeItem(prefix + key);
    this.#changed();
  }
}

// What is being written, and not sent yet, is kept for each conversation.
const draft = (team, createdAt, member) => `teambridge:draft:${team}:${createdAt}:${member ?? "*"}`;

export function keepDraft(team, createdAt, member, text) {
  try {
    if (text) localStorage.setItem(draft(team, createdAt, member), text);
    else localStorage.removeItem(draft(team, createdAt, member));
  } catch { /* no room */ }
}

export const draftOf = (team, createdAt, member) => localStorage.getItem(draft(team, createdAt, member)) ?? "";
