// What happens, as it happens.

import { version } from "./ask.js";

// Live follows the events of the service. A browser comes again by itself where a
// connection breaks, and names the last event it has seen; where it gives up (the
// service answered, with an error) Live goes on in its place.
export class Live {
  #source = null;
  #last = "";
  #tries = 0;
  #timer = 0;
  #on;

  // on has a function for each kind of event, which gets its data, and state, which
  // is told "live", "reconnecting" or "signed out".
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
      if (source.readyState === EventSource.CLOSED) this.#later();
    };
    for (const kind of ["snapshot", "message", "receipt", "relay", "reset"]) {
      source.addEventListener(kind, (e) => {
        if (e.lastEventId) this.#last = e.lastEventId;
        this.#on[kind]?.(JSON.parse(e.data));
      });
    }
  }

  // later finds out why there is no stream, and begins another one.
  async #later() {
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
