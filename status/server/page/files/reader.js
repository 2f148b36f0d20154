// Who the reader is in each team, and which messages to the reader are unread.

import { markRead, messages, Problem, team as requestTeam } from "./request.js";
import { groupBy } from "./teams.js";

// instance returns the number that tells teams with the same name apart.
export const instance = (t) => Date.parse(t.createdAt);

// isTo reports whether a message is to the reader of that team.
const isTo = (detail, r) => instance(detail) === r.createdAt && detail.ours.includes(r.inbox);

const most = 500; // messages that are requested of an inbox, or kept of a team that is not loaded: of each, the last

export class Reader {
  // By name: {about, detail, unread, meanwhile}. about is its version when it was requested, and meanwhile are the messages
  // that came since it was to be loaded, as message got them.
  #teams = new Map();
  #on;
  #loading = Promise.resolve();

  // on has functions: changed is called after a team was loaded or messages were read, late with a new message to the
  // reader for which message returned false, since its team was not yet loaded, and readOnly if the service refuses changes.
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
    for (const t of teams) {
      if (!t.problem && !this.#teams.has(t.team)) this.#teams.set(t.team, { about: "", detail: null, unread: new Map(), meanwhile: [] });
    }
    this.#loading = this.#loading.then(async () => {
      for (const t of teams) await this.#load(t);
    });
  }

  async #load(t) {
    const about = JSON.stringify([t.createdAt, t.members]);
    const known = this.#teams.get(t.team);
    if (t.problem || !known || known.about === about) return; // without known, clear was called since
    const person = { about, detail: known.detail, unread: known.unread, meanwhile: known.meanwhile ?? [] };
    this.#teams.set(t.team, person);
    const late = [];
    try {
      person.detail = await requestTeam(t.team);
      const list = new Map();
      for (const inbox of person.detail.ours) {
        const found = await messages(t.team, { inbox, createdAt: instance(t), limit: most });
        for (const r of found.messages) if (!r.read && !r.gone && !r.work) list.set(r.seq, r);
      }
      for (const { r, there, tome } of person.meanwhile) {
        if (!there) list.delete(r.seq);
        else if (isTo(person.detail, r)) {
          list.set(r.seq, r);
          if (!tome) late.push(r);
        }
      }
      person.unread = list;
      person.meanwhile = null;
    } catch (problem) {
      person.about = ""; // try again at the next snapshot
      if (!(problem instanceof Problem)) throw problem;
    }
    this.#on.changed();
    for (const r of late) if (person.unread.get(r.seq) === r) this.#on.late(r);
  }

  // message takes a message that appeared or changed, and reports whether it is to the reader.
  message(r, there) {
    const known = this.#teams.get(r.team);
    const tome = !r.noise && Boolean(known?.detail && isTo(known.detail, r));
    if (!there) known?.unread.delete(r.seq);
    else if (tome) known.unread.set(r.seq, r);
    if (!r.noise && known?.meanwhile?.push({ r, there, tome }) > most) known.meanwhile.shift();
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
