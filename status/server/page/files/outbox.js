// Messages that were written here and are not known to have arrived.
//
// Each message gets its key before it is sent for the first time. If it is sent again
// under the same key, after a lost connection or after the page was closed, it arrives
// once.

import { broadcast, Problem, send } from "./request.js";

const prefix = "teambridge:out:";
const week = 7 * 86400e3;

export class Outbox {
  #entries = new Map(); // by key
  #texts = new Map(); // sent from this page, by key
  #changed;

  // changed is called after each change. Entries of an earlier page are restored.
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
      if (entry.state === "sending") Object.assign(entry, { state: "uncertain", detail: "The page was closed before the service answered" });
      this.#entries.set(entry.key, entry);
    } catch {
      localStorage.removeItem(name);
    }
  }

  #keep(entry) {
    this.#entries.set(entry.key, entry);
    try {
      localStorage.setItem(prefix + entry.key, JSON.stringify(entry));
    } catch { /* no space: the entry lasts as long as the page */ }
    this.#changed();
  }

  // of returns the entries of a conversation, the oldest first.
  of(team, createdAt, member) {
    return [...this.#entries.values()]
      .filter((e) => e.team === team && e.createdAt === createdAt && e.member === member)
      .sort((a, b) => a.at - b.at);
  }

  // post sends a text to a member, or to all if member is null. mode changes how a relayed
  // agent works from then on, and pane is what panes.js chose. It returns the answers of the service, or null.
  post({ team, createdAt, member, text, lead = false, mode, pane }) {
    return this.retry({ key: crypto.randomUUID(), team, createdAt, member, text, lead, mode, pane, at: Date.now() });
  }

  // retry sends an entry under its key.
  async retry(entry, force = false) {
    entry = { ...entry, state: "sending", detail: "", hint: "", code: "" };
    this.#texts.set(entry.key, entry.text);
    this.#keep(entry);
    try {
      const { team, member, text, key, mode, pane } = entry;
      if (member !== null) {
        const sent = await send(team, member, { text, force, mode, ...pane }, key);
        this.#sent(entry);
        return [sent];
      }
      const all = await broadcast(team, { text, includeLead: entry.lead, ...pane }, key);
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
    if (!this.#entries.has(entry.key)) return; // it has arrived already
    this.#entries.set(entry.key, { ...entry, state: "sent" });
    this.#changed();
  }

  #fail(entry, problem) {
    if (!this.#entries.has(entry.key)) return;
    const state = problem.uncertain ? "uncertain" : "failed";
    this.#keep({ ...entry, state, detail: problem.message, hint: problem.hint, code: problem.code });
  }

  // text returns the text that was sent from this page under an id, if any.
  text(id) {
    return this.#texts.get(id) ?? this.#texts.get(id.slice(0, 36));
  }

  // arrived removes the entry of a message that is in its inbox.
  arrived(id) {
    const entry = this.#entries.get(id);
    if (entry && entry.member !== null) this.drop(id);
    // A message to all has arrived once the service has sent it to all.
    const all = /^(.{36})-/.exec(id)?.[1];
    if (all && this.#entries.get(all)?.state === "sent") this.drop(all);
  }

  drop(key) {
    this.#entries.delete(key);
    localStorage.removeItem(prefix + key);
    this.#changed();
  }
}

// The draft of each conversation is kept.
const draftKey = (team, createdAt, member) => `teambridge:draft:${team}:${createdAt}:${member ?? "*"}`;

export function keepDraft(team, createdAt, member, text) {
  try {
    if (text) localStorage.setItem(draftKey(team, createdAt, member), text);
    else localStorage.removeItem(draftKey(team, createdAt, member));
  } catch { /* no space */ }
}

export const draftOf = (team, createdAt, member) => localStorage.getItem(draftKey(team, createdAt, member)) ?? "";
