// One conversation, with a member or with all of a team: its history, the list that shows it,
// where the reader is, and the box to write in.

import { Actions, quote } from "./actions.js";
import { Choice } from "./choice.js";
import { Compose } from "./compose.js";
import { h, morph, pageHead, setText } from "./dom.js";
import { head, links } from "./head.js";
import { History } from "./history.js";
import { keep, takeKept } from "./kept.js";
import { List } from "./list.js";
import { load } from "./loading.js";
import { content } from "./message.js";
import { draftOf, keepDraft } from "./outbox.js";
import { Pending } from "./pending.js";
import { Position } from "./position.js";
import { Reading } from "./reading.js";
import { pathTo } from "./route.js";
import { Rows } from "./row.js";
import { labels, queued } from "./teams.js";
import { flat } from "./text.js";
import { isStep, layout } from "./work.js";

// Conversation shows one conversation at a time in main. page is the object of that name in
// app.js.
export class Conversation {
  #main;
  #page;
  #view = null; // what the parts share of the open conversation: see open
  #parts = {};
  #load = 0; // the number of the last request for messages; earlier answers are ignored
  #ours = ""; // the reader's names when the messages were rendered
  #over = false; // whether the team has ended
  #writing = false; // whether the next conversation opens with the focus in its box

  constructor(main, page) {
    this.#main = main;
    this.#page = page;
    keep(() => this.#where());
  }

  get place() {
    return this.#view?.place ?? null;
  }

  get #history() {
    return this.#view?.history;
  }

  // open shows a conversation. createdAt is the team's, in ms. It starts where the reader was before
  // the page was loaded again, or else at the message with the seq at, or else at the first unread
  // message or, with end, at the last one.
  async open({ team, createdAt, member, at, end = false, write = false }) {
    this.#writing ||= write;
    const place = { team, createdAt, member };
    const kept = takeKept(place);
    const from = kept ? kept.seq : at ?? (end || !this.#page.person(place) ? null : this.#page.reader.first(team, member));
    this.#view = {
      place, page: this.#page, history: new History(team, createdAt, member),
      // mine returns the reader's names, even in a team that has ended.
      mine: () => this.#page.person(place)?.ours ?? this.#history.ours ?? [],
      names: () => this.#page.names(place, this.#history.ours),
      color: (name) => this.#page.status({ ...place, member: name })?.color,
      post: (message) => this.#post(message),
      sent: (answers) => this.#sent(answers),
      edit: (text) => this.#parts.compose.add(text),
      canWrite: () => this.#parts.compose.open,
      reply: (record) => this.#reply(record),
    };
    const { history } = this.#view;
    history.newer = from !== null;
    this.#build();
    const { position, reading } = this.#parts;
    if (from !== null) position.leave();
    this.refresh();
    this.pending();
    const there = await this.#fill({ before: from === null ? undefined : from + 1 }) &&
      (from === null || this.#history.range() === null || await this.#fill({ after: this.#history.range().high }));
    if (!there) return;
    reading.opening = false;
    if (kept) this.#goBack(kept);
    else if (at !== null) this.#point(at);
    else if (end) position.toEnd();
    else position.start();
    this.#parts.scroll.removeAttribute("aria-busy");
  }

  close() {
    this.#parts.reading?.sight.forget();
    this.#view = null;
    this.#load++;
    this.#parts = {};
  }

  // reload reads the messages again.
  reload() {
    if (this.#view) this.open({ ...this.place, at: null, end: true });
  }

  #build() {
    const p = this.#parts = {};
    const title = this.place.member === null ? "everyone" : flat(this.place.member);
    const more = (where) => h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#more(where) }, `Show ${where} messages`);
    p.head = h("div", { class: "head-text" });
    p.links = h("div", { class: "head-links" });
    p.older = more("older");
    p.newer = more("newer");
    p.rows = new Rows(this.#view);
    p.list = new List();
    p.waiting = new Pending(this.#view);
    p.empty = h("p", { class: "empty", role: "status" }, "Loading…");
    p.scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Messages, ${title}`, "aria-busy": "true" },
      h("div", { class: "column" }, p.older, p.empty, p.list.element, p.newer, p.waiting.element));
    p.choice = new Choice(this.#view, (filtered) => this.#choose(filtered));
    const history = this.#history;
    p.reading = new Reading(this.#view, p.scroll, () => p.position.show());
    p.position = new Position(p.scroll, { sight: p.reading.sight, more: () => history.newer, toEnd: () => this.#toEnd() });
    p.compose = new Compose(this.place, title, (message) => this.#send(message));
    p.asks = h("div", { class: "asks" });
    this.#main.replaceChildren(h("section", { class: "talk", "aria-labelledby": "talk-title" },
      pageHead(p.head, p.links, this.#page.controls.element, ...p.choice.elements), p.scroll, h("div", { class: "foot" }, p.position.jump, p.asks, p.compose.elements)));
    p.actions = new Actions(p.list.element, this.#view);
    p.compose.grow();
    if (this.#writing) p.compose.focus();
    this.#writing = false;
  }

  // choose shows the chosen messages and, after a change of the filter, the newest of them.
  #choose(filtered) {
    this.#sync();
    if (!filtered) return;
    this.#parts.position.start();
    if (!this.#parts.choice.all && this.#history.older) this.#fill({ before: this.#history.range()?.low });
  }

  // refresh shows changes of the member, the team and the reader's names.
  refresh() {
    if (!this.#view) return;
    const { place } = this;
    const t = this.#page.team(place);
    const person = this.#page.person(place);
    this.#page.controls.refresh(place);
    this.#page.cards.show(this.#parts.asks, (a) => a.team === place.team && (place.member === null || a.member === place.member), () => this.#parts.compose.focus());
    morph(this.#parts.head, head(place, t, {
      status: place.member === null ? null : this.#page.status(place), label: labels(this.#page.snapshot.teams).get(t?.team) ?? place.team,
    }));
    morph(this.#parts.links, h("div", { class: "head-links" }, links(place, t, place.member === null ? null : this.#page.status(place))));
    let closed = "";
    if (!t) closed = "You cannot send messages to a team that has ended.";
    else if (t.problem) closed = `The team cannot be read: ${flat(t.problem)}`;
    else if (this.#page.readOnly) closed = "The service is read-only: you cannot send messages.";
    const unread = Boolean(t && !closed && t.leadState === "gone" && !(place.member !== null && this.#page.status(place)?.relay));
    const queue = queued(t) ? (t.panes ? "panes" : "sessions") : "";
    this.#parts.compose.show({ closed, unread, queue, unanswerable: Boolean(t && person && !person.answerable && !closed && !queue) });
    const ours = JSON.stringify(this.#view.mine());
    if (ours !== this.#ours || this.#over !== !t) {
      for (const item of this.#history.items) item.li = item.notice ? (item.step = null) : null;
      this.#parts.reading.sight.forget();
      [this.#ours, this.#over] = [ours, !t];
      this.#sync();
    }
  }

  // fill requests messages and adds them. It reports whether they are still wanted.
  async #fill(range) {
    const number = ++this.#load;
    const current = () => number === this.#load;
    const { empty } = this.#parts;
    try {
      await load(this.#history, range, { take: (r) => this.#take(r), blocks: () => this.#layout().length, current });
      if (!current()) return false;
      setText(empty, this.#history.items.length > 0 ? "None of the messages are of this kind." : "No messages yet.");
    } catch (problem) {
      if (!current()) return false;
      // Nothing is recorded of a team that has just been created.
      setText(empty, problem.status === 404 ? "No messages yet." : [problem.message, problem.hint].filter(Boolean).join(". "));
      if (problem.status === 0) this.#page.whenConnected(() => current() && this.#fill(range));
    }
    this.#sync();
    return true;
  }

  async #more(where) {
    const p = this.#parts;
    const range = this.#history.range();
    if (!range) return;
    const button = p[where];
    button.disabled = true;
    const first = p.list.element.querySelector(".bubble, .steps"); // a day above it may be removed
    const top = first.getBoundingClientRect().top;
    if (where === "newer") p.position.leave();
    await this.#fill(where === "older" ? { before: range.low } : { after: range.high });
    if (where === "older") {
      // All rows are rendered again when the names of the reader change.
      const seq = first.dataset.seq ?? first.querySelector("[data-seq]")?.dataset.seq;
      const now = first.isConnected ? first : p.list.element.querySelector(`[data-seq="${seq}"]`) ?? first;
      p.scroll.scrollTop += now.getBoundingClientRect().top - top;
    }
    button.disabled = false;
    if (button.hidden && document.activeElement === document.body) p.scroll.focus();
  }

  #toEnd() {
    if (this.#history.newer) this.reload();
    else this.#parts.position.toEnd();
  }

  // point shows one message, and focuses it.
  #point(seq) {
    const item = this.#history?.find(seq);
    const { choice } = this.#parts;
    const isHidden = item && (!choice.shows(item) || (isStep(item.records[0]) && !choice.withSteps));
    if (isHidden) { // show it until the conversation is closed
      choice.showAll(isStep(item.records[0]));
      this.#sync();
    }
    const li = item?.step ?? item?.li;
    if (!li) return this.#parts.position.start();
    for (let fold = li.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    this.#parts.position.center(li);
    li.classList.add("found-here");
    li.setAttribute("tabindex", "-1");
    li.focus({ preventScroll: true });
  }

  // event shows a message that appeared, was read, or left its inbox. It reports whether the
  // message is new here.
  event(r, appeared) {
    const history = this.#history;
    if (!history?.has(r)) return false;
    const { position, reading } = this.#parts;
    const range = history.range();
    const counts = appeared && !r.work && !r.noise;
    if (history.newer && (!range || r.seq > range.high)) {
      if (counts) position.came();
      return false;
    }
    const did = this.#take(r);
    if (!did.fresh) {
      reading.changed(did.item);
      return false;
    }
    const away = !position.atEnd || document.visibilityState !== "visible";
    if (counts && away && reading.came(did.item)) this.#sync();
    // An answer replaces an earlier text, so more than the end changes.
    this.#sync(history.items.at(-1) === did.item && !r.answer);
    if (appeared) did.item.li?.classList.add("fresh");
    return true;
  }

  // work shows a text or a step of an agent. If start is false, it updates one that is shown
  // already, such as a tool call that has ended.
  work(r, start) {
    if (start) return this.event(r, true);
    if (this.#history?.has(r) && this.#history.progressed(r)) this.#sync(true);
    return false;
  }

  receipt(receipt) {
    const item = this.#history?.receipt(receipt);
    if (item) return this.#parts.rows.update(item);
    // A fast agent can take a message before the journal sees it, so that it is never
    // recorded. The outbox has its text.
    const text = this.#page.outbox.text(receipt.id);
    const from = this.#page.person(receipt)?.from;
    if (text === undefined || !from) return;
    const at = receipt.verifiedAt ?? new Date().toISOString();
    this.event({
      seq: receipt.seq, team: receipt.team, createdAt: receipt.createdAt, inbox: receipt.member, id: receipt.id, from, text, summary: "",
      timestamp: at, firstSeen: at, kind: "message", read: false, gone: false, noise: false, receipt,
    }, true);
  }

  relayed(team, createdAt, inbox, id, fate) {
    const item = this.#history?.relayed(team, createdAt, inbox, id, fate);
    if (item) this.#parts.rows.update(item);
  }

  #take(r) {
    const did = this.#history.add(r);
    if (!did.fresh && did.changed) this.#parts.rows.update(did.item);
    this.#page.arrived(r.id);
    return did;
  }

  get #how() {
    return { withSteps: this.#parts.choice.withSteps, over: this.#over };
  }

  get #items() {
    return this.#history.items.filter((i) => this.#parts.choice.shows(i));
  }

  #layout() {
    return layout(this.#items, this.#how);
  }

  // sync shows all messages in order. If only the end is new, the others stay as they are.
  #sync(end = false) {
    const p = this.#parts;
    const { older, newer } = this.#history;
    p.reading.find();
    p.list.show(this.#items, {
      rows: p.rows, named: this.place.member === null, end: end && !p.reading.opening, ...this.#how,
      divider: p.reading.divider, markRead: () => p.reading.markRead(),
    });
    p.reading.watch(p.list.items());
    p.actions.show();
    const loaded = this.#history.range() !== null;
    p.older.hidden = !older || !loaded;
    p.newer.hidden = !newer || !loaded;
    this.#showEmpty();
    p.position.stick();
    p.position.show();
  }

  // where returns the place of the reader, to restore it after a reload of the page.
  #where() {
    if (!this.#view) return null;
    const { position, list } = this.#parts;
    const conversation = this.place;
    if (position.atEnd) return { conversation, seq: null };
    const first = position.first(list.element.querySelectorAll("[data-seq]"));
    return first && { conversation, seq: Number(first.element.dataset.seq), offset: first.offset };
  }

  #goBack({ seq, offset }) {
    const { position, list } = this.#parts;
    const element = seq === null ? null : list.element.querySelector(`[data-seq="${seq}"]`);
    if (element) position.align(element.closest("details:not([open])") ?? element, offset);
    else position.toEnd();
  }

  #showEmpty() {
    const { empty, list, waiting } = this.#parts;
    empty.hidden = list.blocks.length > 0 || waiting.any;
  }

  // seen marks the messages in view as read, if the page is visible.
  seen() {
    this.#parts.reading?.sight.look();
  }

  #send({ text, lead, pane }) {
    const { member } = this.place;
    if (this.#history.newer) this.reload();
    this.#parts.reading.divider = null;
    this.#post({ member, text, lead, pane, mode: member === null ? undefined : this.#page.controls.take() });
    this.#parts.position.toEnd();
  }

  async #post(message) {
    const { team, createdAt } = this.place;
    this.#sent(await this.#page.outbox.post({ team, createdAt, ...message }));
  }

  // sent takes the answers of the service to a message, which may be shown already.
  #sent(answers) {
    this.#page.sent(answers);
    for (const a of answers ?? []) {
      const item = this.#history?.items.findLast((i) => i.records.some((r) => r.inbox === a.member && r.id === a.id));
      if (item) this.#parts.rows.update(item);
    }
  }

  // reply starts an answer to a message, in the conversation with its sender.
  #reply(r) {
    const { team, createdAt, member } = this.place;
    const text = quote(content(r).text);
    const to = this.#page.status({ team, createdAt, member: r.from }) && !this.#view.names().mine(r.from) ? r.from : member;
    if (to === member) return this.#parts.compose.add(text);
    keepDraft(team, createdAt, to, text + draftOf(team, createdAt, to));
    this.#writing = true;
    location.hash = pathTo(team, to, { of: createdAt });
  }

  // pending shows the messages that are not known to have arrived.
  pending() {
    if (!this.#view) return;
    this.#parts.waiting.show();
    this.#showEmpty();
    this.#parts.position.stick();
  }
}
