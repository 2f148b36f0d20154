// The relays of the service, which run headless agents, and the questions of those agents.

import { Problem, question as requestQuestion, relays as requestRelays } from "./request.js";

// Relays has the service's last list of relays.
export class Relays {
  #list = [];
  #about = null; // the state of the agents that the list is for
  #changed;
  #loading = false;
  #wanted = false;

  constructor(changed) {
    this.#changed = changed;
  }

  // of returns the relay of a member, if this service runs it or its session can move.
  of({ team, member }) {
    return this.#list.find((r) => r.team === team && r.member === member && (r.created || r.place));
  }

  get(id) {
    return this.#list.find((r) => r.relay === id && r.created);
  }

  // refresh requests the relays again, if a snapshot says that they have changed.
  async refresh(snapshot) {
    const about = JSON.stringify([snapshot.status.map((s) => s.relay && [s.team, s.member, s.relay.state, s.relay.agentPid, s.relay.place]), snapshot.attention.map((a) => a.relay && !a.answerable && a.id)]);
    if (about === this.#about) return;
    this.#about = about;
    if (snapshot.status.some((s) => s.relay) || snapshot.attention.some((a) => a.relay) || this.#list.length > 0) await this.load();
  }

  // load requests the relays. During a request, it only notes that another one is needed.
  async load() {
    this.#wanted = true;
    if (this.#loading) return;
    this.#loading = true;
    try {
      while (this.#wanted) {
        this.#wanted = false;
        this.#list = await requestRelays();
      }
    } catch {
      this.#about = null; // again at the next snapshot
    }
    this.#loading = this.#wanted = false;
    this.#changed();
  }

  // question requests the whole question of an agent; undefined if it is no longer open.
  async question({ question }) {
    try {
      return await requestQuestion(question.id);
    } catch (problem) {
      if (problem instanceof Problem && (problem.status === 404 || problem.status === 409)) return undefined;
      throw problem;
    }
  }
}
