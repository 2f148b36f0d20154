// Where the reader is in a conversation: at its end, or above it with new messages below.

import { h, setText } from "./dom.js";

const near = 80; // px; anything closer to the end counts as the end
const above = 120; // px; at most as much of the seen messages is shown above the first unseen one

// Position keeps the end of a scrolled element in view while the reader is there, but scrolls
// past no message that the reader has not seen. sight knows those, more reports whether there
// are newer messages that are not loaded, and the button to the end calls toEnd.
export class Position {
  #scroll;
  #sight;
  #more;
  #bottom = true;
  #missed = 0; // new messages that are not loaded

  constructor(scroll, { sight, more, toEnd }) {
    this.#scroll = scroll;
    this.#sight = sight;
    this.#more = more;
    this.jump = h("button", { type: "button", class: "jump", hidden: true, onclick: toEnd });
    scroll.addEventListener("scroll", () => {
      this.#bottom = this.#below < near;
      this.show();
    }, { passive: true });
    new ResizeObserver(() => this.stick()).observe(scroll);
  }

  // below is the height of the content below the view, in px.
  get #below() {
    const s = this.#scroll;
    return s.scrollHeight - s.scrollTop - s.clientHeight;
  }

  get atEnd() {
    return this.#bottom && !this.#more();
  }

  // leave records that the reader is not at the end.
  leave() {
    this.#bottom = false;
  }

  // toEnd scrolls to the end, and stays there.
  toEnd() {
    this.#bottom = true;
    this.#scroll.scrollTop = this.#scroll.scrollHeight;
    this.show();
  }

  // start shows the first unseen message, or the end.
  start() {
    this.#bottom = true;
    this.#follow();
    this.show();
  }

  stick() {
    if (this.atEnd) this.#follow();
  }

  #follow() {
    const s = this.#scroll;
    if (s.clientHeight === 0) return;
    const { top } = s.getBoundingClientRect();
    const [first] = this.#sight.below(top);
    const margin = Math.min(above, s.clientHeight / 4);
    const most = first ? first.getBoundingClientRect().top - top - margin : Infinity;
    s.scrollTop += Math.min(this.#below, Math.max(0, most));
  }

  // center scrolls an element into the middle, and nothing else: scrollIntoView would also
  // scroll the document.
  center(element) {
    this.leave();
    const s = this.#scroll;
    const box = element.getBoundingClientRect();
    this.align(element, Math.max(20, (s.clientHeight - box.height) / 2));
  }

  // align scrolls so that the top of an element is offset px below the top of the view.
  align(element, offset) {
    const s = this.#scroll;
    s.scrollTop += element.getBoundingClientRect().top - s.getBoundingClientRect().top - offset;
    this.#bottom = this.#below < near;
    this.show();
  }

  // first returns the first element of a list that is in view, and how much it is below the
  // top of the view.
  first(elements) {
    const { top } = this.#scroll.getBoundingClientRect();
    for (const element of elements) {
      const box = element.getBoundingClientRect();
      if (box.bottom > top + 1) return { element, offset: box.top - top };
    }
    return null;
  }

  // came counts a new message that is not loaded.
  came() {
    this.#missed++;
    this.show();
  }

  show() {
    const { bottom } = this.#scroll.getBoundingClientRect();
    const n = this.#missed + this.#sight.unseen(this.#sight.below(bottom));
    setText(this.jump, n > 0 ? `${n} new ${n === 1 ? "message" : "messages"}` : "Jump to latest");
    this.jump.hidden = this.atEnd && n === 0;
  }
}
