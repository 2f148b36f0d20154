// The URLs of the page: what a hash names, and the hash of a view.
//
//	#/                        what needs the reader
//	#/teams                   the same; on a narrow screen the list of teams
//	#/team/NAME/MEMBER        a conversation, or with everyone without MEMBER. of is when
//	                          the team was created, and at the seq of a message to show;
//	                          write is there if the reader is going to write
//	#/changes/TEAM/MEMBER     the files that an agent has changed; days is since when
//	#/search?q=WORDS          messages
//	#/tasks?team=NAME         the tasks of a team or session, or of all; owner is whose

// parse returns {view, …} for a hash. The view of an unknown one is "nothing".
export function parse(hash) {
  const [path, query] = hash.replace(/^#/, "").split("?");
  const fields = Object.fromEntries(new URLSearchParams(query));
  let parts;
  try {
    parts = path.split("/").slice(1).map(decodeURIComponent);
  } catch {
    return { view: "nothing" };
  }
  const [first = "", team, member, ...rest] = parts;
  if (rest.length > 0) return { view: "nothing" };
  if (path === "" || path === "/") return { view: "home" };
  if (path === "/teams") return { view: "home", list: true };
  if (path === "/expired") return { view: "home", expired: true };
  if (path === "/search" || path === "/tasks") return { view: first, fields };
  if (first === "changes" && team && member) return { view: "changes", team, member, fields };
  if (first === "team" && team) {
    return { view: "conversation", team, member: member || null, createdAt: Number(fields.of) || 0, at: Number(fields.at) || null, write: Boolean(fields.write) };
  }
  return { view: "nothing" };
}

const encoded = (fields) => {
  const text = new URLSearchParams(Object.entries(fields).filter(([, value]) => (value ?? "") !== "")).toString();
  return text && "?" + text;
};

// pathTo returns the hash of a conversation; member is null for everyone.
export const pathTo = (team, member, fields = {}) =>
  "#/team/" + encodeURIComponent(team) + (member === null ? "" : "/" + encodeURIComponent(member)) + encoded(fields);

export const changesPath = (team, member, fields = {}) => `#/changes/${encodeURIComponent(team)}/${encodeURIComponent(member)}` + encoded(fields);
export const tasksPath = (fields) => "#/tasks" + encoded(fields);
export const searchPath = (fields) => "#/search" + encoded(fields);
