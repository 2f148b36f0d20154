// Notifications of the browser about new items, while the page is hidden.

import { h, setAttr, setText } from "./dom.js";
import { content } from "./message.js";
import { pathTo } from "./route.js";
import { flat, gist, short } from "./text.js";

const off = "teambridge:notifications-off"; // in localStorage, if the reader turned them off
const loud = "teambridge:notifications-sound"; // in localStorage, if the reader turned their sound on

// Notifier notifies of each thing once, however often the stream connects again.
export class Notifier {
  #announce;
  #label;
  #known = null; // ids of the items that are not new
  #open = new Map(); // notifications of questions, by id
  #said = new Set(); // ids of messages with a notification

  // announce makes screen readers read a text, and label returns the name to show for a team.
  constructor(announce, label) {
    this.#announce = announce;
    this.#label = label;
  }

  // control returns the buttons that turn notifications and their sound on and off. Only the first asks the browser.
  control() {
    if (!("Notification" in globalThis)) return null;
    const button = h("button", { type: "button", class: "small toggle notices", onclick: async () => {
      if (Notification.permission === "default") await Notification.requestPermission();
      else if (Notification.permission === "granted") localStorage[this.#on ? "setItem" : "removeItem"](off, "1");
      show();
    } });
    const sound = h("button", { type: "button", class: "small toggle sound", onclick: () => {
      localStorage[this.#loud ? "removeItem" : "setItem"](loud, "1");
      show();
    } });
    const show = () => {
      const { permission } = Notification;
      setText(button, permission === "denied" ? "Notifications blocked" : this.#on ? "Notifications on" : "Turn on notifications");
      setAttr(button, "aria-pressed", this.#on ? "true" : "false");
      button.title = permission === "denied" ? "The browser blocks them. You can allow them in its settings for this page." : "For questions from agents, finished tasks and messages to you, while this page is hidden";
      sound.hidden = !this.#on;
      setText(sound, this.#loud ? "Sound on" : "Sound off");
      setAttr(sound, "aria-pressed", this.#loud ? "true" : "false");
    };
    show();
    return h("span", { class: "toggle" }, button, " ", sound);
  }

  get #loud() {
    return localStorage.getItem(loud) !== null;
  }

  get #on() {
    return Notification.permission === "granted" && localStorage.getItem(off) === null;
  }

  // snapshot notifies of new questions and finished tasks. Items from before the page was opened are not new.
  snapshot({ attention }) {
    const list = attention.filter((a) => a.answerable || a.kind === "done");
    const ids = new Set(list.map((a) => a.id));
    for (const [id, notice] of this.#open) {
      if (ids.has(id)) continue;
      notice.close(); // it was answered
      this.#open.delete(id);
    }
    const known = this.#known ?? ids;
    for (const a of list) {
      if (known.has(a.id)) continue;
      // The agent's own text is left out: a card shows all of it. For a permission, a.what names the tool.
      const what = flat(a.kind === "permission" ? a.what : a.words);
      this.#announce(`${flat(a.member)} in ${flat(this.#label(a.team))} ${what}`);
      this.#notify(a.id, `${flat(a.member)} ${what}`, flat(this.#label(a.team)), pathTo(a.team, a.member), this.#open);
    }
    this.#known = new Set([...known, ...ids]);
  }

  // message notifies of a new message to the reader.
  message(r) {
    const id = [r.team, r.createdAt, r.inbox, r.id].join("/");
    if (this.#said.has(id)) return;
    this.#said.add(id);
    const { label, summary, text } = content(r);
    this.#notify(id, `${flat(r.from)} in ${flat(this.#label(r.team))}`, short(r.kind === "message" ? summary || gist(text) : label || "A message", 160), pathTo(r.team, r.from));
  }

  #notify(id, title, body, hash, open) {
    if (document.visibilityState === "visible" || !("Notification" in globalThis) || !this.#on) return;
    try {
      // Several tabs show it once, since it has one tag.
      const notice = new Notification(title, { body, tag: "teambridge/" + id, icon: "/ui/icon.svg", silent: !this.#loud });
      notice.onclick = () => {
        window.focus();
        location.hash = hash;
        notice.close();
      };
      open?.set(id, notice);
    } catch { /* some browsers of phones require a service worker */ }
  }
}
