// The page: where the reader is, and what comes from the service.

import { markRead, messages, Problem, team as askTeam, version } from "./ask.js";
import { h, setAttr, setText } from "./dom.js";
import { Live } from "./live.js";
import { Outbox } from "./outbox.js";
import { People } from "./people.js";
import { found } from "./search.js";
import { content, Talk } from "./talk.js";
import { flat, short } from "./text.js";

const main = document.getElementById("main");
const words = document.getElementById("words");

let snapshot = null; // {teams, status}, as the service told last
// By team: what it was like when it was asked about, who the reader is in it, what
// is unread, by seq, and what was told while that was asked for.
const persons = new Map(); // {about, detail, unread, meanwhile}
const reaches = new Map(); // why nobody may read a message, by inbox and id
let away = "connecting";

// instance is the number that tells teams of one name apart.
const instance = (t) => Date.parse(t.createdAt);

// world is what a conversation may know of the rest of the page.
const world = {
  readOnly: false,
  outbox: new Outbox(() => talk.pending()),
  // team returns the team of a place while it is there.
  team: ({ team, createdAt }) => snapshot?.teams.find((t) => t.team === team && (t.problem || instance(t) === createdAt)),
  status: ({ team, createdAt, member }) =>
    world.team({ team, createdAt }) && snapshot.status.find((s) => s.team === team && s.member === member),
  person: ({ team, createdAt }) => world.team({ team, createdAt }) && persons.get(team)?.detail,
  // names says who is who: the reader is "you", under whichever name.
  names(place) {
    const ours = world.person(place)?.ours ?? ["user"];
    const mine = (name) => name === "user" || ours.includes(name);
    return { mine, name: (name) => (mine(name) ? "you" : name) };
  },
  reach: (inbox, id) => reaches.get(inbox + "\0" + id),
  arrived: (id) => world.outbox.arrived(id),
  // sent is told what the service answered to what was written.
  sent(answers) {
    for (const a of answers ?? []) {
      if (!a.error && !a.reachable) reaches.set(a.member + "\0" + a.id, reachWords[a.reach] ?? flat(a.reach));
    }
    const place = talk.place;
    const failed = place && world.outbox.of(place.team, place.createdAt, place.member).some((e) => e.code === "read_only");
    if (failed) {
      world.readOnly = true;
      talk.refresh();
    }
  },
  seen,
  later: (f) => waiting.push(f),
};

const reachWords = {
  "not-a-member": "nobody is known to read it", "lead-gone": "the team's lead has ended: nobody may read it",
  "no-relay": "a headless agent without a relay: nobody gives it to it",
  "no-teammate": "it reads its inbox only once it has spawned a teammate", "unread": "its inbox was not read for minutes",
};

const waiting = []; // what was asked for while there was no connection

const people = new People(document.getElementById("people"));
const talk = new Talk(main, world);

// unread counts what was sent to the reader, by a member or (null) in a team.
function unread(team, member) {
  const list = [...(persons.get(team)?.unread.values() ?? [])];
  return member === null ? list.length : list.filter((r) => r.from === member).length;
}

function showPeople() {
  people.show({ snapshot: snapshot ?? undefined, here: talk.place, unread });
  let all = 0;
  for (const t of snapshot?.teams ?? []) all += unread(t.team, null);
  const place = talk.place;
  const title = place ? `${place.member === null ? flat(place.team) : flat(place.member)} · teambridge` : "teambridge";
  document.title = all > 0 ? `(${all}) ${title}` : title;
}

// learn asks who the reader is in a team, and what is unread, where that may have
// changed.
async function learn(t) {
  const about = JSON.stringify([t.createdAt, t.members]);
  const known = persons.get(t.team);
  if (t.problem || known?.about === about) return;
  const person = { about, detail: known?.detail ?? null, unread: known?.unread ?? new Map(), meanwhile: [] };
  persons.set(t.team, person);
  try {
    person.detail = await askTeam(t.team);
    const list = new Map();
    for (const inbox of person.detail.ours) {
      const page = await messages(t.team, { inbox, createdAt: instance(t), limit: 500 });
      for (const r of page.messages) if (!r.read && !r.gone) list.set(r.seq, r);
    }
    for (const { r, there } of person.meanwhile) {
      if (!there) list.delete(r.seq);
      else if (person.detail.ours.includes(r.inbox)) list.set(r.seq, r);
    }
    person.unread = list;
    person.meanwhile = null;
  } catch (problem) {
    person.about = ""; // at the next snapshot again
    person.meanwhile = null;
    if (!(problem instanceof Problem)) throw problem;
  }
  talk.refresh();
  talk.seen();
  showPeople();
}

let learning = Promise.resolve();

function learnAll() {
  learning = learning.then(async () => {
    const here = talk.place?.team;
    for (const t of [...(snapshot?.teams ?? [])].sort((a, b) => (b.team === here) - (a.team === here))) {
      if (t.leadState !== "gone" || t.team === here) await learn(t);
    }
  });
}

// seen marks messages as read that the reader sees.
async function seen(list) {
  const byInbox = Map.groupBy(list, (r) => r.team + "\0" + r.inbox);
  for (const records of byInbox.values()) {
    const { team, inbox } = records[0];
    for (const r of records) {
      r.read = true; // here: they are not marked twice
      persons.get(team)?.unread.delete(r.seq);
    }
    showPeople();
    try {
      await markRead(team, inbox, [...new Set(records.map((r) => r.id))]);
    } catch (problem) {
      if (problem.code === "read_only") {
        world.readOnly = true;
        talk.refresh();
      }
    }
  }
}

// announce tells screen readers.
function announce(text) {
  const told = document.getElementById("told");
  told.append(h("p", null, text));
  while (told.childElementCount > 20) told.firstElementChild.remove();
}

const live = new Live({
  state(state) {
    const was = away;
    away = state;
    const names = { live: "Live", reconnecting: "Reconnecting", "signed out": "Signed out" };
    setAttr(document.getElementById("link"), "data-link", state);
    setText(document.getElementById("link-text"), names[state]);
    if (state === "signed out") signIn(false);
    if (state === "live" && was !== "live") for (const f of waiting.splice(0)) f();
  },
  snapshot(s) {
    const first = snapshot === null;
    snapshot = s;
    if (first) go();
    talk.refresh();
    showPeople();
    learnAll();
  },
  message({ change, message: r }) {
    world.arrived(r.id);
    const place = { team: r.team, createdAt: r.createdAt };
    const tome = !r.noise && world.person(place)?.ours.includes(r.inbox);
    const there = change === "appeared" && !r.read;
    const known = persons.get(r.team);
    if (!there) known?.unread.delete(r.seq);
    else if (tome) known.unread.set(r.seq, r);
    if (!r.noise) known?.meanwhile?.push({ r, there });
    if (change === "appeared" && (tome || talk.place?.member === r.from) && !r.noise) {
      const { label, text } = content(r);
      announce(`${flat(r.from)}${talk.place?.team === r.team ? "" : " in " + flat(r.team)}: ${short([label, text].filter(Boolean).join(", "), 200)}`);
    }
    talk.event(r, change === "appeared");
    showPeople();
  },
  receipt(r) {
    talk.receipt(r);
    if (r.state === "lost") announce(`A message to ${flat(r.member)} is lost`);
    if (r.state === "unknown") announce(`It is not known whether ${flat(r.member)} took a message`);
  },
  relay(r) {
    const fate = { state: r.state ?? "", reason: r.reason, at: r.at ?? new Date().toISOString() };
    if (r.id) talk.relayed(r.team, r.createdAt, r.member ?? r.inbox, r.id, fate);
  },
  reset() {
    persons.clear();
    talk.reload();
    learnAll();
  },
});

// go shows what the address says: #/team/NAME/MEMBER, #/team/NAME for everyone,
// #/search?q=WORDS. of is when the team was made, at the seq of a message.
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
    talk.close();
    words.value = fields.get("q");
    view("main");
    found(main, fields.get("q"), (hit) => {
      const names = world.names(hit);
      const member = names.mine(hit.inbox) ? hit.from : hit.inbox;
      return { member, from: names.name(hit.from), to: names.name(hit.inbox) };
    });
  } else if (parts[0] === "team" && parts[1]) {
    const there = snapshot.teams.find((t) => t.team === parts[1]);
    const createdAt = Number(fields.get("of")) || (there ? instance(there) : 0);
    const at = Number(fields.get("at")) || null;
    view("main");
    words.value = "";
    talk.open({ team: parts[1], createdAt, member: parts[2] || null, at });
    // Where the list is not shown any more, go on at the head.
    if (getComputedStyle(document.getElementById("people")).display === "none") talk.focusHead();
    learnAll();
  } else {
    talk.close();
    view("people");
    words.value = "";
    main.replaceChildren(h("div", { class: "welcome" }, h("img", { src: "/ui/icon.svg", alt: "", width: "56", height: "56" }),
      h("h1", null, "Nobody chosen"), h("p", null, "Choose a member to read and write, or everyone of a team.")));
  }
  showPeople();
}

// view says which half is shown where there is no room for both.
function view(name) {
  document.body.dataset.view = name;
}

function signIn(expired) {
  talk.close();
  document.body.dataset.view = "signed-out";
  main.replaceChildren(h("div", { class: "welcome" }, h("img", { src: "/ui/icon.svg", alt: "", width: "56", height: "56" }),
    h("h1", { tabindex: "-1" }, expired ? "This address is used up" : "Sign in"),
    h("p", null, expired ? "It opens the page once, within a minute. Another one comes from:" : "Open the page from a terminal on this machine:"),
    h("pre", null, h("code", null, "teambridge ui")),
    h("button", { type: "button", class: "send", onclick: () => location.replace("/") }, "Try again")));
  document.title = "Sign in · teambridge";
}

addEventListener("hashchange", () => snapshot && document.body.dataset.view !== "signed-out" && go());
document.addEventListener("visibilitychange", () => talk.seen());
setInterval(() => {
  if (document.visibilityState !== "visible" || !snapshot) return;
  talk.refresh();
  showPeople(); // times go on
}, 30000);

let typing = 0;
function look(now) {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const q = words.value.trim();
    const searching = location.hash.startsWith("#/search");
    if (!q) {
      if (searching) history.back();
      return;
    }
    const to = "#/search?" + new URLSearchParams({ q });
    if (location.hash === to) return;
    if (searching) {
      history.replaceState(null, "", to);
      go();
    } else location.hash = to;
  }, now ? 0 : 300);
}
words.addEventListener("input", () => look(false));
document.getElementById("search").addEventListener("submit", (e) => {
  e.preventDefault();
  look(true);
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
  live.start();
} catch (problem) {
  if (problem.status === 401) {
    setText(document.getElementById("link-text"), "Signed out");
    setAttr(document.getElementById("link"), "data-link", "signed out");
    signIn(location.hash === "#/expired");
  } else live.start();
}
