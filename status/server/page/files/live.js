// Receives the events of the service in this tab.

import { Stream } from "./stream.js";

// startLive receives the events of the service. on has a function for each kind of event,
// called with its data, and state, called with "connecting", "live", "reconnecting", "paused" or
// "signed out".
export function startLive(on) {
  const event = (kind, data) => on[kind]?.(JSON.parse(data));
  if (globalThis.SharedWorker) share(on, event);
  else own(on, event);
}

const interval = 10000; // ms between two requests to the worker for a sign of life
const mostSilent = 2; // intervals without an answer

// share uses the stream that all tabs share: see shared.js.
function share(on, event) {
  let port, silent = 0, asked = performance.now();
  function connect() {
    const worker = new SharedWorker("/ui/shared.js", { type: "module", name: "teambridge" });
    const mine = port = worker.port;
    worker.onerror = () => { // shared workers do not work here
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
  // A worker that has ended does not answer. Nor does a suspended tab get answers, but then the
  // time between two requests is longer, too.
  const timer = setInterval(() => {
    const now = performance.now();
    silent = now - asked < 2 * interval ? silent + 1 : 0;
    asked = now;
    if (silent > mostSilent) {
      silent = 0;
      on.state("reconnecting");
      connect();
      on.reset(); // events may have been missed
    }
    port.postMessage("there?");
  }, interval);
  connect();
  addEventListener("pagehide", (e) => e.persisted || port?.postMessage("bye"));
}

// own opens a stream for this tab only, in browsers without shared workers, such as those of some
// phones. It ends while the tab is hidden, so that many tabs do not use all connections.
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
