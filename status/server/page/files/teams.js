// The names to show for teams, and the order of their list.

// queued reports whether messages to a team's members wait in teambridge's queue: those to panes and sessions do.
export const queued = (t) => Boolean(t?.panes || t?.sessions);

// labels returns the name to show for each team, by its name: the last part of its directory. If
// two share it, it has the last two parts, or else the last part and the team's name. Teams that
// have ended do not make the labels of others longer.
export function labels(teams) {
  if (known.has(teams)) return known.get(teams);
  const result = new Map(teams.filter((t) => t.sessions).map((t) => [t.team, "no team"]));
  known.set(teams, result);
  for (const list of [teams.filter((t) => !ended(t) && !t.sessions), teams.filter(ended)]) {
    const ways = [
      (t) => last(t, 1) || t.team,
      (t) => last(t, 2) || t.team,
      (t) => (last(t, 1) ? `${last(t, 1)} · ${t.team}` : t.team),
    ];
    let left = list;
    for (const way of ways) {
      const same = groupBy(left, way);
      for (const [label, [t, another]] of same) if (!another || way === ways.at(-1)) result.set(t.team, label);
      left = left.filter((t) => !result.has(t.team));
    }
  }
  return result;
}

// projects returns the names to show for the directories of agents, by their paths.
export const projects = (list) => labels([...new Set(list.map((s) => s.cwd).filter(Boolean))].map((cwd) => ({ team: cwd, cwd })));

const known = new WeakMap(); // labels by the list of teams; each snapshot has one list

// groupBy is Map.groupBy, which older browsers lack.
export function groupBy(list, key) {
  const groups = new Map();
  for (const item of list) {
    const group = groups.get(key(item));
    if (group) group.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}

const last = (t, n) => t.cwd.split(/[\\/]+/).filter(Boolean).slice(-n).join("/");

export const ended = (t) => t.leadState === "gone";

const needs = new Set(["needs-you", "stuck"]);

// agentOf returns the key of the agent that an item is about.
export const agentOf = (a) => keyOf(a.team, a.kind === "unread" ? a.from : a.member);
export const keyOf = (team, member) => team + "\0" + member;

// needing counts, by the keys of order, the agents that need the reader or are stuck, and the items about no listed
// agent, except idle teams and teams without a lead. Home, the list of teams and the title show only these numbers.
export function needing(snapshot) {
  const agents = new Set(snapshot.status.map((s) => keyOf(s.team, s.member)));
  const all = [...snapshot.status.filter((s) => needs.has(s.section)), ...snapshot.attention.filter((a) => !agents.has(agentOf(a)) && a.kind !== "idle" && a.kind !== "ended")];
  const sessions = new Set(snapshot.teams.filter((t) => t.sessions).map((t) => t.team));
  return new Map([...groupBy(all, (s) => (sessions.has(s.team) ? projectKey(s) : s.team))].map(([key, list]) => [key, list.length]));
}

const projectKey = ({ team, cwd }) => team + "\0" + (cwd ?? "");

// total is the sum of what needing counts.
export const total = (counts) => [...counts.values()].reduce((a, b) => a + b, 0);

// order returns the entries of the list of teams: live has the projects of sessions in no team, then running teams;
// over has ended teams. An entry is {key, t, label, title, members}. Teams that need the reader are first, then those
// at work, both the newest first, so that they do not change places with every message; then those last heard.
export function order(snapshot) {
  const waiting = needing(snapshot);
  const heard = new Map();
  const busy = new Set();
  for (const s of snapshot.status) {
    heard.set(s.team, Math.max(heard.get(s.team) ?? 0, Date.parse(s.heard)));
    if (s.word === "working") busy.add(s.team);
  }
  const key = (t) => {
    const created = Date.parse(t.createdAt);
    if (waiting.has(t.team)) return [0, created];
    return busy.has(t.team) ? [1, created] : [2, heard.get(t.team) ?? created];
  };
  const keys = new Map(snapshot.teams.map((t) => [t, key(t)]));
  const sorted = [...snapshot.teams].sort((a, b) => {
    const [x, y] = [keys.get(a), keys.get(b)];
    return x[0] - y[0] || y[1] - x[1] || (a.team < b.team ? -1 : 1);
  });
  const names = labels(snapshot.teams);
  const members = groupBy(snapshot.status, (s) => s.team);
  const entry = (t) => ({ key: t.team, t, label: names.get(t.team), title: [t.team, t.cwd], members: members.get(t.team) ?? [] });
  const sessions = snapshot.teams.filter((t) => t.sessions).flatMap((t) => {
    const own = members.get(t.team) ?? [];
    const dirs = projects(own);
    return [...groupBy(own, projectKey)].map(([key, list]) => ({ key, t, label: dirs.get(list[0].cwd) ?? names.get(t.team), title: [list[0].cwd ?? ""], members: list }));
  }).sort((x, y) => waiting.has(y.key) - waiting.has(x.key) || (x.label < y.label ? -1 : 1));
  return { live: [...sessions, ...sorted.filter((t) => !ended(t) && !t.sessions).map(entry)], over: sorted.filter((t) => ended(t) && !t.sessions).map(entry) };
}
