// One conversation, with a member or with all of a team, and the box to write in.

import { escaped, h, morph, pageHead, place, setAttr, setText } from "./dom.js";
import { History } from "./history.js";
import { rendered } from "./markdown.js";
import { beginning, content, delivery, fate, when } from "./message.js";
import { draftOf, keepDraft } from "./outbox.js";
import { dot, state } from "./people.js";
import { messages } from "./request.js";
import { Steps } from "./steps.js";
import { dayOf, flat, size, timeOf, wholeTime } from "./text.js";
import { isStep, layout } from "./work.js";

const pageSize = 100;
const fewBlocks = 10, mostPages = 5; // so many pages are read at once where there is little but folded work
const together = 5 * 60e3; // messages of one sender within this time, in ms, share a head
const hideSteps = "teambridge:hide-steps"; // in localStorage, if the reader does not want them
const mac = /Mac|iPhone|iPad/.test(navigator.platform);

// Conversation shows one conversation at a time in main. page is what it needs to know of
// the rest of the page: see app.js.
export class Conversation {
  #main;
  #page;
  #history = null;
  #place = null; // {team, createdAt, member}
  #parts = {};
  #load = 0; // the number of the last request for messages; earlier answers are ignored
  #bottom = true;
  #missed = 0;
  #ours = ""; // the reader's names when the messages were rendered
  #resent = new Set(); // seqs of messages that were sent again
  #unfolded = new Set(); // seqs of long messages that are shown in full
  #blocks = []; // what is shown: see layout
  #over = false; // whether the team has ended
  #withSteps = true; // whether the steps of agents are shown

  constructor(main, page) {
    this.#main = main;
    this.#page = page;
  }

  get place() {
    return this.#place;
  }

  // open shows a conversation. createdAt is the team's, in ms. at is the seq of the message
  // to show, or null for the end.
  async open({ team, createdAt, member, at }) {
    this.#place = { team, createdAt, member };
    this.#history = new History(team, createdAt, member);
    this.#history.newer = at !== null;
    this.#missed = 0;
    this.#bottom = at === null;
    this.#blocks = [];
    this.#withSteps = localStorage.getItem(hideSteps) === null;
    this.#build();
    this.refresh();
    this.pending();
    const there = await this.#fill({ before: at === null ? undefined : at + 1 });
    if (at === null || !there) return;
    // And the messages after it.
    const range = this.#history.range();
    if (range === null || await this.#fill({ after: range.high })) this.#point(at);
  }

  close() {
    this.#place = this.#history = null;
    this.#load++;
    this.#parts = {};
  }

  // reload reads the messages again.
  reload() {
    if (this.#place) this.open({ ...this.#place, at: null });
  }

  #build() {
    const p = this.#parts = {};
    const { team, member } = this.#place;
    const title = member === null ? "everyone" : flat(member);
    p.head = h("div", { class: "head-text" });
    p.notice = h("p", { class: "hint", hidden: true });
    p.older = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#more("older") }, "Show older messages");
    p.newer = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#more("newer") }, "Show newer messages");
    p.list = h("ol", { class: "messages" });
    p.waiting = h("ol", { class: "messages outbox", "aria-label": "Not sent yet" });
    p.empty = h("p", { class: "empty", role: "status" }, "Loading…");
    p.scroll = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Messages, ${title}` },
      h("div", { class: "column" }, p.older, p.empty, p.list, p.newer, p.waiting));
    p.steps = h("button", { type: "button", class: "small toggle", onclick: () => this.#toggleSteps() }, "Steps");
    p.jump = h("button", { type: "button", class: "jump", hidden: true, onclick: () => this.#toEnd() }, "Newest messages");
    p.text = h("textarea", { id: "text", rows: "1", placeholder: `Message to ${title}`, "aria-describedby": "keys" });
    p.lead = h("input", { type: "checkbox", id: "lead" });
    p.send = h("button", { type: "submit", class: "send" }, "Send");
    p.form = h("form", { class: "compose" },
      h("label", { class: "unseen", for: "text" }, `Message to ${title}`), p.text,
      h("div", { class: "compose-foot" },
        member === null ? h("label", { class: "check" }, p.lead, " Also send to the lead") : null,
        h("span", { class: "keys", id: "keys" }, h("kbd", null, mac ? "⌘" : "Ctrl"), " ", h("kbd", null, "Enter"), " sends"),
        p.send));
    p.closed = h("p", { class: "closed", hidden: true });
    this.#main.replaceChildren(h("section", { class: "talk", "aria-labelledby": "talk-title" },
      pageHead(p.head, p.steps), p.scroll, h("div", { class: "foot" }, p.jump, p.notice, p.form, p.closed)));

    p.text.value = draftOf(team, this.#place.createdAt, member);
    p.text.addEventListener("input", () => {
      keepDraft(team, this.#place.createdAt, member, p.text.value);
      this.#grow();
    });
    p.text.addEventListener("keydown", (e) => {
      if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && !e.isComposing) {
        e.preventDefault();
        p.form.requestSubmit();
      }
    });
    p.form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.#send();
    });
    this.#showToggle();
    p.scroll.addEventListener("scroll", () => {
      this.#bottom = p.scroll.scrollHeight - p.scroll.scrollTop - p.scroll.clientHeight < 80;
      if (this.#history && this.#bottom && !this.#history.newer) {
        this.#missed = 0;
        this.#showJump();
      }
    }, { passive: true });
    new ResizeObserver(() => this.#stick()).observe(p.scroll);
    this.#grow();
  }

  #showToggle() {
    setAttr(this.#parts.steps, "aria-pressed", this.#withSteps ? "true" : "false");
    setAttr(this.#parts.steps, "title", this.#withSteps ? "Hide what agents do" : "Show what agents do");
  }

  #toggleSteps() {
    this.#withSteps = !this.#withSteps;
    try {
      if (this.#withSteps) localStorage.removeItem(hideSteps);
      else localStorage.setItem(hideSteps, "1");
    } catch { /* no space: it lasts until the conversation is closed */ }
    this.#showToggle();
    this.#sync();
  }

  #grow() {
    const t = this.#parts.text;
    t.style.height = "auto";
    t.style.height = Math.min(t.scrollHeight + 2, innerHeight * 0.4) + "px";
  }

  #stick() {
    const s = this.#parts.scroll;
    if (s && this.#bottom && !this.#history.newer) s.scrollTop = s.scrollHeight;
  }

  // refresh shows changes of the member, the team and the reader's names.
  refresh() {
    const p = this.#parts;
    if (!this.#place) return;
    const { team, member } = this.#place;
    const t = this.#page.team(this.#place);
    const ours = JSON.stringify(this.#page.person(this.#place)?.ours ?? []);
    if (ours !== this.#ours || this.#over !== !t) {
      if (ours !== this.#ours) for (const item of this.#history.items) item.li = null;
      [this.#ours, this.#over] = [ours, !t];
      this.#sync();
    }
    const s = member === null ? null : this.#page.status(this.#place);
    const person = this.#page.person(this.#place);
    const head = h("div", { class: "head-text" },
      h("h1", { id: "talk-title", tabindex: "-1" }, member === null ? "Everyone" : escaped(member),
        h("span", { class: "in" }, h("span", { class: "unseen" }, " in team "), escaped(team))));
    if (!t) head.append(h("p", { class: "doing" }, "The team has ended. Its history is kept."));
    else if (s) head.append(h("p", { class: "doing" }, dot(s), state(s), this.#relay(s)));
    else if (member !== null) head.append(h("p", { class: "doing" }, "Not an agent of this team"));
    else head.append(h("p", { class: "doing" }, `${t.members} ${t.members === 1 ? "member" : "members"} · created ${dayOf(new Date(t.createdAt))} ${timeOf(new Date(t.createdAt))}`));
    morph(p.head, head);

    let closed = "";
    if (!t) closed = "You cannot send messages to a team that has ended.";
    else if (t.problem) closed = `The team cannot be read: ${flat(t.problem)}`;
    else if (this.#page.readOnly) closed = "The service is read-only: you cannot send messages.";
    p.closed.hidden = !closed;
    p.form.hidden = Boolean(closed);
    setText(p.closed, closed);
    const unanswerable = t && person && !person.answerable && !closed;
    p.notice.hidden = !unanswerable;
    if (unanswerable && !p.notice.hasChildNodes()) {
      p.notice.append("Agents of this team cannot write to you yet. To let them, run: ", h("code", null, `teambridge join --team ${flat(team)}`));
    } else if (!unanswerable) p.notice.replaceChildren();
  }

  #relay(s) {
    if (!s.relay) return null;
    const r = s.relay;
    const parts = [`relay ${flat(r.state)}`];
    if (r.queue > 0) parts.push(`${r.queue} in progress`);
    if (r.deadLetters > 0) parts.push(`⚠ ${r.deadLetters} not delivered`);
    if (r.reason) parts.push(flat(r.reason));
    return h("span", { class: r.state === "dead" || r.deadLetters > 0 ? "warn" : null }, " · " + parts.join(", "));
  }

  // fill requests a page of messages and adds it.
  async #fill(range) {
    const load = ++this.#load;
    const history = this.#history;
    const { team, createdAt, member } = this.#place;
    const p = this.#parts;
    const back = range.after === undefined;
    try {
      let more = true;
      const enough = this.#layout().length + fewBlocks;
      for (let n = 0; n < mostPages && more && this.#layout().length < enough; n++) {
        const page = await messages(team, { with: member ?? undefined, createdAt, thinking: true, html: true, limit: pageSize, ...range });
        if (load !== this.#load) return false;
        if (back) more = history.older = page.more;
        else more = history.newer = page.more;
        for (const r of page.messages) this.#take(r);
        const end = page.messages.at(back ? 0 : -1);
        range = back ? { before: end?.seq } : { after: end?.seq };
      }
      setText(p.empty, "No messages yet.");
    } catch (problem) {
      if (load !== this.#load) return false;
      // Nothing is recorded of a team that has just been created.
      setText(p.empty, problem.status === 404 ? "No messages yet." : [problem.message, problem.hint].filter(Boolean).join(". "));
      if (problem.status === 0) this.#page.whenConnected(() => load === this.#load && this.#fill(range));
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
    const first = p.list.querySelector(".bubble, .steps"); // above it there may be a day, which goes
    const top = first.getBoundingClientRect().top;
    if (where === "newer") this.#bottom = false;
    await this.#fill(where === "older" ? { before: range.low } : { after: range.high });
    if (where === "older") p.scroll.scrollTop += first.getBoundingClientRect().top - top;
    button.disabled = false;
    if (button.hidden && document.activeElement === document.body) p.scroll.focus();
  }

  #toEnd() {
    if (this.#history.newer) return this.reload();
    this.#missed = 0;
    this.#bottom = true;
    this.#stick();
    this.#showJump();
  }

  // point shows one message, and focuses it.
  #point(seq) {
    const item = this.#history?.find(seq);
    if (item && isStep(item.records[0]) && !this.#withSteps) {
      this.#withSteps = true; // only here
      this.#showToggle();
      this.#sync();
    }
    const li = item?.step ?? item?.li;
    if (!li) return;
    for (let fold = li.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    this.#bottom = false;
    li.scrollIntoView({ block: "center" });
    li.classList.add("found-here");
    li.setAttribute("tabindex", "-1");
    li.focus({ preventScroll: true });
  }

  // event shows a message that appeared, was read, or left its inbox. It reports whether the
  // message is new here.
  event(r, appeared) {
    const history = this.#history;
    if (!history?.has(r)) return false;
    const range = history.range();
    const counts = appeared && !r.work;
    if (history.newer && (!range || r.seq > range.high)) {
      if (counts) this.#missed++;
      this.#showJump();
      return false;
    }
    const did = this.#take(r);
    if (!did.fresh) return false;
    if (counts && !this.#bottom) this.#missed++;
    // The answer takes the place of a text, so that more than the end changes.
    this.#sync(history.items.at(-1) === did.item && !r.answer);
    if (appeared) did.item.li?.classList.add("fresh");
    return true;
  }

  // work shows what an agent said or did. If it is not the start, it is a change of what was
  // shown before, such as the end of a tool call.
  work(r, start) {
    if (start) return this.event(r, true);
    if (this.#history?.has(r) && this.#history.progressed(r)) this.#sync(true);
    return false;
  }

  receipt(receipt) {
    const item = this.#history?.receipt(receipt);
    if (item) return this.#update(item);
    // A fast agent can take a message before it is recorded, so that it never is. The
    // outbox has the text.
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
    if (item) this.#update(item);
  }

  #take(r) {
    const did = this.#history.add(r);
    if (!did.fresh && did.changed) this.#update(did.item);
    this.#page.arrived(r.id);
    return did;
  }

  #showJump() {
    const { jump } = this.#parts;
    const n = this.#missed;
    setText(jump, n > 0 ? `${n} new ${n === 1 ? "message" : "messages"}` : "Newest messages");
    jump.hidden = n === 0 && !this.#history.newer;
  }

  #layout() {
    return layout(this.#history.items, { withSteps: this.#withSteps, over: this.#over });
  }

  // sync shows all messages in order. If only the end is new, the others stay as they are.
  #sync(end = false) {
    this.#blocks = this.#layout();
    const used = new Set();
    for (const b of this.#blocks) {
      if (b.item) {
        b.li = b.item.li ??= this.#render(b.item);
        continue;
      }
      // A group that has grown in either direction is the same.
      const group = b.steps.map((s) => s.item.group).find((g) => g && !used.has(g)) ?? new Steps();
      used.add(group);
      for (const s of b.steps) s.item.group = group;
      const [r] = b.steps[0].item.records;
      group.show(b.steps, [this.#place.member === null ? flat(r.from) : "", b.subagent ? "subagent" : ""].filter(Boolean).join(", "));
      b.li = group.element;
    }
    place(this.#parts.list, this.#blocks.map((b) => b.li));
    for (let n = end ? Math.max(0, this.#blocks.length - 1) : 0; n < this.#blocks.length; n++) this.#dress(n);
    this.#shown();
    this.#showJump();
    this.#stick();
  }

  // shown updates what depends on which messages are shown.
  #shown() {
    const { older, newer, empty, waiting } = this.#parts;
    const any = this.#blocks.length > 0;
    older.hidden = !this.#history.older || !this.#history.range();
    newer.hidden = !this.#history.newer || !this.#history.range();
    empty.hidden = any || waiting.childElementCount > 0;
    this.seen();
  }

  // seen marks messages to the reader as read, if the page is visible.
  seen() {
    if (!this.#history || document.visibilityState !== "visible") return;
    const person = this.#page.person(this.#place);
    const list = this.#history.items.flatMap((i) => i.records).filter((r) => !r.read && !r.gone && !r.work && person?.ours.includes(r.inbox));
    if (list.length > 0) this.#page.seen(list);
  }

  // dress adds to a block what depends on the ones before: its day, and whether a message
  // has a head of its own.
  #dress(n) {
    const block = this.#blocks[n];
    const record = (b) => (b.item ?? b.steps[0].item).records[0];
    const r = record(block), before = this.#blocks[n - 1];
    const day = dayOf(when(r));
    setAttr(block.li, "data-day", !before || dayOf(when(record(before))) !== day ? day : null);
    const first = block.li.firstElementChild;
    const has = first?.classList.contains("day");
    if (block.li.dataset.day && !has) block.li.prepend(h("p", { class: "day" }, h("span", null, day)));
    else if (block.li.dataset.day) setText(first.firstElementChild, day);
    else if (has) first.remove();
    // What an agent does between two texts does not separate them.
    let at = n - 1;
    while (r.work && this.#blocks[at]?.steps && record(this.#blocks[at]).inbox === r.inbox) at--;
    const last = this.#blocks[at]?.item;
    const b = last?.records[0];
    const to = (item) => (item.records.length > 1 ? "all" : item.records[0].inbox);
    const said = (r) => (r.work ? r.kind === "text" : r.kind === "message");
    const follows = block.item && b && !block.li.dataset.day && b.from === r.from && to(last) === to(block.item) &&
      when(r) - when(b) < together && said(r) && said(b) && Boolean(r.work) === Boolean(b.work);
    block.li.classList.toggle("follows", Boolean(follows));
  }

  // update renders a message again, in its place.
  #update(item) {
    if (item.li && !isStep(item.records[0])) morph(item.li.querySelector(".bubble"), this.#render(item).querySelector(".bubble"));
  }

  #render(item) {
    const r = item.records[0];
    const names = this.#page.names(this.#place);
    const mine = names.mine(r.from);
    const to = item.records.length > 1 ? `${item.records.length} members` : names.name(r.inbox);
    const { label, summary, text, raw } = content(r);
    const body = raw
      ? h("details", { class: "raw" }, h("summary", null, "Show the raw text"), h("pre", null, escaped(text, true)))
      : text ? this.#text(r, text, item) : null;
    const direction = mine ? "mine" : names.mine(r.inbox) || r.answer || r.work ? "tome" : "between";
    if (r.work && r.kind !== "text") return this.#note(r);
    return h("li", { class: `message ${direction}` }, h("article", { class: "bubble", "data-seq": r.seq },
      h("header", { class: "by" },
        h("span", { class: "pair" }, h("b", null, escaped(names.name(r.from))), r.answer || r.work ? null : [" → ", escaped(to)]),
        label ? h("span", { class: "label" }, escaped(label)) : null,
        h("time", { datetime: r.firstSeen, title: wholeTime(when(r)) }, timeOf(when(r)))),
      summary ? h("p", { class: "summary", dir: "auto" }, escaped(summary)) : null,
      body,
      mine ? this.#fates(item) : r.relay ? h("div", { class: "fates" }, h("p", { class: "fate", "data-state": "relay" }, delivery(r.relay))) : null));
  }

  // note shows how a turn ended, or what the program that runs the agent said.
  #note(r) {
    return h("li", { class: "message note" }, h("p", { class: "bubble", "data-kind": r.kind, "data-state": r.work.state, "data-seq": r.seq, title: wholeTime(when(r)) },
      this.#place.member === null ? [h("b", null, escaped(r.from)), " · "] : null, r.work.state === "failed" ? "⚠ " : null, escaped(r.text)));
  }

  #text(r, text, item) {
    const whole = this.#unfolded.has(r.seq);
    const cut = beginning(text);
    const long = cut.length < text.length;
    const body = r.html
      ? rendered(r)
      : h("p", { class: "text", dir: "auto" }, escaped(whole ? text : cut, true), long && !whole ? "…" : null);
    if (r.html && r.answer?.truncated) body.append(h("p", null, "[truncated]"));
    if (!long || whole) return body;
    body.classList.toggle("clamped", Boolean(r.html));
    return [body, h("button", { type: "button", class: "quiet", onclick: () => {
      this.#unfolded.add(r.seq);
      this.#update(item);
    } }, `Show all (${size(text)})`)];
  }

  // fates shows what happened to a message of the reader, for each member it went to.
  #fates(item) {
    const several = item.records.length > 1;
    const names = this.#page.names(this.#place);
    return h("div", { class: "fates" }, item.records.map((r) => {
      const f = fate(r);
      const parts = [h("span", { class: "tick", "aria-hidden": "true" }, f.tick), " "];
      if (several) parts.push(h("b", null, escaped(names.name(r.inbox))), " ");
      parts.push(f.words);
      if (r.relay) parts.push(" · ", delivery(r.relay));
      const reach = this.#page.reach(r.inbox, r.id);
      if (reach && f.state === "verified") parts.push(h("span", { class: "warn" }, " · ⚠ " + reach));
      if (f.reason) parts.push(h("span", { class: "reason" }, ". ", escaped(f.reason), "."));
      if (f.state === "lost" || f.state === "unknown") {
        parts.push(" ", this.#resent.has(r.seq) ? h("span", { class: "done" }, "Sent again.")
          : h("button", { type: "button", class: "small", onclick: () => {
            this.#resent.add(r.seq);
            this.#update(item);
            this.#post({ member: r.inbox, text: r.text });
          } }, "Send again"));
      }
      return h("p", { class: "fate", "data-state": f.state, title: f.title || null }, parts);
    }));
  }

  #send() {
    const p = this.#parts;
    const text = p.text.value;
    if (!text.trim() || p.form.hidden) {
      p.text.focus();
      return;
    }
    const { team, createdAt, member } = this.#place;
    p.text.value = "";
    keepDraft(team, createdAt, member, "");
    this.#grow();
    p.text.focus();
    if (this.#history.newer) this.reload();
    this.#missed = 0;
    this.#bottom = true;
    this.#post({ member, text, lead: p.lead.checked });
    this.#stick();
  }

  async #post(message) {
    const { team, createdAt } = this.#place;
    this.#page.sent(await this.#page.outbox.post({ team, createdAt, ...message }));
  }

  // pending shows the messages that are not known to have arrived.
  pending() {
    if (!this.#place) return;
    const { team, createdAt, member } = this.#place;
    const p = this.#parts;
    const list = this.#page.outbox.of(team, createdAt, member)
      // A message to all is shown in the list as soon as one copy has arrived.
      .filter((e) => !(e.state === "sending" || e.state === "sent") || !this.#history.items.some((i) => i.records.some((r) => r.id.startsWith(e.key))));
    morph(p.waiting, h("ol", { class: "messages outbox", "aria-label": "Not sent yet" }, list.map((e) => h("li", { class: "message mine", "data-key": e.key + e.state },
      h("article", { class: "bubble" },
        h("p", { class: "text", dir: "auto" }, escaped(beginning(e.text), true)),
        h("div", { class: "fates" }, this.#pendingState(e)))))));
    p.waiting.hidden = list.length === 0;
    p.empty.hidden = this.#blocks.length > 0 || list.length > 0;
    this.#stick();
  }

  #pendingState(e) {
    const tick = (mark) => h("span", { class: "tick", "aria-hidden": "true" }, mark);
    if (e.state === "sending") return h("p", { class: "fate", "data-state": "sending" }, tick("…"), " sending");
    if (e.state === "sent") return h("p", { class: "fate", "data-state": "verified" }, tick("✓"), " in the inbox");
    const uncertain = e.state === "uncertain";
    const button = (words, act) => h("button", { type: "button", class: "small", onclick: act }, words);
    const retry = async (force) => this.#page.sent(await this.#page.outbox.retry(e, force));
    return h("p", { class: "fate", "data-state": uncertain ? "uncertain" : "failed", role: "alert" },
      tick("⚠"), uncertain ? " may not have been sent. " : " not sent. ",
      h("span", { class: "reason" }, escaped(e.detail), ". ", e.hint ? [escaped(e.hint), ". "] : null,
        uncertain ? "Sending it again does not make a second copy. " : null),
      e.code === "unknown" ? button("Send anyway", () => retry(true)) : button("Send again", () => retry(false)), " ",
      uncertain ? null : button("Edit", () => {
        const t = this.#parts.text;
        t.value = [e.text, t.value].filter(Boolean).join("\n");
        t.dispatchEvent(new Event("input"));
        this.#page.outbox.drop(e.key);
        t.focus();
      }), " ",
      button("Discard", () => this.#page.outbox.drop(e.key)));
  }
}
