// Where the reader is in a conversation: at its end, or above it with new messages below.

import { h, setText } from "./dom.js";

const near = 80; // px; so close to the end counts as the end

// Position keeps the end of a scrolled element in view while the reader is there. more reports
// whether newer messages are not loaded; toEnd is called by the button to the end.
export class Position {
  #scroll;
  #more;
  #bottom = true;
  #missed = 0;

  constructor(scroll, { more, toEnd }) {
    this.#scroll = scroll;
    this.#more = more;
    this.jump = h("button", { type: "button", class: "jump", hidden: true, onclick: toEnd }, "Newest messages");
    scroll.addEventListener("scroll", () => {
      this.#bottom = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < near;
      if (this.#bottom && !more()) {
        this.#missed = 0;
        this.show();
      }
    }, { passive: true });
    new ResizeObserver(() => this.stick()).observe(scroll);
  }

  // leave says that the reader is not at the end.
  leave() {
    this.#bottom = false;
  }

  // toEnd scrolls to the end, and stays there.
  toEnd() {
    this.#missed = 0;
    this.#bottom = true;
    this.stick();
    this.show();
  }

  stick() {
    if (this.#bottom && !this.#more()) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }

  // came counts a new message that the reader does not see.
  came() {
    if (!this.#bottom || this.#more()) this.#missed++;
  }

  show() {
    const n = this.#missed;
    setText(this.jump, n > 0 ? `${n} new ${n === 1 ? "message" : "messages"}` : "Newest messages");
    this.jump.hidden = n === 0 && !this.#more();
  }
}
