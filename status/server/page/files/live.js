// The stream of events.

import { version } from "./request.js";

// Live receives the events of the service. If a connection breaks, the browser connects
// again by itself and sends the id of the last event. If the service answers with an
// error, the browser gives up, and Live connects again.
export class Live {
  #source = null;
  #last = "";
  #tries = 0;
  #timer = 0;
  #on;

  // on has a function for each kind of event, called with its data, and state, called
  // with "live", "reconnecting" or "signed out".
  constructor(on) {
    this.#on = on;
  }

  start() {
    clearTimeout(this.#timer);
    this.#source?.close();
    const source = new EventSource("/v1/events" + (this.#last && "?after=" + encodeURIComponent(this.#last)));
    this.#source = source;
    source.onopen = () => {
      this.#tries = 0;
      this.#on.state("live");
    };
    source.onerror = () => {
      this.#on.state("reconnecting");
      if (source.readyState === EventSource.CLOSED) this.#reconnect();
    };
    for (const kind of ["snapshot", "message", "receipt", "relay", "reset"]) {
      source.addEventListener(kind, (e) => {
        if (e.lastEventId) this.#last = e.lastEventId;
        this.#on[kind]?.(JSON.parse(e.data));
      });
    }
  }

  // reconnect finds out why there is no stream, and starts another one later.
  async #reconnect() {
    try {
      await version();
    } catch (problem) {
      if (problem.status === 401) {
        this.#on.state("signed out");
        return;
      }
    }
    this.#timer = setTimeout(() => this.start(), Math.min(10000, 500 * 2 ** this.#tries++));
  }
}
