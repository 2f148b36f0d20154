// The words of notices: an agent went idle, was given a task, or ends.

import { parsed } from "./message.js";
import { short } from "./text.js";

// notice returns the parts of a notice, {who, did, about, more}: a name, what happened, its subject
// on one line, and further text. It returns null for a message to read in full.
export function notice(r) {
  if (r.kind === "message" || r.work || r.answer) return null;
  const o = parsed(r);
  if (!o) return null;
  const text = (v) => (typeof v === "string" ? v.trim() : "");
  const told = (who, did, about, more) => ({ who, did, about: text(about), more: text(more) });
  switch (r.kind) {
    case "idle_notification":
      if (text(o.result) || text(o.failureReason) || text(o.idleReason) === "failed") return null;
      return told(r.from, text(o.idleReason) === "interrupted" ? "was interrupted" : "went idle", o.summary);
    case "task_assignment":
      return told(r.inbox, `was given a task by ${short(text(o.assignedBy) || r.from, 100)}`, o.subject, o.description);
    case "shutdown_request":
      return told(r.inbox, "was asked to shut down", o.reason);
    case "shutdown_approved":
      return told(r.from, "shuts down");
    case "shutdown_rejected":
      return told(r.from, "declined to shut down", o.reason);
    case "teammate_terminated":
      return told(r.from, "ended", o.message);
    default:
      return null;
  }
}

// summaryOf describes notices in one line, such as "worker and tester went idle 14 times · reviewer
// was given a task by team-lead". name returns the name to show.
export function summaryOf(list, name) {
  const groups = new Map(); // names by what happened
  for (const { who, did } of list) {
    if (!groups.has(did)) groups.set(did, []);
    groups.get(did).push(name(who));
  }
  return [...groups].map(([did, names]) => {
    const all = [...new Set(names)];
    const times = names.length > all.length ? ` ${names.length} times` : "";
    if (all.length > 4) all.splice(3, all.length, `${all.length - 3} others`);
    const many = all.length > 1 || all[0] === "you";
    return `${all.length > 1 ? `${all.slice(0, -1).join(", ")} and ${all.at(-1)}` : all[0]} ${many ? did.replace(/^was /, "were ") : did}${times}`;
  }).join(" · ");
}
