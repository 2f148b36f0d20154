// The elements that the page makes of Markdown. They are nodes from the start: nothing parses them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const written = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// An element that can be written as HTML, so that tests can be read.
class Element {
  attributes = {};
  children = [];
  constructor(name) {
    this.name = name;
  }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(kind, f) { this["on" + kind] = f; }
  append(child) { this.children.push(child); }
  get html() {
    const attributes = Object.entries(this.attributes).map(([k, v]) => (v === "" ? ` ${k}` : ` ${k}="${v}"`)).join("");
    return `<${this.name}${attributes}>${this.inside}` + (["br", "hr", "input"].includes(this.name) ? "" : `</${this.name}>`);
  }
  get inside() {
    return this.children.map((c) => (typeof c === "string" ? written(c) : c.html)).join("");
  }
  get text() {
    return this.children.map((c) => (typeof c === "string" ? c : c.text)).join("");
  }
}
globalThis.document = { createElement: (name) => new Element(name), createDocumentFragment: () => new Element("") };

const { draw } = await import("./rich.js");
const { h } = await import("./dom.js");

// drawn returns the element of a text; null if it is over a limit.
function drawn(text) {
  const nodes = draw(text);
  return nodes && h("div", null, nodes);
}

const link = ' rel="noopener noreferrer nofollow" target="_blank">';
const code = '<div class="code"><button type="button" class="small copy">Copy</button>', pre = '<pre tabindex="0" role="group" aria-label="Code"><code>';
const table = '<div class="table" tabindex="0" role="group" aria-label="Table"><table>';

test("Markdown becomes elements", () => {
  for (const [text, want] of Object.entries({
    "a *b* **c** ~~d~~ `e`": "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>",
    "a\nb": "<p>a<br>b</p>",
    "# a\n## b\n###### c": "<h4>a</h4><h5>b</h5><h6>c</h6>",
    "- a\n- b\n  1. c": "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>",
    "3. a": '<ol start="3"><li>a</li></ol>',
    "- [x] a\n- [ ] b": '<ul><li><input type="checkbox" disabled checked aria-label="done"> a</li><li><input type="checkbox" disabled aria-label="to do"> b</li></ul>',
    "> a": "<blockquote><p>a</p></blockquote>",
    "---": "<hr>",
    "```go\na < b\n\tc\n```": `${code}<span class="lang">go</span>${pre}a &lt; b\n\tc\n</code></pre></div>`,
    "```sh a | b\n```": `${code}<span class="lang">sh a | b</span>${pre}</code></pre></div>`,
    "a|b\n-|-\nc|d": `${table}<thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>c</td><td>d</td></tr></tbody></table></div>`,
    "|`a\\|b`|c\\| |\n|-|-|": `${table}<thead><tr><th><code>a|b</code></th><th>c|</th></tr></thead></table></div>`,
    "a|b\n-|-\nc|d|*e*|f|": `${table}<thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>c</td><td>d</td><td>*e*|f</td></tr></tbody></table></div>`,
    "`a\\|b`": "<p><code>a\\|b</code></p>",
    "<b>a</b>": "<p>&lt;b&gt;a&lt;/b&gt;</p>",
    "<div>\n\na": "<p>&lt;div&gt;</p><p>a</p>",
    "&lt;b&gt; \\*a\\* &amp;lt; &#60;i&#x3e; &copy;": "<p>&lt;b&gt; *a* &amp;lt; &lt;i&gt; &amp;copy;</p>",
    "a\u202eb\x1b": '<p>a<span class="esc">\\u202e</span>b<span class="esc">\\e</span></p>',
    "[a](https://b.example 'c \"d')": `<p><a href="https://b.example"${link}a</a> <span class="host">(b.example "c "d")</span></p>`,
    "[https://b.example](https://b.example (c))": `<p><a href="https://b.example"${link}https://b.example</a> <span class="host">("c")</span></p>`,
    "[a](https://b.example/c?d=1&e=2)": `<p><a href="https://b.example/c?d=1&e=2"${link}a</a> <span class="host">(b.example/…)</span></p>`,
    "https://b.example/c": `<p><a href="https://b.example/c"${link}https://b.example/c</a></p>`,
    "(www.b.example/c_(d)), e": `<p>(<a href="http://www.b.example/c_(d)"${link}www.b.example/c_(d)</a>), e</p>`,
    "https://b.example@c.example": "<p>https://b.example@c.example</p>",
    "[https://a.example](https://b.example)": `<p><a href="https://b.example"${link}https://a.example</a> <span class="host">(b.example)</span></p>`,
    "[main](cmd/main.go)": '<p>main <span class="host">(cmd/main.go)</span></p>',
    "[main.go](main.go)": "<p>main.go</p>",
    "[a](javascript:b)": '<p>a <span class="host">(javascript:b)</span></p>',
    "[a]: https://b.example\n\n[a]": `<p>[a]: <a href="https://b.example"${link}https://b.example</a></p><p>[a]</p>`,
    "a@b.example": `<p><a href="mailto:a@b.example"${link}a@b.example</a></p>`,
    "![a](https://b.example/c.png)": `<p><a href="https://b.example/c.png"${link}a</a> <span class="host">(image b.example/…)</span></p>`,
    "[![a](https://b.example)](https://c.example)": `<p><a href="https://c.example"${link}a <span class="host">(image b.example)</span></a> <span class="host">(c.example)</span></p>`,
  })) assert.equal(drawn(text)?.inside, want, JSON.stringify(text));
});

// The elements, and the form of their attributes.
const label = /^(Code|Table)$/, group = { tabindex: /^0$/, role: /^group$/, "aria-label": label };
const allowed = {
  p: {}, br: {}, hr: {}, h4: {}, h5: {}, h6: {}, blockquote: {}, ul: {}, li: {}, em: {}, strong: {}, del: {}, code: {}, table: {}, thead: {}, tbody: {}, tr: {}, th: {}, td: {},
  ol: { start: /^\d{1,9}$/ }, div: { class: /^(code|table)$/, ...group }, pre: group, span: { class: /^(lang|host|esc)$/ },
  button: { type: /^button$/, class: /^small copy$/ },
  input: { type: /^checkbox$/, disabled: /^$/, checked: /^$/, "aria-label": /^(done|to do)$/ },
  a: { href: /^(https?:\/\/([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?([/?#][!-~]*)?|mailto:[\w.+-]+@[\w.-]+)$/i, rel: /^noopener noreferrer nofollow$/, target: /^_blank$/ },
};
const unsafe = /[^\P{C}\n\t\u200c\u200d\p{Cn}\p{Co}]|[\u2028\u2029]/u;

function check(element, text, inside = []) {
  for (const c of element.children) {
    if (typeof c === "string") {
      assert.doesNotMatch(c, unsafe, JSON.stringify(text));
      continue;
    }
    const attributes = allowed[c.name];
    assert.ok(attributes, `${c.name} of ${JSON.stringify(text)}`);
    for (const [name, value] of Object.entries(c.attributes)) assert.match(String(value), attributes[name] ?? /^never$/, `${c.name} ${name} of ${JSON.stringify(text)}`);
    if (c.name === "a") assert.ok(Object.keys(c.attributes).length === 3 && !inside.includes("a"), `a link of ${JSON.stringify(text)}`);
    assert.ok(inside.length < 100, "too deep");
    check(c, text, [...inside, c.name]);
  }
}

const hostile = JSON.parse(readFileSync(new URL("markdown.json", import.meta.url)));

test("of whatever text, only what is allowed is made", () => {
  for (const t of hostile) {
    for (const text of [t, `> ${t}`, `- a\n\n  ${t}`, `# ${t}`, `|${t}|\n|-|\n|${t}|`, `*${t}*`, `[${t}](https://a.example)`, `![${t}](https://a.example)`, `[a](${t})`, `<${t}>`, `\`\`\`${t}\n${t}`]) {
      const made = drawn(text);
      assert.ok(made, `${JSON.stringify(text)} is over a limit`);
      check(made, text);
    }
  }
});

test("what is over a limit is not drawn, and what is at it is", () => {
  const row = (cell, n) => `|${cell}`.repeat(n) + "|\n";
  const lists = (depth) => Array.from({ length: depth }, (_, n) => "  ".repeat(n) + "- a\n").join("");
  for (const [name, [within, over]] of Object.entries({
    text: ["a".repeat(20000), "a".repeat(20001)],
    quotes: ["> ".repeat(19) + "a", "> ".repeat(21) + "a"],
    lists: [lists(19), lists(22)],
    numbers: ["1.5 ".repeat(50), "1. ".repeat(50) + "a"],
    rules: ["- ".repeat(50) + "\n\n" + "* ".repeat(50), "+ ".repeat(50)],
    table: [row("a", 10) + row("-", 10) + "|\n".repeat(300), row("a", 10) + row("-", 10) + "|\n".repeat(2000)],
    accents: ["a" + "\u0301".repeat(1000), "a" + "\u0301".repeat(1001)],
    elements: ["a\n".repeat(2000), "a\n".repeat(6000)],
    escapes: ["a\x01".repeat(1000), "*a*\x01\n\n".repeat(2000)],
  })) {
    assert.ok(draw(within), `${name}: ${within.slice(0, 60)}`);
    assert.equal(draw(over), null, `${name}: ${over.slice(0, 60)}`);
  }
});

test("in each paragraph only the first marks count", () => {
  for (const [mark, name, want] of [["*a* ", "</em>", 150], ["~~a~~ ", "</del>", 75], ["`a` ", "</code>", 150], ["[a](https://b.example) ", "</a>", 150]]) {
    const made = drawn(`${mark.repeat(400)}\n\n${mark.repeat(400)}`).inside.split(name).length - 1;
    if (mark[0] === "[") assert.ok(made > 2 * want - 4, `${mark}: ${made}`);
    else assert.equal(made, 2 * want, mark);
  }
});

// lost returns the words of three letters that are neither drawn nor in an address that ends with "/…".
function lost(text) {
  const made = drawn(text);
  if (!made) return []; // it is shown as it is
  const shown = made.inside;
  return text.match(/[a-z]+/g)?.filter((word) => word.length === 3 && !shown.includes(word)) ?? [];
}

test("no word is left out: people approve what they read", () => {
  for (const text of [
    "|aaa|bbb|\n|-|-|\n|ccc|ddd|eee|fff|\n|ggg\n||hhh|iii\n|jjj|`kkk\\|lll`|mmm", "> |aaa|\n> |-|\n> |bbb|ccc\n",
    "```aaa bbb `ccc\nddd\n```eee", "~~~aaa ``` bbb\nccc\n~~~", "# aaa ### bbb ###\nccc\n---", "<!-- aaa --> <bbb ccc=\"ddd\"> <eee", "[aaa]: https://bbb.example 'ccc'\n\n[aaa]",
    "[aaa](bbb 'ccc') ![ddd](eee \"fff\") [](ggg 'hhh')", "[aaa](https://bbb.example/ccc?ddd#eee \"fff\") <https://ggg.example> hhh@iii.example",
    "- [x] aaa\n- [ ] bbb\n10. ccc\n    ddd\n\n      eee", "aaa\\\nbbb  \nccc &copy; &ddd; \\eee", "***aaa** bbb* ~~ccc~~ `` ddd ` eee ``", "\taaa\n\n    bbb\x00ccc\x1bddd",
  ]) assert.deepEqual(lost(text), [], text);
});

let state = 7;
function one(list) { // the same in each run
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return list[Math.floor(state / 2 ** 32 * list.length)];
}

test("of random Markdown, no word is left out and only what is allowed is made", () => {
  const atoms = ["`", "```", "~~~", "[", "](", ")", "![", "*", "**", "_", "__", "~~", "> ", "- ", "+ ", "1. ", "# ", "|", "\n|-|-|\n", "|-", "\n", "\n", "\n\n", "  ", "    ", "\t", " ", "<", ">", "<!--", "-->", "<div>", "</b>",
    "\\", "&amp;", "&#60;", "&", ":", "]: ", "[x] ", "[ ] ", "---", "===", "https://a.example/", "www.", "@", "'", "\"", "(", "{", "\x01", "\u202e"];
  const rounds = Number(process.env.TEAMBRIDGE_MARKDOWN_ROUNDS ?? 3000);
  for (let round = 0; round < rounds; round++) {
    let text = "", n = 0;
    for (let size = 3 + round % 30; size > 0; size--) text += one([() => one(atoms), () => one(atoms), () => "qwrtz"[n++ % 5] + "abcdefgh"[round % 8] + "klmnp"[Math.floor(n / 5) % 5]])();
    assert.deepEqual(lost(text), [], JSON.stringify(text));
    const made = drawn(text);
    if (made) check(made, text);
  }
});
