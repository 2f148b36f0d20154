// Cards: the questions of relayed agents, and the buttons that answer them.

import { content, Fields, ruleWords, title } from "./asked.js";
import { drawn, escaped, h, long, place, setText } from "./dom.js";
import { answer as sendAnswer, Problem } from "./request.js";
import { pathTo } from "./route.js";
import { flat, json, since, wholeTime } from "./text.js";

// settle is how long clicks are ignored after cards have moved, in ms: they were meant for the
// card that was there before.
const settle = 400;

const mostRule = 1000; // characters of a rule for the session
const mostRules = 10;

// Cards keeps one card for each question, whichever view shows it.
export class Cards {
  #cards = new Map(); // by question
  #page;
  #moved = -settle;
  #away; // the argument of the last show

  constructor(page) {
    this.#page = page;
  }

  // show draws in list the cards of the items for which wanted is true, and returns their number.
  // It calls away to move the focus if the card with the focus leaves and no other one is open.
  show(list, wanted, away) {
    this.#away = away;
    const asking = new Map();
    for (const a of this.#page.snapshot.attention) if (a.answerable && a.question) asking.set(keyOf(a), a);
    for (const [key, a] of asking) {
      const card = this.#cards.get(key);
      if (card) card.refresh(a);
      else this.#cards.set(key, new Card(a, this.#page, this));
    }
    for (const [key, card] of this.#cards) if (!asking.has(key) && !card.gone()) this.#cards.delete(key);
    const nodes = [...this.#cards.values()].filter((c) => wanted(c.attention)).map((c) => c.element);
    const before = [...list.children];
    const leaving = before.find((n) => !nodes.includes(n) && n.contains(document.activeElement));
    if (before.length === 0 ? nodes.length > 0 : before.some((n, at) => nodes[at] !== n)) this.#moved = performance.now();
    if (leaving) this.leave(leaving);
    place(list, nodes);
    return nodes.length;
  }

  // leave moves the focus from a card to the next open one.
  leave(element) {
    const all = [...element.parentElement.children];
    const at = all.indexOf(element);
    const next = [...all.slice(at + 1), ...all.slice(0, at)].find((n) => n.dataset.state === "open");
    if (next) next.focus();
    else this.#away?.();
  }

  // ignores reports whether a click was meant for a card that has just moved.
  ignores(e) {
    return e.detail > 0 && performance.now() - this.#moved < settle;
  }

  again() {
    this.#page.refresh();
  }

  forget(card) {
    this.#cards.delete(keyOf(card.attention));
    this.again();
  }
}

const keyOf = ({ question }) => question.id + question.digest;

// words for the answers, by the kind of the question.
const words = {
  permission: { allow: "Allow", deny: "Deny", allowed: "Allowed.", denied: "Denied." },
  plan: { allow: "Approve the plan", deny: "Keep planning", allowed: "Approved.", denied: "Not approved." },
  question: { allow: "Answer", deny: "Decline", allowed: "Answered.", denied: "Declined." },
};

// Card is one question. Its data-state is open, sending, answered or closed. A closed card can
// no longer be answered, and says why until the reader dismisses it.
class Card {
  #page;
  #cards;
  #fields = null;
  #body = h("div", { class: "ask-body" });
  #note = h("p", { class: "ask-note", role: "alert", hidden: true });
  #foot = h("div", { class: "ask-foot" });
  #time = h("time");
  #reason = h("textarea", { rows: "2", placeholder: "Why not? Sent to the agent (optional)", "aria-label": "Reason, sent to the agent" });

  constructor(a, page, cards) {
    this.#page = page;
    this.#cards = cards;
    this.attention = a;
    const q = a.question;
    const id = "ask-" + q.id;
    this.element = h("article", { class: "ask", "data-key": q.id, "data-kind": q.kind, "data-state": "open", tabindex: "-1", "aria-labelledby": id },
      h("header", { class: "ask-head" },
        h("h2", { id }, h("a", { href: pathTo(a.team, a.member) }, escaped(a.member)), " ", h("span", null, title(a))),
        h("span", { class: "in", title: flat(a.team) }, escaped(page.label(a.team))), this.#time),
      this.#body, this.#note, this.#foot);
    this.#reason.addEventListener("keydown", (e) => {
      if (e.isComposing) return;
      if (e.key === "Escape") {
        e.stopPropagation();
        this.#buttons();
        this.#foot.querySelector("[data-act=deny]")?.focus();
      } else if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
        e.preventDefault();
        this.#deny();
      }
    });
    this.refresh(a);
    if (a.partial) this.#load();
    else this.#fill(q);
  }

  get #state() {
    return this.element.dataset.state;
  }

  refresh(a) {
    const at = new Date(a.question.at);
    setText(this.#time, since(at));
    this.#time.title = wholeTime(at);
    if (this.#state === "closed") return;
    this.attention = { ...a, question: this.attention.partial && !this.attention.question.input ? a.question : this.attention.question };
  }

  // gone reports whether the card stays after its question has gone.
  gone() {
    if (this.#state === "sending" || this.#state === "closed") return true;
    const touched = this.#reason.value.trim() || this.#fields?.touched || this.#foot.contains(document.activeElement);
    if (this.#state === "answered" || !touched) return false;
    this.#close("No longer asked: it was answered elsewhere, or the agent withdrew it.");
    return true;
  }

  // load requests a question that is too long for snapshots.
  async #load() {
    this.#body.replaceChildren(h("p", { class: "ask-about" }, "Loading…"));
    try {
      const q = await this.#page.relays.question(this.attention);
      if (this.#state !== "open") return;
      if (q) this.#fill(q);
      else this.#close("No longer asked.");
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      this.#body.replaceChildren(h("p", { class: "ask-about" }, "The question cannot be loaded: ", escaped(problem.message), " ",
        h("button", { type: "button", class: "small", onclick: () => this.#load() }, "Try again")));
    }
  }

  #fill(q) {
    this.attention = { ...this.attention, question: q };
    const plain = (words) => [h("p", { class: "ask-about" }, words), h("pre", { class: "ask-code" }, long(json(q.input)))];
    this.#fields = q.kind === "question" ? { element: null } : null; // null: questions that cannot be drawn
    this.#body.replaceChildren(...drawn(() => {
      const shown = content(q);
      if (this.#fields) this.#fields = new Fields(q);
      if (this.#fields?.element) shown.push(this.#fields.element);
      else if (this.#fields) shown.push(...plain("The questions are in a form that cannot be answered here."));
      return shown;
    }, () => plain("⚠ This cannot be shown correctly. Its input is:")));
    this.#buttons();
  }

  #buttons() {
    const q = this.attention.question;
    const { allow, deny } = words[q.kind] ?? words.permission;
    const button = (act, does, ...label) => h("button", { type: "button", class: act === "allow" ? "send" : "quiet", "data-act": act,
      onclick: (e) => this.#cards.ignores(e) || does() }, label);
    const rules = (q.session ?? []).filter((rule) => rule.length <= mostRule).slice(0, mostRules); // a reader must see all of it
    this.#foot.replaceChildren(...[
      this.#fields && !this.#fields.element ? null : button("allow", () => this.#allow(), allow),
      ...rules.map((rule) => button("session", () => this.#send({ allow: true, session: rule }),
        "Allow for this session", ...(rules.length > 1 ? [": ", ...ruleWords(rule)] : []))),
      button("deny", () => this.#why(), deny + "…"),
      rules.length === 0 ? null : h("p", { class: "ask-rule" }, "For this session: ", rules.length > 1 ? "until the agent is restarted." : [...ruleWords(rules[0]), ", until the agent is restarted."]),
    ].filter(Boolean));
  }

  #why() {
    const { deny } = words[this.attention.question.kind] ?? words.permission;
    this.#foot.replaceChildren(this.#reason,
      h("button", { type: "button", class: "send", "data-act": "deny-now", onclick: (e) => this.#cards.ignores(e) || this.#deny() }, deny),
      h("button", { type: "button", class: "quiet", onclick: () => this.#buttons() }, "Back"));
    this.#reason.focus();
  }

  #deny() {
    this.#send({ allow: false, reason: this.#reason.value.trim() || undefined });
  }

  #allow() {
    if (!this.#fields) return this.#send({ allow: true });
    const { answers, missing } = this.#fields.answers();
    if (!missing) return this.#send({ allow: true, answers });
    this.#tell("Answer each question first.");
    missing.focus();
  }

  async #send(answer) {
    if (this.#state !== "open") return; // a second click
    const { question: q } = this.attention;
    this.element.dataset.state = "sending";
    this.#foot.setAttribute("aria-disabled", "true");
    this.#tell("");
    try {
      await sendAnswer(q.id, { question: q.id, digest: q.digest, ...answer });
      this.element.dataset.state = "answered";
      const { allowed, denied } = words[q.kind] ?? words.permission;
      this.#page.announce(`${flat(this.attention.member)}: ${answer.allow ? allowed : denied}`);
      this.#tell(answer.allow ? allowed : denied);
      if (this.element.contains(document.activeElement)) this.#cards.leave(this.element);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      await this.#failed(problem);
    }
    this.#foot.removeAttribute("aria-disabled");
    this.#cards.again();
  }

  // failed shows why an answer was refused. The current question decides whether another one is possible.
  async #failed(problem) {
    const q = this.attention.question;
    let now = q;
    try {
      if (problem.status === 404 || problem.status === 409) now = await this.#page.relays.question(this.attention);
    } catch { /* the next click reports it again */ }
    this.element.dataset.state = "open";
    if (!now) return this.#close(problem.status === 409 ? "Already answered" : "No longer asked", problem);
    if (now.digest !== q.digest || problem.status === 409) {
      this.#fill(now);
      return this.#tell("The agent asks for something else now", problem);
    }
    this.#tell(problem.uncertain ? "The service did not answer. Answering again does no harm" : "Not answered", problem);
  }

  #tell(text, problem) {
    this.#note.hidden = !text;
    // Without the part that the card shows already.
    const why = problem && /(?:no longer open|for another input|does not fit the question): (.*)$/s.exec(problem.message)?.[1];
    this.#note.replaceChildren(text, ...(problem ? [": ", escaped(why ?? problem.message), "."] : []));
  }

  #close(text, problem) {
    this.element.dataset.state = "closed";
    this.#tell(text, problem);
    const focus = this.element.contains(document.activeElement);
    this.#foot.replaceChildren(h("button", { type: "button", class: "quiet", "data-act": "dismiss", onclick: () => {
      this.#cards.leave(this.element);
      this.#cards.forget(this);
    } }, "Dismiss"));
    if (focus) this.#foot.firstElementChild.focus();
  }
}
