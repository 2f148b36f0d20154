// Who the reader is in each team, and which messages to the reader are unread.

import { markRead, messages, Problem, team as requestTeam } from "./request.js";
import { groupBy } from "./teams.js";

// instance returns the number that tells teams with the same name apart.
export const instance = (t) => Date.parse(t.createdAt);

export class Reader {
  #teams = new Map(); // by name: {about, detail, unread, meanwhile}; about is its version when it was requested
  #on;
  #loading = Promise.resolve();

  // on has functions: changed is called after a team was loaded or messages were read, and
  // readOnly if the service refuses changes.
  constructor(on) {
    this.#on = on;
  }

  // detail returns the service's description of a team and of the reader in it, if it is known.
  detail(team) {
    return this.#teams.get(team)?.detail;
  }

  // unread counts the unread messages to the reader from a member, or in a team for null.
  unread(team, member) {
    const unread = this.#teams.get(team)?.unread;
    if (!unread || unread.size === 0 || member === null) return unread?.size ?? 0;
    let n = 0;
    for (const r of unread.values()) if (r.from === member) n++;
    return n;
  }

  // first returns the seq of the first unread message, or null; see unread.
  first(team, member) {
    const list = [...(this.#teams.get(team)?.unread.values() ?? [])].filter((r) => member === null || r.from === member || r.inbox === member);
    return list.length > 0 ? Math.min(...list.map((r) => r.seq)) : null;
  }

  // all returns all unread messages that are known.
  all() {
    return [...this.#teams.values()].flatMap(({ unread }) => [...unread.values()]);
  }

  // last returns the last unread message from a member.
  last(team, from) {
    return [...(this.#teams.get(team)?.unread.values() ?? [])].filter((r) => r.from === from).sort((a, b) => a.seq - b.seq).at(-1);
  }

  // load requests the teams that have changed, one after the other.
  load(teams) {
    this.#loading = this.#loading.then(async () => {
      for (const t of teams) await this.#load(t);
    });
  }

  async #load(t) {
    const about = JSON.stringify([t.createdAt, t.members]);
    const known = this.#teams.get(t.team);
    if (t.problem || known?.about === about) return;
    const person = { about, detail: known?.detail ?? null, unread: known?.unread ?? new Map(), meanwhile: [] };
    this.#teams.set(t.team, person);
    try {
      person.detail = await requestTeam(t.team);
      const list = new Map();
      for (const inbox of person.detail.ours) {
        const found = await messages(t.team, { inbox, createdAt: instance(t), limit: 500 });
        for (const r of found.messages) if (!r.read && !r.gone && !r.work) list.set(r.seq, r);
      }
      for (const { r, there } of person.meanwhile) {
        if (!there) list.delete(r.seq);
        else if (person.detail.ours.includes(r.inbox)) list.set(r.seq, r);
      }
      person.unread = list;
    } catch (problem) {
      person.about = ""; // try again at the next snapshot
      if (!(problem instanceof Problem)) throw problem;
    } finally {
      person.meanwhile = null;
    }
    this.#on.changed();
  }

  // message takes a message that appeared or changed, and reports whether it is to the reader.
  message(r, there) {
    const known = this.#teams.get(r.team);
    const detail = known?.detail;
    const tome = !r.noise && Boolean(detail && instance(detail) === r.createdAt && detail.ours.includes(r.inbox));
    if (!there) known?.unread.delete(r.seq);
    else if (tome) known.unread.set(r.seq, r);
    if (!r.noise) known?.meanwhile?.push({ r, there });
    return tome;
  }

  // seen marks messages as read that the reader has seen.
  async seen(list) {
    for (const records of groupBy(list, (r) => r.team + "\0" + r.inbox).values()) {
      const { team, inbox } = records[0];
      for (const r of records) {
        r.read = true; // so that it is not marked twice
        this.#teams.get(team)?.unread.delete(r.seq);
      }
      this.#on.changed();
      try {
        await markRead(team, inbox, [...new Set(records.map((r) => r.id))]);
      } catch (problem) {
        if (problem.code === "read_only") this.#on.readOnly();
      }
    }
  }

  clear() {
    this.#teams.clear();
  }
}
