// Loads parts of the page when they are opened, so that the page itself is small.

import { h, pageHead } from "./dom.js";

const sheets = new Map(); // promises of stylesheets, by name

// styled loads a stylesheet, and puts it before media.css, which prevails.
function styled(name) {
  if (!sheets.has(name)) sheets.set(name, new Promise((resolve, reject) => {
    const link = h("link", { rel: "stylesheet", href: "/ui/" + name });
    link.onload = resolve;
    link.onerror = () => {
      link.remove();
      sheets.delete(name);
      reject(new Error("no " + name));
    };
    document.querySelector('link[href="/ui/media.css"]').before(link);
  }));
  return sheets.get(name);
}

// later returns a function that loads a part once, and resolves to the result of load, which
// imports it. After a failure, the next call tries again.
export function later(load, ...styles) {
  let loading = null;
  return () => loading ??= Promise.all([load(), ...styles.map(styled)]).then(([part]) => part, (problem) => {
    loading = null;
    throw problem;
  });
}

// missing says that a part was not loaded. The service, which has its files, may have ended, or may
// be another version than the open page.
export const missing = (problem) => {
  console.warn(problem);
  return h("div", { class: "missing", role: "alert" }, h("p", null, "This part of the page could not be loaded. The service has ended, or was replaced by another version."),
    h("button", { type: "button", class: "quiet", onclick: () => location.reload() }, "Reload the page"));
};

// Later is a view that is loaded when it is opened. make makes it from the result of load.
export class Later {
  #main;
  #load;
  #make;
  #title;
  #view = null;
  #route = null; // the open one

  constructor(main, title, load, make) {
    this.#main = main;
    this.#title = title;
    this.#load = load;
    this.#make = make;
  }

  async open(route) {
    this.#route = route;
    if (this.#view) return this.#view.open(route);
    const body = h("p", { class: "empty", role: "status" }, "Loading…");
    const shown = h("section", { class: "talk", "aria-labelledby": "view-title" },
      pageHead(h("div", { class: "head-text" }, h("h1", { id: "view-title", tabindex: "-1" }, this.#title))), h("div", { class: "scroll" }, h("div", { class: "column" }, body)));
    this.#main.replaceChildren(shown);
    try {
      const part = await this.#load();
      if (this.#route !== route) return;
      this.#view ??= this.#make(part);
    } catch (problem) {
      if (this.#route === route) body.replaceWith(missing(problem));
      return;
    }
    const focus = shown.contains(document.activeElement);
    this.#view.open(route);
    if (focus) this.#main.querySelector("h1").focus();
  }

  close() {
    this.#route = null;
    this.#view?.close();
  }

  refresh() {
    if (this.#route) this.#view?.refresh();
  }
}
