// Parts of the page that are loaded when somebody opens them, so that the page itself is small.

import { h, pageHead } from "./dom.js";

const sheets = new Map(); // that were loaded or are, by name

// styled loads a stylesheet, ahead of media.css, which prevails.
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

// later returns a function that loads a part once: what load, which imports it, resolves to. If
// that fails, it is tried again the next time.
export function later(load, ...styles) {
  let loading = null;
  return () => loading ??= Promise.all([load(), ...styles.map(styled)]).then(([part]) => part, (problem) => {
    loading = null;
    throw problem;
  });
}

// missing says that a part was not loaded. Its files come from the service, which may run no more,
// or be another version than the page that is open.
export const missing = (problem) => {
  console.warn(problem);
  return h("div", { class: "missing", role: "alert" }, h("p", null, "This part of the page could not be loaded. The service has ended, or was replaced by another version."),
    h("button", { type: "button", class: "quiet", onclick: () => location.reload() }, "Load the page again"));
};

// Later is a view that is loaded when it is opened. make returns it, given what load resolves to.
export class Later {
  #main;
  #load;
  #make;
  #title;
  #view = null;
  #route = null; // that is open

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
