// One conversation: what was said to a member and by it, or in all of a team; and
// the box to write in.

import { messages } from "./ask.js";
import { h, morph, said, setAttr, setText } from "./dom.js";
import { History } from "./history.js";
import { draftOf, keepDraft } from "./outbox.js";
import { dot, state } from "./people.js";
import { dayOf, flat, size, timeOf, wholeTime } from "./text.js";

const pageSize = 100;
const longText = 4000; // characters, of which more are shown when asked for
const longLines = 60;
const together = 5 * 60e3; // messages of one sender so close, in ms, have one head
const mac = /Mac|iPhone|iPad/.test(navigator.platform);

// Talk shows one conversation at a time in main. world has what all of the page
// knows: see app.js.
export class Talk {
  #main;
  #world;
  #history = null;
  #place = null; // {team, createdAt, member}
  #parts = {};
  #load = 0; // the number of the last load: what comes for an earlier one is late
  #bottom = true;
  #missed = 0;
  #whose = ""; // which names are the reader's, as the messages show it
  #resent = new Set(); // seqs of messages that were lost, or may be, and were sent again
  #unfolded = new Set(); // seqs of long messages that are shown whole

  constructor(main, world) {
    this.#main = main;
    this.#world = world;
  }

  get place() {
    return this.#place;
  }

  // open shows a conversation; at is the seq of a message to show, or null for the
  // end. createdAt is the team's, in ms.
  async open({ team, createdAt, member, at }) {
    this.#place = { team, createdAt, member };
    this.#history = new History(team, createdAt, member);
    this.#history.newer = at !== null;
    this.#missed = 0;
    this.#bottom = at === null;
    this.#build();
    this.refresh();
    this.pending();
    const there = await this.#fill({ before: at === null ? undefined : at + 1 });
    if (at === null || !there) return;
    // And what came after it.
    const range = this.#history.range();
    if (range === null || await this.#fill({ after: range.high })) this.#point(at);
  }

  close() {
    this.#place = this.#history = null;
    this.#load++;
    this.#parts = {};
  }

  // reload reads anew what is shown.
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
    // In the foot, above the box.
    p.jump = h("button", { type: "button", class: "jump", hidden: true, onclick: () => this.#toEnd() }, "Newest messages");
    p.text = h("textarea", { id: "text", rows: "1", placeholder: `Message to ${title}`, "aria-describedby": "keys" });
    p.lead = h("input", { type: "checkbox", id: "lead" });
    p.send = h("button", { type: "submit", class: "send" }, "Send");
    p.form = h("form", { class: "compose" },
      h("label", { class: "unseen", for: "text" }, `Message to ${title}`), p.text,
      h("div", { class: "compose-foot" },
        member === null ? h("label", { class: "check" }, p.lead, " also to the lead") : null,
        h("span", { class: "keys", id: "keys" }, h("kbd", null, mac ? "⌘" : "Ctrl"), " ", h("kbd", null, "Enter"), " sends"),
        p.send));
    p.closed = h("p", { class: "closed", hidden: true });
    this.#main.replaceChildren(h("section", { class: "talk", "aria-labelledby": "talk-title" },
      h("header", { class: "head" },
        h("a", { class: "back", href: "#/", "aria-label": "Back to teams and members" }, h("span", { "aria-hidden": "true" }, "‹")), p.head),
      p.scroll, h("div", { class: "foot" }, p.jump, p.notice, p.form, p.closed)));

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
    p.scroll.addEventListener("scroll", () => {
      this.#bottom = p.scroll.scrollHeight - p.scroll.scrollTop - p.scroll.clientHeight < 80;
      if (this.#bottom && !this.#history.newer) {
        this.#missed = 0;
        this.#showJump();
      }
    }, { passive: true });
    new ResizeObserver(() => this.#stick()).observe(p.scroll);
    this.#grow();
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

  // refresh shows anew what is known of the member, the team and the reader in it.
  refresh() {
    const p = this.#parts;
    if (!this.#place) return;
    const { team, member } = this.#place;
    const whose = JSON.stringify(this.#world.person(this.#place)?.ours ?? []);
    if (whose !== this.#whose) {
      this.#whose = whose;
      for (const item of this.#history.items) {
        const li = this.#item(item);
        item.li?.replaceWith(li);
        item.li = li;
      }
      this.#sync();
    }
    const t = this.#world.team(this.#place);
    const s = member === null ? null : this.#world.status(this.#place);
    const person = this.#world.person(this.#place);
    const head = h("div", { class: "head-text" },
      h("h1", { id: "talk-title", tabindex: "-1" }, member === null ? "Everyone" : said(member),
        h("span", { class: "in" }, h("span", { class: "unseen" }, " in team "), said(team))));
    if (!t) head.append(h("p", { class: "doing" }, "The team has ended; its history stays."));
    else if (s) head.append(h("p", { class: "doing" }, dot(s), state(s), this.#relay(s)));
    else if (member !== null) head.append(h("p", { class: "doing" }, "No agent of the team"));
    else head.append(h("p", { class: "doing" }, `${t.members} ${t.members === 1 ? "member" : "members"} · made ${dayOf(new Date(t.createdAt))} ${timeOf(new Date(t.createdAt))}`));
    morph(p.head, head);

    let closed = "";
    if (!t) closed = "Nothing can be sent to a team that has ended.";
    else if (t.problem) closed = `The team cannot be read: ${flat(t.problem)}`;
    else if (this.#world.readOnly) closed = "The service was started with --read-only: it sends nothing.";
    p.closed.hidden = !closed;
    p.form.hidden = Boolean(closed);
    setText(p.closed, closed);
    const deaf = t && person && !person.answerable && !closed;
    p.notice.hidden = !deaf;
    if (deaf && !p.notice.hasChildNodes()) {
      p.notice.append("Agents of this team cannot write to you yet. So that they can: ", h("code", null, `teambridge join --team ${flat(team)}`));
    } else if (!deaf) p.notice.replaceChildren();
  }

  #relay(s) {
    if (!s.relay) return null;
    const r = s.relay;
    const parts = [`relay ${flat(r.state)}`];
    if (r.queue > 0) parts.push(`${r.queue} under way`);
    if (r.deadLetters > 0) parts.push(`⚠ ${r.deadLetters} could not be given to it`);
    if (r.reason) parts.push(flat(r.reason));
    return h("span", { class: r.state === "dead" || r.deadLetters > 0 ? "warn" : null }, " · " + parts.join(", "));
  }

  // fill asks for a page and adds it.
  async #fill(range) {
    const load = ++this.#load;
    const history = this.#history;
    const { team, createdAt, member } = this.#place;
    const p = this.#parts;
    try {
      const page = await messages(team, { with: member ?? undefined, createdAt, limit: pageSize, ...range });
      if (load !== this.#load) return false;
      if (range.after === undefined) history.older = page.more;
      else history.newer = page.more;
      for (const r of page.messages) this.#take(r);
      setText(p.empty, "Nothing was said yet.");
    } catch (problem) {
      if (load !== this.#load) return false;
      // What was never recorded is no fault: a team that has just been made.
      setText(p.empty, problem.status === 404 ? "Nothing was said yet." : [problem.message, problem.hint].filter(Boolean).join(". "));
      if (problem.status === 0) this.#world.later(() => load === this.#load && this.#fill(range));
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
    const first = p.list.querySelector(".bubble"); // above it there may be a day, which goes
    const top = first.getBoundingClientRect().top;
    if (where === "newer") this.#bottom = false;
    await this.#fill(where === "older" ? { before: range.low } : { after: range.high });
    if (where === "older") p.scroll.scrollTop += first.getBoundingClientRect().top - top;
    button.disabled = false;
    if (button.hidden && document.activeElement === document.body) p.scroll.focus();
  }

  async #toEnd() {
    if (this.#history.newer) {
      this.open({ ...this.#place, at: null });
      return;
    }
    this.#missed = 0;
    this.#bottom = true;
    this.#stick();
    this.#showJump();
  }

  // point shows one message that was looked for.
  #point(seq) {
    const li = this.#history?.find(seq)?.li;
    if (!li) return;
    this.#bottom = false;
    li.scrollIntoView({ block: "center" });
    li.classList.add("found-here");
    li.setAttribute("tabindex", "-1");
    li.focus({ preventScroll: true });
  }

  // event takes a message that appeared, was read, or is gone.
  event(r, appeared) {
    const history = this.#history;
    if (!history?.has(r)) return;
    const range = history.range();
    if (history.newer && (!range || r.seq > range.high)) {
      if (appeared) this.#missed++;
      this.#showJump();
      return;
    }
    const did = this.#take(r);
    if (!did.fresh) {
      if (did.changed) this.#renew(did.item);
      return;
    }
    if (history.items.at(-1) === did.item) {
      did.item.li = this.#item(did.item);
      this.#parts.list.append(did.item.li);
      this.#dress(history.items.length - 1);
      this.#shown();
    } else this.#sync();
    if (appeared && !this.#bottom) {
      this.#missed++;
      this.#showJump();
    }
    if (appeared) did.item.li.classList.add("fresh");
    this.#stick();
  }

  receipt(receipt) {
    const item = this.#history?.receipt(receipt);
    if (item) {
      this.#renew(item);
      return;
    }
    // An agent that is fast takes a message before it is recorded, now and then
    // for good. What was sent from here is known here.
    const text = this.#world.outbox.text(receipt.id);
    const from = this.#world.person(receipt)?.from;
    if (text === undefined || !from) return;
    const at = receipt.verifiedAt ?? new Date().toISOString();
    this.event({
      seq: receipt.seq, team: receipt.team, createdAt: receipt.createdAt, inbox: receipt.member, id: receipt.id, from, text, summary: "",
      timestamp: at, firstSeen: at, kind: "message", read: false, gone: false, noise: false, receipt,
    }, true);
  }

  relayed(team, createdAt, inbox, id, fate) {
    const item = this.#history?.relayed(team, createdAt, inbox, id, fate);
    if (item) this.#renew(item);
  }

  #take(r) {
    const did = this.#history.add(r);
    if (!did.fresh && did.changed) this.#renew(did.item);
    this.#world.arrived(r.id);
    return did;
  }

  #showJump() {
    const { jump } = this.#parts;
    const n = this.#missed;
    setText(jump, n > 0 ? `${n} new ${n === 1 ? "message" : "messages"}` : "Newest messages");
    jump.hidden = n === 0 && !this.#history.newer;
  }

  // sync puts the elements of all messages in their order.
  #sync() {
    const { list } = this.#parts;
    let at = list.firstChild;
    for (const item of this.#history.items) {
      item.li ??= this.#item(item);
      if (item.li === at) at = at.nextSibling;
      else list.insertBefore(item.li, at);
    }
    this.#history.items.forEach((_, n) => this.#dress(n));
    this.#shown();
    this.#showJump();
    this.#stick();
  }

  // shown is called when other messages are shown.
  #shown() {
    const { older, newer, empty, waiting } = this.#parts;
    const any = this.#history.items.length > 0;
    older.hidden = !any || !this.#history.older;
    newer.hidden = !any || !this.#history.newer;
    empty.hidden = any || waiting.childElementCount > 0;
    this.seen();
  }

  // seen marks as read what is for the reader, if the reader can see it.
  seen() {
    if (!this.#history || document.visibilityState !== "visible") return;
    const person = this.#world.person(this.#place);
    const list = this.#history.items.flatMap((i) => i.records).filter((r) => !r.read && !r.gone && person?.ours.includes(r.inbox));
    if (list.length > 0) this.#world.seen(list);
  }

  // dress gives a message what depends on the one before.
  #dress(n) {
    const item = this.#history.items[n];
    const before = this.#history.items[n - 1];
    const r = item.records[0], b = before?.records[0];
    const day = dayOf(when(r));
    setAttr(item.li, "data-day", !b || dayOf(when(b)) !== day ? day : null);
    const first = item.li.firstElementChild;
    const has = first?.classList.contains("day");
    if (item.li.dataset.day && !has) item.li.prepend(h("p", { class: "day" }, h("span", null, day)));
    else if (item.li.dataset.day) setText(first.firstElementChild, day);
    else if (has) first.remove();
    const follows = b && !item.li.dataset.day && b.from === r.from && this.#to(before) === this.#to(item) &&
      when(r) - when(b) < together && r.kind === "message" && b.kind === "message";
    item.li.classList.toggle("follows", Boolean(follows));
  }

  #to(item) {
    return item.records.length > 1 ? "all" : item.records[0].inbox;
  }

  #item(item) {
    const li = h("li", { class: "message" });
    this.#write(item, li);
    return li;
  }

  #renew(item) {
    if (!item.li) return;
    const fresh = h("li", { class: "message" });
    this.#write(item, fresh);
    morph(item.li.querySelector(".bubble"), fresh.querySelector(".bubble"));
  }

  #write(item, li) {
    const r = item.records[0];
    const names = this.#world.names(this.#place);
    const mine = names.mine(r.from);
    const tome = names.mine(r.inbox);
    const at = when(r);
    li.classList.add(mine ? "mine" : tome ? "tome" : "between");
    const to = item.records.length > 1 ? `${item.records.length} members` : names.name(r.inbox);
    const { label, summary, text, raw } = content(r);
    const body = raw
      ? h("details", { class: "raw" }, h("summary", null, "Show it as it stands"), h("pre", null, said(text, true)))
      : text ? this.#text(r, text, item) : null;
    li.append(h("article", { class: "bubble", "data-seq": r.seq },
      h("header", { class: "by" },
        h("span", { class: "pair" }, h("b", null, said(names.name(r.from))), r.answer ? null : [" → ", said(to)]),
        label ? h("span", { class: "label" }, said(label)) : null,
        h("time", { datetime: r.firstSeen, title: wholeTime(at) }, timeOf(at))),
      summary ? h("p", { class: "summary", dir: "auto" }, said(summary)) : null,
      body,
      mine ? this.#fates(item) : this.#relayFate(r)));
  }

  #text(r, text, item) {
    const whole = this.#unfolded.has(r.seq);
    const cut = whole ? text : beginning(text);
    const parts = [h("p", { class: "text", dir: "auto" }, said(cut, true), cut.length < text.length ? "…" : null)];
    if (cut.length < text.length) {
      parts.push(h("button", { type: "button", class: "quiet", onclick: () => {
        this.#unfolded.add(r.seq);
        item.li.querySelector(".text").replaceChildren(said(text, true));
        item.li.querySelector(".text").nextElementSibling.remove();
      } }, `Show all of it (${size(text)})`));
    }
    return parts;
  }

  // fates tells what became of a message of ours, for each member it went to.
  #fates(item) {
    const several = item.records.length > 1;
    const names = this.#world.names(this.#place);
    return h("div", { class: "fates" }, item.records.map((r) => {
      const f = fate(r);
      const parts = [h("span", { class: "tick", "aria-hidden": "true" }, f.tick), " "];
      if (several) parts.push(h("b", null, said(names.name(r.inbox))), " ");
      parts.push(f.words);
      if (r.relay) parts.push(" · ", relayed(r.relay));
      const reach = this.#world.reach(r.inbox, r.id);
      if (reach && f.state === "verified") parts.push(h("span", { class: "warn" }, " · ⚠ " + reach));
      if (f.reason) parts.push(h("span", { class: "reason" }, ". ", said(f.reason), "."));
      if (f.state === "lost" || f.state === "unknown") {
        parts.push(" ", this.#resent.has(r.seq) ? h("span", { class: "done" }, "Sent again.")
          : h("button", { type: "button", class: "small", onclick: () => {
            this.#resent.add(r.seq);
            this.#renew(item);
            this.#write1({ member: r.inbox, text: r.text });
          } }, "Send again"));
      }
      return h("p", { class: "fate", "data-state": f.state, title: f.title || null }, parts);
    }));
  }

  #relayFate(r) {
    return r.relay ? h("div", { class: "fates" }, h("p", { class: "fate", "data-state": "relay" }, relayed(r.relay))) : null;
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
    if (this.#history.newer) this.open({ ...this.#place, at: null });
    this.#missed = 0;
    this.#bottom = true;
    this.#write1({ member, text, lead: p.lead.checked });
    this.#stick();
  }

  async #write1(what) {
    const { team, createdAt } = this.#place;
    this.#world.sent(await this.#world.outbox.write({ team, createdAt, ...what }));
  }

  // pending shows what was written and is not known to have arrived.
  pending() {
    if (!this.#place) return;
    const { team, createdAt, member } = this.#place;
    const p = this.#parts;
    const list = this.#world.outbox.of(team, createdAt, member)
      // While a message to all is on its way, what has arrived of it is shown already.
      .filter((e) => !(e.state === "sending" || e.state === "sent") || !this.#history.items.some((i) => i.records.some((r) => r.id.startsWith(e.key))));
    morph(p.waiting, h("ol", { class: "messages outbox", "aria-label": "Not sent yet" }, list.map((e) => h("li", { class: "message mine", "data-key": e.key + e.state },
      h("article", { class: "bubble" },
        h("p", { class: "text", dir: "auto" }, said(beginning(e.text), true)),
        h("div", { class: "fates" }, this.#waits(e)))))));
    p.waiting.hidden = list.length === 0;
    p.empty.hidden = this.#history.items.length > 0 || list.length > 0;
    this.#stick();
  }

  #waits(e) {
    if (e.state === "sending") return h("p", { class: "fate", "data-state": "sending" }, h("span", { class: "tick", "aria-hidden": "true" }, "…"), " sending");
    if (e.state === "sent") return h("p", { class: "fate", "data-state": "verified" }, h("span", { class: "tick", "aria-hidden": "true" }, "✓"), " in the inbox");
    const unsure = e.state === "unsure";
    const button = (words, act) => h("button", { type: "button", class: "small", onclick: act }, words);
    const again = async (force) => this.#world.sent(await this.#world.outbox.again(e, force));
    return h("p", { class: "fate", "data-state": unsure ? "unsure" : "failed", role: "alert" },
      h("span", { class: "tick", "aria-hidden": "true" }, "⚠"), unsure ? " not known to have arrived. " : " not sent. ",
      h("span", { class: "reason" }, said(e.detail), ". ", e.hint ? [said(e.hint), ". "] : null,
        unsure ? "Sending it again sends it once. " : null),
      e.code === "unknown" ? button("Send anyway", () => again(true)) : button("Send again", () => again(false)), " ",
      unsure ? null : button("Edit", () => {
        const t = this.#parts.text;
        t.value = [e.text, t.value].filter(Boolean).join("\n");
        t.dispatchEvent(new Event("input"));
        this.#world.outbox.drop(e.key);
        t.focus();
      }), " ",
      button("Discard", () => this.#world.outbox.drop(e.key)));
  }

  // focusHead moves to the top of the conversation, for those who came by keyboard
  // from a list that is not shown any more.
  focusHead() {
    document.getElementById("talk-title")?.focus();
  }
}

// when says when a message was written: as its sender has it, unless that cannot be.
function when(r) {
  const seen = new Date(r.firstSeen);
  const said = new Date(r.timestamp);
  return said <= seen ? said : seen; // false for what is no time
}

function beginning(text) {
  let end = Math.min(text.length, longText);
  let at = -1;
  for (let n = 0; n < longLines && at < end; n++) {
    at = text.indexOf("\n", at + 1);
    if (at < 0) at = end;
  }
  end = Math.min(end, at);
  // Not for a few letters more.
  return text.length - end < 200 ? text : text.slice(0, end).toWellFormed();
}

// content says how a message is shown. Structured texts are told in words where
// they are known; others as they stand.
export function content(r) {
  if (r.answer) return { label: "answers", text: r.answer.truncated ? r.text + "\n[the rest was not kept]" : r.text };
  if (r.kind === "message") return { summary: r.summary, text: r.text };
  let o = null;
  try {
    o = JSON.parse(r.text);
  } catch { /* it is shown as it stands */ }
  const text = (v) => (typeof v === "string" ? v : "");
  switch (o && r.kind) {
    case "idle_notification": {
      const reason = text(o.idleReason);
      return {
        label: reason === "failed" ? "⚠ failed" : reason === "interrupted" ? "was interrupted" : "went idle",
        summary: text(o.summary), text: text(o.result) || text(o.failureReason),
      };
    }
    case "shutdown_request":
      return { label: "asks it to shut down", text: text(o.reason) };
    case "shutdown_approved":
      return { label: "shuts down", text: "" };
    case "shutdown_rejected":
      return { label: "will not shut down", text: text(o.reason) };
    case "teammate_terminated":
      return { label: "ended", text: text(o.message) };
    case "task_assignment":
      return { label: "gives a task", summary: text(o.subject), text: text(o.description) };
    default:
      return { label: r.kind.replaceAll("_", " "), summary: r.summary, text: o ? JSON.stringify(o, null, 2) : r.text, raw: true };
  }
}

// fate says how far a message of ours came.
function fate(r) {
  const told = r.receipt;
  const time = (t) => (t ? wholeTime(new Date(t)) : "");
  if (told?.state === "lost" || told?.state === "unknown") {
    const words = told.state === "lost" ? "lost" : "not known to have been taken";
    return { state: told.state, tick: "⚠", words, reason: told.reason, title: time(told.lostAt) };
  }
  if (told?.state === "consumed" || r.read) {
    return { state: "consumed", tick: "✓✓", words: "taken", title: time(told?.consumedAt ?? r.readAt) };
  }
  // Taken, most likely; but another program may have overwritten it.
  if (r.gone) return { state: "verified", tick: "✓", words: "left the inbox", title: time(r.goneAt) };
  return { state: "verified", tick: "✓", words: "in the inbox", title: time(told?.verifiedAt) };
}

const fates = {
  claimed: "with the relay", written: "given to the agent", accepted: "the agent works on it", done: "done", cut: "⚠ cut off",
  cancelled: "cancelled", failed: "⚠ could not be given to the agent", dropped: "dropped", taken_by_agent: "taken by the agent itself",
};

function relayed(f) {
  return (fates[f.state] ?? flat(f.state)) + (f.reason ? `: ${flat(f.reason)}` : "");
}

