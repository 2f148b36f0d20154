// The actions of the keys.

import { showDialog } from "./dialog.js";
import { showHelp, step } from "./keys.js";
import { later, missing } from "./later.js";
import { places } from "./places.js";

const load = later(() => import("./switcher.js"));

// commands returns the actions of keys. go opens a path and moves the focus there.
export function commands(main, page, go) {
  const words = document.getElementById("words");
  const here = () => location.hash.split("?")[0] || "#/";
  // neighbor opens the next place in the list of teams for which wanted is true.
  function neighbor(by, wanted) {
    const list = places(page).filter((p) => !p.over || p.path === here());
    const at = Math.max(0, list.findIndex((p) => p.path === here()));
    for (let n = at + by; list[n]; n += by) if (wanted(list[n])) return go(list[n].path);
  }
  return {
    async switch() {
      if (!page.snapshot) return;
      try {
        const { openSwitcher } = await load();
        openSwitcher(page, go);
      } catch (problem) {
        showDialog("help", "Go to a team or member", missing(problem));
      }
    },
    search() {
      const filter = main.querySelector(".agents-filter"); // on Home
      const field = filter?.checkVisibility() ? filter : words;
      field.focus();
      field.select();
    },
    next: () => step(main, 1),
    previous: () => step(main, -1),
    write: () => main.querySelector("#text, .post-to")?.focus(),
    nextPlace: () => neighbor(1, () => true),
    previousPlace: () => neighbor(-1, () => true),
    nextUnread: () => neighbor(1, (p) => p.unread > 0),
    previousUnread: () => neighbor(-1, (p) => p.unread > 0),
    back: () => go(here() === "#/search" ? page.beforeSearch : page.narrow ? "#/teams" : "#/"),
    help: showHelp,
  };
}
