// What is new in a conversation: the messages that the reader has not read or not seen, and
// where the line "New" is.

import { Sight } from "./sight.js";

export class Reading {
  divider = null; // the first item that was not read, when the conversation was opened or the reader was away
  opening = true; // until the messages to start with are loaded
  #view;
  #fresh = new Set(); // items that came while the reader was away, and were not seen
  #saw;

  // view is the conversation, and scroll its scrolled element. saw is called after messages were seen.
  constructor(view, scroll, saw) {
    this.#view = view;
    this.#saw = saw;
    this.sight = new Sight(scroll, (items) => this.#seen(items));
  }

  // unread returns the records of an item that the reader has not read.
  unread(item) {
    const mine = this.#view.mine();
    return item.records.filter((r) => !r.read && !r.gone && !r.work && !r.noise && mine.includes(r.inbox));
  }

  get #items() {
    return this.#view.history.items;
  }

  // find looks for the first unread item of a conversation that is being opened.
  find() {
    if (this.opening) this.divider = this.#items.find((i) => this.unread(i).length > 0) ?? null;
  }

  // watch waits until the reader has seen the new ones of the shown items.
  watch(items) {
    for (const item of items) {
      if (this.#fresh.has(item) || this.unread(item).length > 0) this.sight.watch(item, item.notice ? item.group.element : item.li.querySelector(".bubble"));
    }
  }

  // came takes an item that appeared while the reader was away. It reports whether the divider
  // has moved to it, since all before it was read.
  came(item) {
    this.#fresh.add(item);
    if (this.unread(item).length === 0 || this.#items.some((i) => i !== item && this.unread(i).length > 0)) return false;
    this.divider = item;
    return true;
  }

  // changed takes an item that may have been read elsewhere.
  changed(item) {
    if (!this.#fresh.has(item) && this.unread(item).length === 0) this.sight.drop(item);
  }

  // markRead marks all messages as read.
  markRead() {
    this.#seen(this.#items.filter((i) => this.unread(i).length > 0));
  }

  #seen(items) {
    for (const item of items) {
      this.#fresh.delete(item);
      this.sight.drop(item);
    }
    const list = items.flatMap((i) => this.unread(i));
    if (list.length > 0) this.#view.page.seen(list);
    this.#saw();
  }
}
