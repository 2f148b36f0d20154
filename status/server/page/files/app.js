// The page: opens the view that the URL names, and passes the events of the service to the views.

import { Cards } from "./cards.js";
import { commands } from "./commands.js";
import { Controls } from "./controls.js";
import { Conversation } from "./conversation.js";
import { h, setAttr, setText } from "./dom.js";
import { Empty } from "./empty.js";
import { Home } from "./home.js";
import { startKeys } from "./keys.js";
import { Later, later } from "./later.js";
import { startLive } from "./live.js";
import { content } from "./message.js";
import { Notifier } from "./notify.js";
import { Outbox } from "./outbox.js";
import { People } from "./people.js";
import { instance, Reader } from "./reader.js";
import { Relays } from "./relays.js";
import { messages, version } from "./request.js";
import { opened } from "./places.js";
import { parse } from "./route.js";
import { startSearchBox } from "./searchbox.js";
import { labels, needing, total } from "./teams.js";
import { cut, flat, gist, short } from "./text.js";
import { isStep } from "./work.js";

const main = document.getElementById("main");
const words = document.getElementById("words");
const narrow = matchMedia("(max-width: 719px)"); // as in media.css

const mostName = 100; // characters; a row may name any sender
const reaches = new Map(); // why a message may never be read, by inbox and id
const waiting = []; // functions to call once the connection is back
let connection = "connecting";

const reader = new Reader({
  readOnly: becomeReadOnly,
  changed() {
    refreshSoon();
    conversation.seen();
  },
  late(r) {
    if (conversation.place?.member !== r.from) announceMessage(r);
    page.notifier.message(r);
  },
});

// page has what the views share.
const page = {
  snapshot: null, // {teams, status, attention}, as the service last sent it
  reader,
  readOnly: false,
  relays: new Relays(refresh),
  notifier: new Notifier(announce, (team) => page.label(team)),
  beforeSearch: "#/", // the hash before the search was opened
  get narrow() {
    return narrow.matches;
  },
  outbox: new Outbox(() => conversation.pending()),
  // team returns the team of a place while it exists.
  team: ({ team, createdAt }) => page.snapshot?.teams.find((t) => t.team === team && (t.problem || instance(t) === createdAt)),
  // label returns the name to show for a team.
  label: (team) => labels(page.snapshot.teams).get(team) ?? team,
  status: ({ team, createdAt, member }) =>
    page.team({ team, createdAt }) && page.snapshot.status.find((s) => s.team === team && s.member === member),
  person: ({ team, createdAt }) => page.team({ team, createdAt }) && reader.detail(team),
  // names returns functions that tell the reader's names apart and map names to what is shown:
  // the reader's become "you". recorded has those that the messages name, for an ended team.
  names(place, recorded) {
    const ours = page.person(place)?.ours ?? recorded ?? ["user"];
    const mine = (name) => name === "user" || ours.includes(name);
    return { mine, name: (name) => (mine(name) ? "you" : cut(name, mostName)) };
  },
  reach: (inbox, id) => reaches.get(inbox + "\0" + id),
  arrived: (id) => page.outbox.arrived(id),
  // sent processes the service's answers to a posted message.
  sent(answers) {
    for (const a of answers ?? []) {
      if (!a.error && !a.reachable) reaches.set(a.member + "\0" + a.id, flat(a.reachWhy ?? ""));
    }
    const place = conversation.place;
    if (place && page.outbox.of(place.team, place.createdAt, place.member).some((e) => e.code === "read_only")) becomeReadOnly();
  },
  seen: (list) => reader.seen(list),
  whenConnected: (f) => waiting.push(f),
  refresh,
  announce,
};

function becomeReadOnly() {
  page.readOnly = true;
  refresh();
}

page.cards = new Cards(page);
page.controls = new Controls(page);

const people = new People(document.getElementById("people"));
const conversation = new Conversation(main, page);
const empty = new Empty(main);

// The views. Each draws into main: open(route) draws the route that parse returned, and refresh
// the changes of page. close is called before another view is opened.
const views = {
  home: new Home(main, page), conversation, nothing: empty, "no team": empty, "signed out": empty,
  changes: new Later(main, "Changed files", later(() => import("./changes.js"), "diff.css", "changes.css"), ({ Changes }) => new Changes(main, page, go)),
  tasks: new Later(main, "Tasks", later(() => import("./tasks.js"), "tasks.css"), ({ Tasks }) => new Tasks(main, page, go)),
  search: new Later(main, "Search", later(() => import("./search.js"), "search.css"), ({ Search }) => new Search(main, page, go)),
};
let route = { view: "nothing" };

function refresh() {
  clearTimeout(soon);
  soon = 0;
  if (!page.snapshot || route.view === "signed out") return;
  views[route.view].refresh();
  showPeople();
}

const gather = 100; // ms; changes in quick succession are shown together
let soon = 0;

function refreshSoon() {
  soon ||= setTimeout(refresh, gather);
}

function showPeople() {
  const unread = (team, member) => reader.unread(team, member);
  const counts = needing(page.snapshot);
  const all = total(counts);
  people.show({ snapshot: page.snapshot, home: route.view === "home", here: conversation.place, counts, unread });
  const place = conversation.place;
  const title = place ? `${flat(place.member ?? place.team)} · teambridge` : "teambridge";
  const counted = all > 0 ? `(${all}) ${title}` : title;
  if (document.title !== counted) document.title = counted;
}

function loadReader() {
  const here = conversation.place?.team;
  reader.load(page.snapshot.teams.filter((t) => t.leadState !== "gone" || t.team === here).sort((a, b) => (b.team === here) - (a.team === here)));
}

// announce makes screen readers read a text aloud.
function announce(text) {
  const log = document.getElementById("announcements");
  log.append(h("p", null, text));
  while (log.childElementCount > 20) log.firstElementChild.remove();
}

// announceMessage makes screen readers read who wrote a message, and how it begins.
function announceMessage(r) {
  const { label, text } = content(r);
  announce(`${flat(r.from)}${conversation.place?.team === r.team ? "" : " in " + flat(page.label(r.team))}: ${short([label, gist(text)].filter(Boolean).join(", "), 200)}`);
}

const handlers = {
  state(state) {
    const before = connection;
    connection = state;
    const names = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", paused: "Paused", "signed out": "Signed out" };
    setAttr(document.getElementById("link"), "data-link", state);
    setText(document.getElementById("link-text"), names[state]);
    if (state === "signed out") open({ view: "signed out", expired: parse(location.hash).expired });
    if (state === "live" && before !== "live") for (const f of waiting.splice(0)) f();
  },
  snapshot(s) {
    const first = page.snapshot === null;
    page.snapshot = s;
    page.notifier.snapshot(s);
    page.relays.refresh(s);
    if (first) go();
    else refresh();
    loadReader();
  },
  message({ change, message: r }) {
    page.arrived(r.id);
    const tome = reader.message(r, change === "appeared" && !r.read);
    if (change === "appeared" && (tome || conversation.place?.member === r.from) && !r.noise) announceMessage(r);
    if (change === "appeared" && tome && !r.noise && !r.read) page.notifier.message(r);
    conversation.event(r, change === "appeared");
    refreshSoon();
  },
  envelope({ seq, record: r }) {
    if (!r) return; // no conversation shows such an envelope
    const fresh = conversation.work(r, r.seq === seq);
    if (fresh && !isStep(r)) announce(`${flat(r.from)}: ${short(gist(r.text), 200)}`);
  },
  receipt(r) {
    conversation.receipt(r);
    if (r.state === "lost") announce(`A message to ${flat(r.member)} was lost`);
    if (r.state === "unknown") announce(`A message to ${flat(r.member)} may not have been delivered`);
  },
  relay(r) {
    if (r.state === "written") page.relays.load(); // the message may have changed the settings
    if (r.id) conversation.relayed(r.team, r.createdAt, r.member, r.id, r);
  },
  reset() {
    reader.clear();
    conversation.reload();
    loadReader();
  },
};

// goTo opens a path and moves the focus to its title.
function goTo(path) {
  moveFocus = true;
  if ((location.hash || "#/") === path) go();
  else location.hash = path;
}

let moveFocus = false;
let turns = 0; // the number of the current URL; answers to requests for earlier ones are ignored

// go opens the view that the URL names.
async function go() {
  const turn = ++turns;
  const to = parse(location.hash);
  if (to.expired) history.replaceState(null, "", "/");
  if (to.view === "conversation") {
    const there = page.snapshot.teams.find((t) => t.team === to.team);
    to.createdAt ||= there ? instance(there) : 0;
    if (!page.team(to)) {
      const createdAt = await recorded(to);
      if (turn !== turns) return;
      if (createdAt === null) to.view = "no team";
      else to.createdAt = createdAt;
    }
  }
  open(to);
}

// recorded returns when a team that no longer exists was created; null if nothing of it is
// recorded.
async function recorded({ team, createdAt }) {
  try {
    const { messages: [r] } = await messages(team, { createdAt: createdAt || undefined, limit: 1 });
    return r?.createdAt ?? createdAt;
  } catch (problem) {
    return problem.status === 404 ? null : createdAt; // the conversation reports other problems
  }
}

function open(to) {
  moveFocus ||= document.activeElement === main.querySelector("h1"); // also if two changes of the URL open one view twice
  if (views[to.view] !== views[route.view]) views[route.view].close();
  route = to;
  // The half that a narrow screen shows.
  document.body.dataset.view = to.view === "signed out" ? "signed-out" : to.list ? "people" : "main";
  // Words that are being typed are newer than the URL.
  if (to.view !== "search") words.value = "";
  else if (document.activeElement !== words) words.value = to.fields.q ?? "";
  views[to.view].open(to);
  if (to.view !== "search") page.beforeSearch = location.hash || "#/";
  if (to.view === "signed out") {
    document.title = "Sign in · teambridge";
    return;
  }
  // On a narrow screen, the list that had the focus is no longer shown.
  if (moveFocus || (narrow.matches && !to.list && document.activeElement !== words)) main.querySelector("h1")?.focus();
  moveFocus = false;
  showPeople();
  if (to.view !== "conversation") return;
  loadReader();
  opened(to.team, to.member);
}

addEventListener("hashchange", () => page.snapshot && route.view !== "signed out" && go());
document.addEventListener("visibilitychange", () => conversation.seen());
setInterval(() => {
  if (document.visibilityState === "visible") refresh(); // to update the times
}, 30000);

const actions = commands(main, page, goTo);
startKeys(actions);
document.getElementById("switch").addEventListener("click", actions.switch);
document.getElementById("help").addEventListener("click", actions.help);
startSearchBox(words, { fields: () => (route.view === "search" ? route.fields : null), go, goTo });

try {
  await version();
  startLive(handlers);
} catch (problem) {
  if (problem.status === 401) handlers.state("signed out");
  else startLive(handlers);
}
