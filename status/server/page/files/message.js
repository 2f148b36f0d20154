// How a message is shown: its time, its content, and its state.

import { flat, json, short, wholeTime } from "./text.js";

const longText = 4000; // characters
const longLines = 60;

// when returns the time of a message: its timestamp, unless that cannot be right.
export function when(r) {
  const seen = new Date(r.firstSeen);
  const sent = new Date(r.timestamp);
  return sent <= seen ? sent : seen; // the comparison is false if timestamp is not a time
}

// mayBeLong reports whether a text may be too high to be shown in full at first.
export const mayBeLong = (text) => text.length > 1000 || text.split("\n", 15).length === 15;

// beginning returns the part of a long text that is shown at first.
export function beginning(text) {
  let end = Math.min(text.length, longText);
  let at = -1;
  for (let n = 0; n < longLines && at < end; n++) {
    at = text.indexOf("\n", at + 1);
    if (at < 0) at = end;
  }
  end = Math.min(end, at);
  // Nothing is cut for the sake of a few characters.
  return text.length - end < 200 ? text : text.slice(0, end).toWellFormed();
}

const values = new WeakMap(); // parsed texts, by record

// parsed returns the value of a record whose text is JSON; null if it is not.
export function parsed(r) {
  const { text, value } = values.get(r) ?? {};
  if (text === r.text) return value;
  let now = null;
  try {
    now = JSON.parse(r.text);
  } catch { /* the text is shown instead */ }
  values.set(r, { text: r.text, value: now });
  return now;
}

const described = new WeakMap(); // what describe returned, by record

// content returns the parts of a message to show. Known structured texts are described in
// words; others are shown as JSON.
export function content(r) {
  if (r.work) return { label: r.kind === "text" ? "" : kindOf(r), text: r.text };
  if (r.answer) return { label: "answer", text: r.answer.truncated ? r.text + "\n[truncated]" : r.text };
  if (r.kind === "message") return { summary: r.summary, text: r.text };
  const known = described.get(r);
  if (known?.of === r.text) return known.content;
  const content = describe(r, parsed(r));
  described.set(r, { of: r.text, content });
  return content;
}

const kindOf = (r) => short(r.kind.replaceAll("_", " "), 60);

const mostJSON = 200000; // characters; a longer text is shown as it is

const idleReasons = new Map([["failed", "⚠ failed"], ["interrupted", "interrupted"]]);

function describe(r, o) {
  const text = (v) => (typeof v === "string" ? v : "");
  switch (o && r.kind) {
    case "idle_notification":
      return {
        label: idleReasons.get(o.idleReason) ?? (text(o.result) ? "finished" : "idle"),
        summary: text(o.summary), text: text(o.result) || text(o.failureReason),
      };
    case "shutdown_request":
      return { label: "shutdown request", text: text(o.reason) };
    case "shutdown_approved":
      return { label: "shutting down", text: "" };
    case "shutdown_rejected":
      return { label: "declined to shut down", text: text(o.reason) };
    case "teammate_terminated":
      return { label: "ended", text: text(o.message) };
    case "task_assignment":
      return { label: "task", summary: text(o.subject), text: text(o.description) };
    case "permission_request":
      return { label: "asks permission", summary: text(o.tool_name), text: text(o.description) || (o.input === undefined ? "" : json(o.input)) };
    case "plan_approval_request":
      return { label: "plan", text: text(o.planContent) };
    default:
      return { label: kindOf(r), summary: r.summary, text: o && r.text.length <= mostJSON ? json(o) : r.text, raw: true };
  }
}

// tick returns the mark of the word for a message's state.
export const tick = (word) => ({ sending: "…", waiting: "…", sent: "✓", received: "✓✓", seen: "✓✓✓", done: "✓✓✓" })[word] ?? "⚠";

// fate returns the state of a message that the reader sent: the service's word for it, the reason, and the time.
export function fate(r) {
  const at = (t) => (t ? wholeTime(new Date(t)) : "");
  if (r.relay?.pane) return { word: r.relay.word, why: r.relay.why, title: at(r.relay.at) };
  const { word, why, lostAt, seenAt, consumedAt, verifiedAt } = r.receipt ?? {};
  if (word === "seen") return { word, title: `seen by the model at ${at(seenAt)}` };
  if (word && word !== "sent") return { word, why, title: at(lostAt ?? consumedAt) };
  if (r.read) return { word: "received", title: at(r.readAt) };
  // The agent has probably taken it, but another program may have overwritten it.
  if (r.gone) return { word: "sent", more: " (not tracked)", title: at(r.goneAt) };
  return { word: "sent", title: verifiedAt ? `in the inbox at ${at(verifiedAt)}` : "" };
}

// again says what happens if the reader sends a failed or uncertain message again, or gives it up.
export const again = {
  retry: "It is sent again: if the agent has it already, it gets it twice",
  drop: "It is never sent to the agent",
};

// outcome returns the word for a message's state, and the reason.
export const outcome = ({ word, why }) => flat(word) + (why ? `: ${flat(why)}` : "");
