// The stream of events for all tabs, as a shared worker. With a stream each, six tabs would use
// all connections that a browser opens to a service, and nothing else could be requested.

import { Stream } from "./stream.js";

const tabs = new Set(); // their ports
let state = "";
let snapshot = null; // the last one, as text, for tabs that come later

const tell = (message) => {
  for (const port of tabs) port.postMessage(message);
};
const stream = new Stream({
  state(now) {
    state = now;
    tell({ state });
  },
  event(kind, data) {
    if (kind === "snapshot") snapshot = data;
    tell({ kind, data });
  },
});

globalThis.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data === "bye") tabs.delete(port);
    else port.postMessage({}); // a sign of life
  };
  if (state === "" || state === "signed out") { // a new tab is signed in
    [state, snapshot] = ["connecting", null];
    stream.start();
  }
  tabs.add(port);
  port.postMessage({ state });
  if (snapshot !== null) port.postMessage({ kind: "snapshot", data: snapshot });
};
