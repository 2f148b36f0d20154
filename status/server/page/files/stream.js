// The stream of events of the service.

import { version } from "./request.js";

// Stream receives the events of the service, between start and stop. event is called with the
// kind of each and its data as text, and state with "live", "reconnecting" or "signed out".
//
// If a connection breaks, the browser connects again by itself and sends the id of the
// last event. If the service answers with an error, the browser gives up, and Stream
// connects again.
export class Stream {
  #on;
  #source = null;
  #last = "";
  #tries = 0;
  #timer = 0;

  constructor(on) {
    this.#on = on;
  }

  start() {
    this.stop();
    const source = this.#source = new EventSource("/v1/events" + (this.#last && "?after=" + encodeURIComponent(this.#last)));
    source.onopen = () => {
      this.#tries = 0;
      this.#on.state("live");
    };
    source.onerror = () => {
      this.#on.state("reconnecting");
      if (source.readyState === EventSource.CLOSED) this.#again(source);
    };
    for (const kind of ["snapshot", "message", "receipt", "relay", "envelope", "reset"]) {
      source.addEventListener(kind, (e) => {
        if (e.lastEventId) this.#last = e.lastEventId;
        this.#on.event(kind, e.data);
      });
    }
  }

  stop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  // again finds out why there is no stream, and starts another one later.
  async #again(source) {
    let out = false;
    try {
      await version();
    } catch (problem) {
      out = problem.status === 401;
    }
    if (this.#source !== source) return; // it was stopped
    if (out) this.#on.state("signed out");
    else this.#timer = setTimeout(() => this.start(), Math.min(10000, 500 * 2 ** this.#tries++));
  }
}
