// Modal dialogs. The browser keeps the focus inside, closes them with Esc, and returns the
// focus to where it was.

import { h } from "./dom.js";

// showDialog shows a dialog with a name, over everything else. It closes with a click outside,
// and is removed then.
export function showDialog(kind, name, ...content) {
  document.querySelector("dialog[open]")?.close();
  const dialog = h("dialog", { class: kind, "aria-label": name }, h("div", { class: "inside" }, content));
  dialog.addEventListener("click", (e) => e.target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
