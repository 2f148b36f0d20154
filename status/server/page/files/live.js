// The stream of events.

import { version } from "./request.js";

// startLive receives the events of the service. on has a function for each kind of event,
// called with its data, and state, called with "live", "reconnecting" or "signed out".
//
// If a connection breaks, the browser connects again by itself and sends the id of the
// last event. If the service answers with an error, the browser gives up, and startLive
// connects again.
export function startLive(on) {
  let last = "";
  let tries = 0;
  function connect() {
    const source = new EventSource("/v1/events?html=true" + (last && "&after=" + encodeURIComponent(last)));
    source.onopen = () => {
      tries = 0;
      on.state("live");
    };
    source.onerror = () => {
      on.state("reconnecting");
      if (source.readyState === EventSource.CLOSED) reconnect();
    };
    for (const kind of ["snapshot", "message", "receipt", "relay", "envelope", "reset"]) {
      source.addEventListener(kind, (e) => {
        if (e.lastEventId) last = e.lastEventId;
        on[kind]?.(JSON.parse(e.data));
      });
    }
  }

  // reconnect finds out why there is no stream, and starts another one later.
  async function reconnect() {
    try {
      await version();
    } catch (problem) {
      if (problem.status === 401) {
        on.state("signed out");
        return;
      }
    }
    setTimeout(connect, Math.min(10000, 500 * 2 ** tries++));
  }
  connect();
}
