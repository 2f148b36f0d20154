// The keys of the page, and the dialog that lists them. No key does anything while the reader
// writes, except Ctrl+K and Esc, which leaves the field.

import { showDialog } from "./dialog.js";
import { h } from "./dom.js";

const mac = /Mac|iPhone|iPad/.test(navigator.platform);
const command = mac ? "⌘" : "Ctrl";

// Each key: its names, its description, its action, and whether an event is that key.
const plain = (key) => (e) => e.key === key && !e.ctrlKey && !e.metaKey && !e.altKey;
const alt = (key, shift) => (e) => e.key === key && e.altKey && e.shiftKey === shift && !e.ctrlKey && !e.metaKey;
const keys = [
  [[command, "K"], "Go to a team or member", "switch", (e) => e.key.toLowerCase() === "k" && (mac ? e.metaKey : e.ctrlKey) && !e.altKey && !e.shiftKey],
  [["/"], "Search messages; on Home, filter the agents", "search", plain("/")],
  [["j"], "Next message or agent", "next", plain("j")],
  [["k"], "Previous message or agent", "previous", plain("k")],
  [["Enter"], "Open the agent", null],
  [["c"], "Write a message", "write", plain("c")],
  [[command, "Enter"], "Send the message", null],
  [["Alt", "↓"], "Next conversation", "nextPlace", alt("ArrowDown", false)],
  [["Alt", "↑"], "Previous conversation", "previousPlace", alt("ArrowUp", false)],
  [["Alt", "Shift", "↓"], "Next conversation with unread messages", "nextUnread", alt("ArrowDown", true)],
  [["Alt", "Shift", "↑"], "Previous conversation with unread messages", "previousUnread", alt("ArrowUp", true)],
  [["Esc"], "Leave a field; then go back", "back", plain("Escape")],
  [["?"], "Show these keys", "help", plain("?")],
];

// startKeys calls actions, by their names, when their keys are pressed.
export function startKeys(actions) {
  addEventListener("keydown", (e) => {
    if (e.isComposing || e.defaultPrevented) return;
    const action = keys.find(([, , , meant]) => meant?.(e))?.[2];
    if (!action) return;
    const field = e.target.closest?.("input, textarea, select, [contenteditable]");
    const dialog = document.querySelector("dialog[open]");
    if (action === "switch") {
      e.preventDefault();
      if (dialog?.classList.contains("switcher")) dialog.close();
      else actions.switch();
    } else if (dialog) {
      return; // Esc closes it
    } else if (field) {
      if (action !== "back") return;
      e.preventDefault(); // a search field would be emptied
      field.blur();
    } else {
      e.preventDefault();
      actions[action]();
    }
  });
}

// showHelp lists the keys.
export function showHelp() {
  const dialog = showDialog("help", "Keys",
    h("header", null, h("h2", null, "Keys"), h("button", { type: "button", class: "small", onclick: () => dialog.close() }, "Close")),
    h("dl", null, keys.map(([names, what]) => h("div", null, h("dt", null, names.map((n) => h("kbd", null, n))), h("dd", null, what)))));
}

// step moves the focus to the next or previous message, or other row, of a view.
export function step(main, by) {
  const rows = [...main.querySelectorAll(".messages > li, .hit, [data-row]")].filter((e) => e.checkVisibility());
  let at = rows.findIndex((e) => e.contains(document.activeElement));
  if (at < 0) { // the first or the last one that is in view
    const { top, bottom } = (main.querySelector(".scroll") ?? main).getBoundingClientRect();
    const seen = rows.filter((e) => (({ top: t, bottom: b }) => b > top && t < bottom)(e.getBoundingClientRect()));
    at = rows.indexOf(seen.at(by > 0 ? 0 : -1)) - by;
  }
  const row = rows[at + by];
  if (!row) return;
  if (!row.matches("a")) row.setAttribute("tabindex", "-1");
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}
