// Messages as HTML, which the service makes of their Markdown.

import { h } from "./dom.js";

// mostHTML is how many characters are enough for the beginning of a message.
export const mostHTML = 8000;

// beginningOf returns the first characters of HTML that the service made, without half a tag or
// half a reference at the end. What is open there is closed by the browser.
export function beginningOf(html, most = mostHTML) {
  if (html.length <= most) return html;
  const start = html.slice(0, most);
  const tag = start.lastIndexOf("<"), reference = start.lastIndexOf("&");
  if (tag >= 0 && !start.includes(">", tag)) return start.slice(0, tag);
  return reference >= 0 && !start.includes(";", reference) ? start.slice(0, reference) : start;
}

// started returns the beginning of a record that the service rendered, and a button for all.
export function started({ html }) {
  if (html.length <= mostHTML) return rendered({ html });
  const box = h("div", { class: "started" }, rendered({ html: beginningOf(html) }), h("button", { type: "button", class: "more", onclick: () => {
    const all = rendered({ html });
    all.tabIndex = -1;
    box.replaceWith(all);
    all.focus();
  } }, "Show more"));
  return box;
}

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
