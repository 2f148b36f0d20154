// Views that say that there is nothing to show, and why.

import { escaped, h } from "./dom.js";

const code = (text) => h("pre", null, h("code", null, text));
const home = () => h("a", { class: "quiet", href: "#/" }, "Home");
const again = () => h("button", { type: "button", class: "send", onclick: () => location.replace("/") }, "Try again");

// what returns the title and the content of a view.
const what = {
  nothing: () => ["There is nothing here", h("p", null, "The page has no view with this address."), home()],
  "no team": ({ team }) => [["No team ", escaped(team)], h("p", null, "It does not exist, and has no history."), home()],
  "signed out": ({ expired }) => expired
    ? ["This link has expired", h("p", null, "A link works once, for one minute. For a new one, run:"), code("teambridge ui"), again()]
    : ["Sign in", h("p", null, "To open this page, run on this machine:"), code("teambridge ui"), again()],
};

// Empty shows these views.
export class Empty {
  #main;
  constructor(main) {
    this.#main = main;
  }
  open(route) {
    const [title, ...content] = what[route.view](route);
    this.#main.replaceChildren(h("div", { class: "welcome" },
      h("img", { src: "/ui/icon.svg", alt: "", width: "56", height: "56" }), h("h1", { id: "view-title", tabindex: "-1" }, title), content));
  }
  close() {}
  refresh() {}
}
