// The list of a conversation: messages and groups of steps in order, with days between them.

import { drawn, h, long, place, setAttr, setText } from "./dom.js";
import { when } from "./message.js";
import { Notices } from "./notices.js";
import { Steps } from "./steps.js";
import { dayOf, short } from "./text.js";
import { layout } from "./work.js";

const together = 5 * 60e3; // messages of one sender within this time, in ms, share a head

// record returns the first record of a block.
const record = (block) => (block.item ?? block.notices?.[0] ?? block.steps[0].item).records[0];

export class List {
  element = h("ol", { class: "messages" });
  blocks = []; // what is shown: see layout

  // show shows items. If end is true, only the last is new, and the others stay as they are. rows
  // makes the elements of messages; named says that steps need the name of their agent. The line
  // "New" is above the item divider, with a button that calls markRead.
  show(items, { rows, named, end, withSteps, over, divider, markRead }) {
    this.blocks = layout(items, { withSteps, over });
    const used = new Set();
    for (const b of this.blocks) {
      if (b.item) {
        b.li = b.item.li ??= rows.render(b.item);
        continue;
      }
      // A group that has grown at either end keeps its element.
      const list = b.notices ?? b.steps.map((s) => s.item);
      const group = list.map((i) => i.group).find((g) => g && !used.has(g)) ?? (b.notices ? new Notices() : new Steps());
      used.add(group);
      for (const i of list) i.group = group;
      b.li = drawn(() => {
        if (b.notices) group.show(list, rows.names());
        else group.show(b.steps, [named ? short(record(b).from, 100) : "", b.subagent ? "subagent" : ""].filter(Boolean).join(", "), named ? rows.color(record(b)) : null);
        return group.element;
      }, () => list[0].plain ??= h("li", { class: "message note" }, h("p", { class: "bubble" }, "⚠ This cannot be shown correctly: ", list.map((i) => [long(String(i.records[0].text), false), " "]).flat())));
    }
    place(this.element, this.blocks.map((b) => b.li));
    rows.fit(this.element);
    for (let n = end ? Math.max(0, this.blocks.length - 1) : 0; n < this.blocks.length; n++) this.#dress(n, divider, markRead);
  }

  // items lists the messages and notices that are shown.
  items() {
    return this.blocks.flatMap((b) => b.notices ?? (b.item ? [b.item] : []));
  }

  // dress adds to a block what depends on the ones before: its day, whether it is the first new
  // one, and whether a message has a head of its own.
  #dress(n, divider, markRead) {
    const block = this.blocks[n];
    const r = record(block), before = this.blocks[n - 1];
    const day = dayOf(when(r));
    setAttr(block.li, "data-day", !before || dayOf(when(record(before))) !== day ? day : null);
    const first = block.li.firstElementChild;
    const has = first?.classList.contains("day");
    if (block.li.dataset.day && !has) block.li.prepend(h("p", { class: "day" }, h("span", null, day)));
    else if (block.li.dataset.day) setText(first.firstElementChild, day);
    else if (has) first.remove();
    const isNew = divider !== null && (block.item === divider || Boolean(block.notices?.includes(divider)));
    const line = block.li.querySelector(":scope > .new");
    if (isNew && !line) {
      const made = h("p", { class: "new" }, h("span", null, "New"), h("button", { type: "button", class: "more", onclick: markRead }, "Mark as read"));
      if (block.li.dataset.day) block.li.firstElementChild.after(made);
      else block.li.prepend(made);
    } else if (!isNew) line?.remove();
    // Steps of an agent between two of its texts do not separate them.
    let at = n - 1;
    while (r.work && this.blocks[at]?.steps && record(this.blocks[at]).inbox === r.inbox) at--;
    const last = this.blocks[at]?.item;
    const b = last?.records[0];
    const to = (item) => (item.records.length > 1 ? "all" : item.records[0].inbox);
    const said = (r) => (r.work ? r.kind === "text" : r.kind === "message");
    const follows = block.item && b && !block.li.dataset.day && !isNew && b.from === r.from && to(last) === to(block.item) &&
      when(r) - when(b) < together && said(r) && said(b) && Boolean(r.work) === Boolean(b.work);
    block.li.classList.toggle("follows", Boolean(follows));
  }
}
