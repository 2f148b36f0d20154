// The box in the head of the page that searches for what is typed.

import { searchPath } from "./route.js";

const typing = 300; // ms without a key before words are searched for

// startSearchBox searches for the words that are typed. fields returns the fields of the open
// search, or null.
export function startSearchBox(words, { fields, go, goTo }) {
  let timer = 0;
  function start(done) {
    clearTimeout(timer);
    const q = words.value.trim();
    const to = searchPath({ ...fields(), q });
    if (done && q) {
      words.blur();
      goTo(to);
    } else if (!q) {
      if (fields()) history.back();
    } else if (fields() && location.hash !== to) {
      history.replaceState(null, "", to);
      go();
    } else location.hash = to;
  }
  words.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(start, typing);
  });
  words.form.addEventListener("submit", (e) => {
    e.preventDefault();
    start(true);
  });
}
