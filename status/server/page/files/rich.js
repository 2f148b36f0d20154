// The elements of a Markdown text. marked splits the text into tokens, and each element is made here,
// as a node: no string ever becomes markup, whatever marked returns.

import { h } from "./dom.js";
import { getDefaults, Lexer, Tokenizer } from "./marked.js";
import { pieces } from "./text.js";

const mostText = 20000; // characters
const mostDepth = 20; // levels of elements
const mostElements = 5000; // a browser took half a minute for 50,000 paragraphs, and more for as many lines of one
const mostCells = 20000; // columns of the widest table times lines of the text
const mostMarks = 300; // of emphasis, links and code in a paragraph; others are text
const mostStacked = 1000; // marks on one letter: a browser took seconds for 50,000

const marks = /[*_~[\]!`]/gu;
const stacked = new RegExp(`\\p{M}{${mostStacked + 1}}`, "u");

// within reports whether a text can be parsed quickly, judging by its lines.
function within(text) {
  if (text.length > mostText || stacked.test(text)) return false;
  const lines = text.split("\n");
  let columns = 0;
  for (const line of lines) {
    if (!/[^-:| \t\r>]/.test(line)) columns = Math.max(columns, line.split("|").length);
    if (containers(line) > mostDepth && /[^- \t\r]/.test(line) && /[^* \t\r]/.test(line)) return false; // others are rules
  }
  return columns <= 1 || columns * lines.length <= mostCells;
}

// containers counts the marks of quotes and list items at the beginning of a line.
function containers(line) {
  const [start] = /^(?:>|[-+*](?=\s|$)|\d{1,9}[.)](?=\s|$)|[ \t])*/.exec(line);
  return start.replace(/[\d \t)]/g, "").length;
}

// Marks is a tokenizer without HTML, which is therefore text, and without reference definitions,
// which put an address far from its link.
class Marks extends Tokenizer {
  html() {}

  tag() {}

  def() {}

  // The rest of a row beyond the last column is one more cell, of text.
  table(src) {
    const token = super.table(src);
    if (!token) return token;
    const lines = token.raw.trimEnd().split("\n").slice(2);
    for (const [n, row] of token.rows.entries()) {
      const text = beyond(lines[n], token.header.length);
      if (text) row.push({ text, tokens: [{ type: "escape", text }] });
    }
    return token;
  }
}

// beyond returns the rest of a table's line after as many cells as there are columns.
function beyond(line, columns) {
  const text = line.trim().replace(/^\|/, "");
  for (let at = 0, cells = 0; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === "|" && ++cells === columns) return text.slice(at + 1).replace(/\|$/, "").trim();
  }
  return "";
}

// Reader takes all marks of a paragraph after the first mostMarks as text: marked compares each
// mark with those after it.
class Reader extends Lexer {
  inlineTokens(src, tokens) {
    marks.lastIndex = 0;
    for (let n = 0; n < mostMarks; n++) if (!marks.test(src)) return super.inlineTokens(src, tokens);
    const end = marks.lastIndex;
    const list = super.inlineTokens(src.slice(0, end), tokens);
    list.push({ type: "text", raw: src.slice(end), text: src.slice(end) });
    return list;
  }
}

class TooMuch extends Error {}

// draw returns the elements of a text, or null if it is over a limit and is to be shown as it was written.
export function draw(text) {
  if (!within(text)) return null;
  try {
    const options = { ...getDefaults(), tokenizer: new Marks() };
    return new Writer().blocks(new Reader(options).lex(text.toWellFormed()), 0);
  } catch (problem) { // such as a RangeError of too many calls
    if (!(problem instanceof TooMuch)) console.warn(problem);
    return null;
  }
}

// Writer makes the elements of tokens.
class Writer {
  #made = 0;
  #linked = false; // inside a link; links are never nested

  #h(name, attributes, ...children) {
    if (++this.#made > mostElements) throw new TooMuch();
    return h(name, attributes, ...children);
  }

  blocks(tokens, depth) {
    return tokens.flatMap((token) => this.#block(token, depth));
  }

  #block(token, depth) {
    if (depth > mostDepth) throw new TooMuch();
    switch (token.type) {
      case "space": return null;
      case "hr": return this.#h("hr");
      case "heading": return this.#h(`h${Math.min(token.depth + 3, 6)}`, null, this.#inline(token.tokens, depth)); // the page has headings above
      case "paragraph": return this.#h("p", null, this.#inline(token.tokens, depth));
      case "blockquote": return this.#h("blockquote", null, this.blocks(token.tokens, depth + 1));
      case "list": return this.#h(token.ordered ? "ol" : "ul", token.ordered && token.start !== 1 ? { start: token.start } : null,
        token.items.map((item) => this.#h("li", null, this.blocks(item.tokens, depth + 1))));
      case "code": return this.#h("div", { class: "code" }, h("button", { type: "button", class: "small copy", onclick: copy }, "Copy"),
        token.lang ? this.#h("span", { class: "lang" }, this.#text(unescape(token.lang))) : null,
        this.#h("pre", scrolls("Code"), this.#h("code", null, this.#text(token.text && token.text + "\n"))));
      case "table": return this.#h("div", { class: "table", ...scrolls("Table") }, this.#h("table", null, this.#h("thead", null, this.#row("th", token.header, depth)),
        token.rows.length > 0 ? this.#h("tbody", null, token.rows.map((row) => this.#row("td", row, depth))) : null));
      default: return this.#inline([token], depth); // the text of an item
    }
  }

  #row(name, cells, depth) {
    return this.#h("tr", null, cells.map((cell) => this.#h(name, null, this.#inline(cell.tokens, depth))));
  }

  #inline(tokens, depth) {
    if (depth > mostDepth) throw new TooMuch();
    return tokens.flatMap((token) => {
      switch (token.type) {
        case "strong": case "em": case "del": return this.#h(token.type, null, this.#inline(token.tokens, depth + 1));
        case "codespan": return this.#h("code", null, this.#text(token.text.replaceAll("\n", " ")));
        case "br": return this.#h("br");
        case "link": return this.#link(token, "", depth);
        case "image": return this.#link(token, "image", depth);
        case "checkbox": return [this.#h("input", { type: "checkbox", disabled: true, checked: token.checked, "aria-label": token.checked ? "done" : "to do" }), " "];
        case "escape": return this.#text(token.text);
        case "text": return token.tokens ? this.#inline(token.tokens, depth) : this.#lines(unescape(token.text));
        default: return this.#lines(token.raw);
      }
    });
  }

  // lines keeps line feeds: agents write for terminals.
  #lines(text) {
    return text.split("\n").flatMap((line, n) => [n > 0 ? this.#h("br") : null, ...this.#text(line)]);
  }

  #text(text) {
    return pieces(text, true).map(([t, isEscaped]) => (isEscaped ? this.#h("span", { class: "esc" }, t) : t));
  }

  // link makes a link, also from an image. An address that cannot be linked is shown as text, because agents
  // also link files.
  #link(token, kind, depth) {
    const to = unescape(token.href);
    const { href, host } = this.#linked ? { host: address(to).host } : address(to);
    const inside = this.#linked;
    this.#linked ||= href !== undefined;
    const content = token.text ? this.#inline(token.tokens ?? [{ type: "text", text: token.text }], depth + 1) : this.#text(to);
    this.#linked = inside;
    const shown = href ? this.#h("a", { href, rel: "noopener noreferrer nofollow", target: "_blank" }, content) : content;
    const same = token.autolink || (token.text || to) === to;
    const about = [kind, same ? "" : host ?? to, token.title && `"${unescape(token.title)}"`].filter(Boolean).join(" ");
    return [shown, about ? [" ", this.#h("span", { class: "host" }, "(", this.#text(about), ")")] : null].flat(2);
  }
}

// scrolls lets the keyboard scroll a wide element.
const scrolls = (label) => ({ tabindex: "0", role: "group", "aria-label": label });

// copy copies the code of a button. It starts from the button, because a message that is drawn
// again can reuse the button of another one.
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

// The forms of addresses that become links. Characters beyond ASCII can look like others; user names and
// backslashes let a browser and a reader see different hosts.
const web = /^(https?):\/\/((?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?)(?:[/?#].*)?$/is;
const mail = /^mailto:([a-z0-9._+-]+@[a-z0-9._-]+)$/i;

// address returns the href of a link, and the part of the address to show after its text; {} if the
// address does not become a link.
function address(to) {
  const [, scheme, host] = web.exec(to) ?? [];
  if (!scheme) return mail.test(to) ? { href: to, host: mail.exec(to)[1] } : {};
  const rest = to.slice(scheme.length + "://".length + host.length);
  return {
    href: `${scheme.toLowerCase()}://${host}${rest.replace(/[^!-~]|["'<>\\^`{|}]/gu, encodeURIComponent)}`,
    host: host + (rest.length > 1 ? "/…" : ""),
  };
}

const names = { amp: "&", lt: "<", gt: ">", quot: "\"", apos: "'", nbsp: "\u00a0" };

// unescape replaces numeric character references, and the named ones that write a mark of Markdown or HTML as text.
// Other names stay as they were written.
function unescape(text) {
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|(amp|lt|gt|quot|apos|nbsp));/g, (_, decimal, hex, name) => {
    if (name) return names[name];
    const n = decimal ? Number(decimal) : parseInt(hex, 16);
    return n === 0 || n > 0x10ffff || (n >= 0xd800 && n < 0xe000) ? "\ufffd" : String.fromCodePoint(n);
  });
}
