// The filter of the messages of a team: all, or those of one kind.

import { notice } from "./notice.js";

export const filters = { all: "All messages", me: "To me", agents: "Between agents", work: "Finished work" };

const name = (team) => "teambridge:filter:" + team; // in localStorage

export function filterOf(team) {
  const kept = localStorage.getItem(name(team));
  return Object.hasOwn(filters, kept ?? "") ? kept : "all";
}

export function keepFilter(team, filter) {
  try {
    if (filter === "all") localStorage.removeItem(name(team));
    else localStorage.setItem(name(team), filter);
  } catch { /* no space: it lasts until the conversation is closed */ }
}

// passes reports whether a filter shows an item. mine reports whether a name is the reader's.
export function passes(filter, { records: [r] }, mine) {
  switch (filter) {
    case "me":
      return !r.work && (Boolean(r.answer) || (mine(r.inbox) && !mine(r.from)));
    case "agents":
      return !r.work && !r.answer && !mine(r.inbox) && !mine(r.from) && notice(r) === null;
    case "work": // the results of agents, and their failures
      return Boolean(r.answer) || r.kind === "turn" || (r.kind === "idle_notification" && notice(r) === null);
    default:
      return true;
  }
}
