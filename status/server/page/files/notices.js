// Notices about agents: they went idle, were given a task, or end. A notice is one line, and
// consecutive ones share it.

import { escaped, h, long, morph, place } from "./dom.js";
import { notice, summaryOf } from "./notice.js";
import { when } from "./message.js";
import { short, timeOf, wholeTime } from "./text.js";

// Notices is one line. show can be called again with other notices: what the reader unfolded
// stays open.
export class Notices {
  #fold = h("details", { class: "notices" });
  #head = h("summary");
  #list = h("ol");

  constructor() {
    this.#fold.append(this.#head, this.#list);
    this.element = h("li", { class: "message quietly" }, this.#fold);
  }

  // show shows the notices of items. names has the names to show.
  show(items, names) {
    const alone = items.length === 1;
    if (alone) this.#fold.open = true;
    else if (this.#fold.classList.contains("alone")) this.#fold.open = false;
    this.#fold.classList.toggle("alone", alone);
    const last = when(items.at(-1).records[0]);
    morph(this.#head, h("summary", null, h("span", { class: "line" }, escaped(short(summaryOf(items.map((i) => notice(i.records[0])), names.name), 500))), time(last)));
    place(this.#list, items.map((item) => (item.step ??= line(item.records[0], names))));
  }
}

const time = (at) => h("time", { title: wholeTime(at) }, timeOf(at));

// line returns one notice, which unfolds if it has further text.
function line(r, names) {
  const { who, did, about, more } = notice(r);
  const said = [h("span", { class: "line" }, h("b", null, escaped(names.name(who))), " ", did, about ? [": ", long(about, false)] : null), time(when(r))];
  return h("li", { class: "step", "data-seq": r.seq }, more
    ? h("details", null, h("summary", null, said), h("p", { class: "text", dir: "auto" }, long(more)))
    : h("p", null, said));
}
