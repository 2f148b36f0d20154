// The cards of questions, which are loaded once an agent asks one.

import { later, missing } from "./later.js";

const load = later(() => import("./ask.js"), "diff.css", "ask.css");

// Cards is the interface of the cards for the views: see ask.js.
export class Cards {
  #page;
  #cards = null;

  constructor(page) {
    this.#page = page;
  }

  // show draws in list the cards of the items for which wanted is true, and returns their number.
  show(list, wanted, away) {
    if (this.#cards) return this.#cards.show(list, wanted, away);
    const asked = this.#page.snapshot.attention.filter((a) => a.answerable && a.question && wanted(a)).length;
    if (asked > 0) this.#load(list);
    return asked;
  }

  async #load(list) {
    try {
      const part = await load();
      if (this.#cards) return; // two snapshots waited for it
      this.#cards = new part.Cards(this.#page);
      list.replaceChildren();
      this.#page.refresh();
    } catch (problem) {
      if (!list.querySelector(".missing")) list.replaceChildren(missing(problem));
    }
  }
}
