// The head of a conversation: who it is with, and what they are doing.

import { escaped, h } from "./dom.js";
import { dot, state } from "./people.js";
import { changesPath, tasksPath } from "./route.js";
import { projects } from "./teams.js";
import { dayOf, flat, timeOf } from "./text.js";

// head returns the head of a conversation in a team; t is undefined if the team has ended.
// status is the member's, and label the name to show for the team.
export function head({ team, member }, t, { status: s, label }) {
  const e = h("div", { class: "head-text" },
    h("h1", { id: "talk-title", tabindex: "-1" }, member === null ? "Everyone" : escaped(member),
      h("span", { class: "in" }, h("span", { class: "unseen" }, t?.sessions ? " in project " : " in team "), h("span", { title: flat(t?.sessions ? s?.cwd ?? "" : team) }, escaped(t?.sessions && s?.cwd ? projects([s]).get(s.cwd) : label)))));
  if (!t) e.append(h("p", { class: "doing" }, "The team has ended. Its history is kept."));
  else if (s) e.append(h("p", { class: "doing" }, dot(s), at(s), state(s), relay(s), way(s)));
  else if (member !== null) e.append(h("p", { class: "doing" }, "Not an agent of this team"));
  else if (t.sessions) e.append(h("p", { class: "doing" }, `${t.members} ${t.members === 1 ? "session" : "sessions"} in no team`));
  else if (t.panes) e.append(h("p", { class: "doing" }, `${t.members} ${t.members === 1 ? "terminal pane" : "terminal panes"}`));
  else e.append(h("p", { class: "doing" }, `${t.members} ${t.members === 1 ? "member" : "members"} · created ${dayOf(new Date(t.createdAt))} ${timeOf(new Date(t.createdAt))}`));
  return e;
}

// links returns links to the tasks of a member or team, and to the files that a member has changed.
export function links({ team, member }, t, s) {
  const list = [];
  const own = s?.taskList && s.taskList !== team; // a session's own list
  if (own || (s?.taskList ?? (member === null && t && !t.panes && !t.sessions && !t.machine)))
    list.push(h("a", { class: "small", href: tasksPath(own ? { session: s.taskList } : { team, owner: member ?? "" }) }, "Tasks"));
  if (s && t && hasFiles(t)) list.push(h("a", { class: "small", href: changesPath(team, member) }, "Changed files"));
  return list;
}

// hasFiles reports whether this machine can have transcripts of a team's agents.
export const hasFiles = (t) => !t.panes && !t.machine;

// at says where a session is, if it can move.
const at = ({ relay: r }) => r?.place ? [h("span", { class: "place" }, r.place.at === "local" ? "at a terminal" : "at its relay"), " "] : null;

// way says how messages reach an agent, and what that way promises.
const way = ({ way, promise }) => (promise ? h("span", { class: "way" }, ` · ${way ? `by ${way}: ` : ""}${flat(promise)}`) : null);

function relay({ relay: r, why }) {
  if (!r) return null;
  const parts = [`relay ${flat(r.state)}`];
  if (r.queue > 0) parts.push(`${r.queue} under way`);
  if (r.deadLetters > 0) parts.push(`⚠ ${r.deadLetters} failed`);
  if (r.reason) parts.push(flat(r.reason));
  const text = h("span", { class: r.state === "dead" || r.deadLetters > 0 ? "warn" : null }, " · " + parts.join(", "));
  if (!r.place) return text;
  return [r.state === "local" ? null : text, moving(r.place, why)];
}

// moving describes the state of a request to move a session, or of a message that moves it,
// unless why does already.
function moving(p, why) {
  if (p.to && p.to !== p.at && p.reason) return why?.includes(p.reason) ? null : h("span", { class: "warn" }, ` · switch held: ${flat(p.reason)}`);
  if (p.to && p.to !== p.at) return h("span", null, " · switching");
  if (p.wanted) return h("span", null, " · switch requested");
  return p.refused ? h("span", { class: "warn" }, ` · switch refused: ${flat(p.refused)}`) : null;
}
