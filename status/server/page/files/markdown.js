// Messages as HTML, which the service makes of their Markdown.

import { h } from "./dom.js";

// rendered returns the content of a record that the service rendered. Nothing else of the page
// makes markup of a string. The service escapes the text, and writes a few elements without
// scripts, styles or images; the policy of the page would run none either.
export function rendered({ html }) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const body = h("div", { class: "text rich", dir: "auto" }, template.content);
  for (const box of body.querySelectorAll(".code, .table")) {
    const wide = box.querySelector("pre") ?? box;
    const isCode = wide !== box;
    // So that the keyboard can scroll it.
    for (const [name, value] of Object.entries({ tabindex: "0", role: "region", "aria-label": isCode ? "Code" : "Table" })) wide.setAttribute(name, value);
    if (isCode) box.prepend(h("button", { type: "button", class: "small copy", onclick: copy }, "Copy"));
  }
  return body;
}

// copy copies the code that a button belongs to. It finds it from the button: a message that is
// shown again can reuse the button of another one.
async function copy({ currentTarget: button }) {
  let words = "Copied";
  try {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
  } catch {
    words = "Not copied";
  }
  button.textContent = words;
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}
