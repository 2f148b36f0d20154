// Notices which messages the reader has seen: enough of them was in view while the page was visible.

const steps = Array.from({ length: 51 }, (_, n) => n / 50); // fine steps, for the visible part of a high message

export class Sight {
  #waiting = new Map(); // items that were not seen, by element; notices share one
  #inView = new Set(); // elements
  #observer;
  #saw;

  // root is the scrolled element. saw is called with the items that the reader has just seen.
  constructor(root, saw) {
    this.#saw = saw;
    this.#observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting, intersectionRatio, intersectionRect, rootBounds } of entries) {
        const enough = isIntersecting && (intersectionRatio >= 0.5 || intersectionRect.height >= rootBounds.height / 2);
        this.#inView[enough ? "add" : "delete"](target);
      }
      this.look();
    }, { root, threshold: steps });
  }

  // watch waits until the reader sees an item.
  watch(item, element) {
    if (!this.#waiting.has(element)) {
      this.#waiting.set(element, new Set());
      this.#observer.observe(element);
    }
    this.#waiting.get(element).add(item);
  }

  // look reports the items in view as seen, if the page is visible.
  look() {
    if (document.visibilityState !== "visible") return;
    const seen = [];
    for (const element of this.#inView) seen.push(...(this.#waiting.get(element) ?? []));
    this.forget(this.#inView);
    if (seen.length > 0) this.#saw(seen);
  }

  // drop stops waiting for an item.
  drop(item) {
    for (const [element, items] of this.#waiting) {
      if (items.delete(item) && items.size === 0) this.forget([element]);
    }
  }

  // forget stops waiting for the items of elements; without argument, for all.
  forget(elements = this.#waiting.keys()) {
    for (const element of [...elements]) {
      this.#observer.unobserve(element);
      this.#waiting.delete(element);
      this.#inView.delete(element);
    }
  }

  // below returns the elements of items that were not seen and end below y, a position in the
  // window, from the top.
  below(y) {
    return [...this.#waiting.keys()].filter((e) => e.isConnected).map((e) => [e, e.getBoundingClientRect()])
      .filter(([, box]) => box.height > 0 && box.bottom > y + 1).sort(([, a], [, b]) => a.top - b.top).map(([e]) => e);
  }

  // unseen counts the items of elements.
  unseen(elements) {
    return elements.reduce((n, e) => n + this.#waiting.get(e).size, 0);
  }
}
