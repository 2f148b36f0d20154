// The places that the reader can open, and those that were opened last.

import { pathTo } from "./route.js";
import { ended, order } from "./teams.js";

const recentKey = "teambridge:recent", mostRecent = 30; // in localStorage: the conversations last opened, as JSON

// recent returns the paths of the conversations last opened, the last one first.
export function recent() {
  try {
    return JSON.parse(localStorage.getItem(recentKey)) ?? [];
  } catch {
    return [];
  }
}

// opened notes that a conversation was opened.
export function opened(team, member) {
  const path = pathTo(team, member);
  try {
    localStorage.setItem(recentKey, JSON.stringify([path, ...recent().filter((p) => p !== path)].slice(0, mostRecent)));
  } catch { /* no space: the order is that of the list */ }
}

// places returns the places to open: Home, and the conversations of each team, in the order of
// the list of teams.
export function places({ snapshot, reader }) {
  const { live, over } = order(snapshot);
  const list = [{ path: "#/", name: "Home", team: "", face: "⌂" }];
  for (const { t, label, members } of [...live, ...over]) {
    const common = { team: label, own: t.team, over: ended(t) };
    if (!t.sessions) list.push({ ...common, path: pathTo(t.team, null), name: "Everyone", face: "∗" });
    for (const s of members) list.push({ ...common, path: pathTo(s.team, s.member), name: s.member, status: s, unread: reader.unread(s.team, s.member) });
  }
  return list;
}
