// What comes from the service, in this tab.

import { Stream } from "./stream.js";

// startLive receives the events of the service. on has a function for each kind of event,
// called with its data, and state, called with "connecting", "live", "reconnecting", "paused" or
// "signed out".
export function startLive(on) {
  const event = (kind, data) => on[kind]?.(JSON.parse(data));
  if (globalThis.SharedWorker) share(on, event);
  else own(on, event);
}

const interval = 10000; // ms between two questions whether the worker is there
const mostSilent = 2; // intervals without an answer

// share takes part in the stream of all tabs: see shared.js.
function share(on, event) {
  let port, silent = 0, asked = performance.now();
  function connect() {
    const worker = new SharedWorker("/ui/shared.js", { type: "module", name: "teambridge" });
    const mine = port = worker.port;
    worker.onerror = () => { // there will be none
      if (port !== mine) return;
      stop();
      own(on, event);
    };
    port.onmessage = ({ data }) => {
      if (port !== mine) return;
      silent = 0;
      if (data.state) on.state(data.state);
      if (data.state === "signed out") stop();
      if (data.kind) event(data.kind, data.data);
    };
  }
  function stop() {
    clearInterval(timer);
    port.postMessage("bye");
    port = null;
  }
  // A worker that has ended says nothing more. Nor does any to a tab that the browser has put to
  // sleep, but then the time between two questions is longer, too.
  const timer = setInterval(() => {
    const now = performance.now();
    silent = now - asked < 2 * interval ? silent + 1 : 0;
    asked = now;
    if (silent > mostSilent) {
      silent = 0;
      on.state("reconnecting");
      connect();
      on.reset(); // what came meanwhile
    }
    port.postMessage("there?");
  }, interval);
  connect();
  addEventListener("pagehide", (e) => e.persisted || port?.postMessage("bye"));
}

// own has a stream for this tab only, in browsers without shared workers, which are those of some
// phones. It ends while the tab is hidden, so that not even many tabs use all connections.
function own(on, event) {
  const stream = new Stream({
    event,
    state(now) {
      if (now === "signed out") document.removeEventListener("visibilitychange", show);
      on.state(now);
    },
  });
  const show = () => {
    if (document.visibilityState === "visible") return stream.start();
    stream.stop();
    on.state("paused");
  };
  document.addEventListener("visibilitychange", show);
  show();
}
