// The page: which conversation is open, and what comes from the service.

import { Conversation } from "./conversation.js";
import { h, setAttr, setText } from "./dom.js";
import { startLive } from "./live.js";
import { content } from "./message.js";
import { Outbox } from "./outbox.js";
import { People } from "./people.js";
import { markRead, messages, Problem, team as requestTeam, version } from "./request.js";
import { showResults } from "./search.js";
import { flat, short } from "./text.js";
import { isStep } from "./work.js";

const main = document.getElementById("main");
const words = document.getElementById("words");

let snapshot = null; // {teams, status}, the last one of the service
// By team: its version when it was requested, the reader's names in it, the unread
// messages by seq, and the messages that came during the request.
const persons = new Map(); // {about, detail, unread, meanwhile}
const reaches = new Map(); // why nobody may read a message, by inbox and id
let connection = "connecting";

// instance returns the number that tells teams with the same name apart.
const instance = (t) => Date.parse(t.createdAt);

// page is what a conversation needs to know of the rest of the page.
const page = {
  readOnly: false,
  outbox: new Outbox(() => conversation.pending()),
  // team returns the team of a place while it exists.
  team: ({ team, createdAt }) => snapshot?.teams.find((t) => t.team === team && (t.problem || instance(t) === createdAt)),
  status: ({ team, createdAt, member }) =>
    page.team({ team, createdAt }) && snapshot.status.find((s) => s.team === team && s.member === member),
  person: ({ team, createdAt }) => page.team({ team, createdAt }) && persons.get(team)?.detail,
  // names returns the names to show: all names of the reader become "you".
  names(place) {
    const ours = page.person(place)?.ours ?? ["user"];
    const mine = (name) => name === "user" || ours.includes(name);
    return { mine, name: (name) => (mine(name) ? "you" : name) };
  },
  reach: (inbox, id) => reaches.get(inbox + "\0" + id),
  arrived: (id) => page.outbox.arrived(id),
  // sent takes the answers of the service to a posted message.
  sent(answers) {
    for (const a of answers ?? []) {
      if (!a.error && !a.reachable) reaches.set(a.member + "\0" + a.id, reachWords[a.reach] ?? flat(a.reach));
    }
    const place = conversation.place;
    if (place && page.outbox.of(place.team, place.createdAt, place.member).some((e) => e.code === "read_only")) becomeReadOnly();
  },
  seen,
  whenConnected: (f) => waiting.push(f),
};

function becomeReadOnly() {
  page.readOnly = true;
  conversation.refresh();
}

const reachWords = {
  "not-a-member": "not a member: nobody may read it", "lead-gone": "the team's lead has ended: nobody may read it",
  "no-relay": "no relay is running for this headless agent",
  "no-teammate": "it reads its inbox only after it has started a teammate", "unread": "its inbox has not been read for minutes",
};

const waiting = []; // what to do when there is a connection again

const people = new People(document.getElementById("people"));
const conversation = new Conversation(main, page);

// unread counts the unread messages to the reader from a member, or in a team for null.
function unread(team, member) {
  const list = [...(persons.get(team)?.unread.values() ?? [])];
  return member === null ? list.length : list.filter((r) => r.from === member).length;
}

function showPeople() {
  people.show({ snapshot: snapshot ?? { teams: [], status: [] }, here: conversation.place, unread });
  let all = 0;
  for (const t of snapshot?.teams ?? []) all += unread(t.team, null);
  const place = conversation.place;
  const title = place ? `${flat(place.member ?? place.team)} · teambridge` : "teambridge";
  document.title = all > 0 ? `(${all}) ${title}` : title;
}

// loadPerson requests the reader's names in a team and the unread messages, if they may
// have changed.
async function loadPerson(t) {
  const about = JSON.stringify([t.createdAt, t.members]);
  const known = persons.get(t.team);
  if (t.problem || known?.about === about) return;
  const person = { about, detail: known?.detail ?? null, unread: known?.unread ?? new Map(), meanwhile: [] };
  persons.set(t.team, person);
  try {
    person.detail = await requestTeam(t.team);
    const list = new Map();
    for (const inbox of person.detail.ours) {
      const found = await messages(t.team, { inbox, createdAt: instance(t), limit: 500 });
      for (const r of found.messages) if (!r.read && !r.gone && !r.work) list.set(r.seq, r);
    }
    for (const { r, there } of person.meanwhile) {
      if (!there) list.delete(r.seq);
      else if (person.detail.ours.includes(r.inbox)) list.set(r.seq, r);
    }
    person.unread = list;
  } catch (problem) {
    person.about = ""; // try again at the next snapshot
    if (!(problem instanceof Problem)) throw problem;
  } finally {
    person.meanwhile = null;
  }
  conversation.refresh();
  conversation.seen();
  showPeople();
}

let loading = Promise.resolve();

function loadPersons() {
  loading = loading.then(async () => {
    const here = conversation.place?.team;
    for (const t of [...(snapshot?.teams ?? [])].sort((a, b) => (b.team === here) - (a.team === here))) {
      if (t.leadState !== "gone" || t.team === here) await loadPerson(t);
    }
  });
}

// seen marks messages as read that the reader has seen.
async function seen(list) {
  const byInbox = Map.groupBy(list, (r) => r.team + "\0" + r.inbox);
  for (const records of byInbox.values()) {
    const { team, inbox } = records[0];
    for (const r of records) {
      r.read = true; // so that it is not marked twice
      persons.get(team)?.unread.delete(r.seq);
    }
    showPeople();
    try {
      await markRead(team, inbox, [...new Set(records.map((r) => r.id))]);
    } catch (problem) {
      if (problem.code === "read_only") becomeReadOnly();
    }
  }
}

// announce has screen readers say a text.
function announce(text) {
  const log = document.getElementById("announcements");
  log.append(h("p", null, text));
  while (log.childElementCount > 20) log.firstElementChild.remove();
}

const handlers = {
  state(state) {
    const before = connection;
    connection = state;
    const names = { live: "Live", reconnecting: "Reconnecting", "signed out": "Signed out" };
    setAttr(document.getElementById("link"), "data-link", state);
    setText(document.getElementById("link-text"), names[state]);
    if (state === "signed out") signIn(location.hash === "#/expired");
    if (state === "live" && before !== "live") for (const f of waiting.splice(0)) f();
  },
  snapshot(s) {
    const first = snapshot === null;
    snapshot = s;
    if (first) go();
    conversation.refresh();
    showPeople();
    loadPersons();
  },
  message({ change, message: r }) {
    page.arrived(r.id);
    const place = { team: r.team, createdAt: r.createdAt };
    const tome = !r.noise && page.person(place)?.ours.includes(r.inbox);
    const there = change === "appeared" && !r.read;
    const known = persons.get(r.team);
    if (!there) known?.unread.delete(r.seq);
    else if (tome) known.unread.set(r.seq, r);
    if (!r.noise) known?.meanwhile?.push({ r, there });
    if (change === "appeared" && (tome || conversation.place?.member === r.from) && !r.noise) {
      const { label, text } = content(r);
      announce(`${flat(r.from)}${conversation.place?.team === r.team ? "" : " in " + flat(r.team)}: ${short([label, text].filter(Boolean).join(", "), 200)}`);
    }
    conversation.event(r, change === "appeared");
    showPeople();
  },
  envelope({ seq, record: r }) {
    if (!r) return; // a conversation does not show it
    const fresh = conversation.work(r, r.seq === seq);
    if (fresh && !isStep(r)) announce(`${flat(r.from)}: ${short(r.text, 200)}`);
  },
  receipt(r) {
    conversation.receipt(r);
    if (r.state === "lost") announce(`A message to ${flat(r.member)} was lost`);
    if (r.state === "unknown") announce(`A message to ${flat(r.member)} may not have been received`);
  },
  relay(r) {
    const fate = { state: r.state ?? "", reason: r.reason, at: r.at ?? new Date().toISOString() };
    if (r.id) conversation.relayed(r.team, r.createdAt, r.member ?? r.inbox, r.id, fate);
  },
  reset() {
    persons.clear();
    conversation.reload();
    loadPersons();
  },
};

// go shows what the URL names: #/team/NAME/MEMBER, #/team/NAME for everyone, or
// #/search?q=WORDS. of is when the team was created, and at the seq of a message.
function go() {
  const [path, query] = location.hash.slice(1).split("?");
  const fields = new URLSearchParams(query);
  let parts;
  try {
    parts = path.split("/").slice(1).map(decodeURIComponent);
  } catch {
    parts = [];
  }
  if (path === "/expired") history.replaceState(null, "", "/");
  if (parts[0] === "search" && fields.get("q")) {
    conversation.close();
    words.value = fields.get("q");
    document.body.dataset.view = "main";
    showResults(main, fields.get("q"), (hit) => {
      const names = page.names(hit);
      const member = names.mine(hit.inbox) ? hit.from : hit.inbox;
      return { member, from: names.name(hit.from), to: names.name(hit.inbox) };
    });
  } else if (parts[0] === "team" && parts[1]) {
    const there = snapshot.teams.find((t) => t.team === parts[1]);
    const createdAt = Number(fields.get("of")) || (there ? instance(there) : 0);
    const at = Number(fields.get("at")) || null;
    document.body.dataset.view = "main";
    words.value = "";
    conversation.open({ team: parts[1], createdAt, member: parts[2] || null, at });
    // If the list is no longer shown, focus the head.
    if (getComputedStyle(document.getElementById("people")).display === "none") document.getElementById("talk-title")?.focus();
    loadPersons();
  } else {
    conversation.close();
    document.body.dataset.view = "people"; // the half that a narrow screen shows
    words.value = "";
    showWelcome("No conversation selected", h("p", null, "Select a member, or everyone in a team, to read and send messages."));
  }
  showPeople();
}

function showWelcome(title, ...content) {
  main.replaceChildren(h("div", { class: "welcome" }, h("img", { src: "/ui/icon.svg", alt: "", width: "56", height: "56" }), h("h1", null, title), content));
}

function signIn(expired) {
  conversation.close();
  document.body.dataset.view = "signed-out";
  showWelcome(expired ? "This link has expired" : "Sign in",
    h("p", null, expired ? "A link works once, for one minute. For a new one, run:" : "To open this page, run on this machine:"),
    h("pre", null, h("code", null, "teambridge ui")),
    h("button", { type: "button", class: "send", onclick: () => location.replace("/") }, "Try again"));
  document.title = "Sign in · teambridge";
}

addEventListener("hashchange", () => snapshot && document.body.dataset.view !== "signed-out" && go());
document.addEventListener("visibilitychange", () => conversation.seen());
setInterval(() => {
  if (document.visibilityState !== "visible" || !snapshot) return;
  conversation.refresh();
  showPeople(); // to update the times
}, 30000);

let searchTimer = 0;
function startSearch(now) {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => {
    const q = words.value.trim();
    const searching = location.hash.startsWith("#/search");
    const to = "#/search?" + new URLSearchParams({ q });
    if (!q) {
      if (searching) history.back();
    } else if (searching && location.hash !== to) {
      history.replaceState(null, "", to);
      go();
    } else location.hash = to;
  }, now ? 0 : 300);
}
words.addEventListener("input", () => startSearch(false));
document.getElementById("search").addEventListener("submit", (e) => {
  e.preventDefault();
  startSearch(true);
});
addEventListener("keydown", (e) => {
  const writing = e.target.closest?.("input, textarea, select");
  if (e.key === "/" && !writing && !e.ctrlKey && !e.metaKey && !e.altKey) {
    e.preventDefault();
    words.focus();
    words.select();
  }
});

try {
  await version();
  startLive(handlers);
} catch (problem) {
  if (problem.status === 401) handlers.state("signed out");
  else startLive(handlers);
}
