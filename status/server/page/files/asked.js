// Draws a question of an agent for a person. No argument of a tool is left out: the rest of a
// long one is behind a button that says so.

import { diff, mostCells } from "./diff.js";
import { diffLines } from "./difflines.js";
import { escaped, h, long, rows } from "./dom.js";
import { started } from "./markdown.js";
import { cut, json } from "./text.js";

// title says what an agent asks for.
export const title = ({ kind, words, question }) => (kind === "permission" ? ["wants to use ", ...toolWords(question)] : [words]);

// toolWords names a tool as the runtime does, and its MCP server: such a server names its tools
// itself, and may give one the name of a tool of the runtime. The display name alone is not
// enough to decide by.
function toolWords({ tool, display }) {
  const name = cut(tool, 200);
  const [, server, its] = /^mcp__(.+?)__(.+)$/s.exec(name) ?? [];
  if (server) return [h("b", null, escaped(its)), " of the MCP server ", h("b", null, escaped(server)), " ", h("code", null, escaped(name))];
  return [h("b", null, escaped(name)), display && display.toLowerCase() !== tool.toLowerCase() ? [" (", escaped(cut(display, 200)), ")"] : null].flat();
}

// textOf returns a field of an input as a text.
const textOf = (value) => (typeof value === "string" ? value : value === undefined ? "" : json(value));

// content returns the elements that the reader decides by.
export function content(q) {
  const input = q.input && typeof q.input === "object" && !Array.isArray(q.input) ? { ...q.input } : { input: q.input };
  // take returns a text of the input, and removes it, so that it is not listed with the rest.
  const take = (key) => {
    const value = input[key];
    if (typeof value !== "string") return undefined;
    delete input[key];
    return value;
  };
  const parts = [];
  if (q.kind === "plan") {
    if (input.plan === q.plan) take("plan");
    parts.push(q.plan ? h("div", { class: "ask-plan", ...scrolls("Plan") }, started(q.plan))
      : h("p", { class: "ask-about" }, "The agent did not send its plan. Look for it in the conversation."),
    q.plan ? h("details", { class: "ask-source" }, h("summary", null, "As it was written"), h("pre", { class: "ask-code", ...scrolls("The text of the plan") }, h("code", null, long(q.plan)))) : null,
    prompts(input));
  } else if (q.kind === "question") {
    delete input.questions; // Fields shows them
  } else {
    parts.push(...use(q, input, take));
  }
  const path = q.blockedPath && !Object.values(q.input ?? {}).includes(q.blockedPath) ? q.blockedPath : null;
  parts.push(facts(Object.entries(input).filter(([, value]) => value !== undefined), [
    ["Path", path && h("code", null, long(path, false))],
    ["Why it asks", q.reason && long(q.reason, false)],
    ["Subagent", q.subagent && h("code", null, long(q.subagent, false))],
  ]));
  return parts.filter(Boolean);
}

// use returns the elements of the known arguments of a tool.
function use(q, input, take) {
  const path = take("file_path") ?? take("notebook_path");
  const parts = [];
  for (const about of new Set([take("description"), q.description])) {
    if (about && !path?.endsWith(about)) parts.push(h("p", { class: "ask-about" }, long(about)));
  }
  if (path !== undefined) parts.push(h("p", { class: "ask-path" }, h("code", null, long(path, false))));
  const command = take("command");
  if (command !== undefined) parts.push(h("pre", { class: "ask-code", ...scrolls("Command") }, h("code", null, long(command))));
  if (typeof input.old_string === "string" && typeof input.new_string === "string") {
    parts.push(changes([[take("old_string"), take("new_string")]]));
  } else if (Array.isArray(input.edits) && input.edits.every((e) => typeof e?.old_string === "string" && typeof e.new_string === "string")) {
    const edits = input.edits;
    const more = edits.map(({ old_string: _, new_string: __, ...others }) => others);
    parts.push(changes(edits.map((e) => [e.old_string, e.new_string])));
    if (more.some((others) => Object.keys(others).length > 0)) input.edits = more;
    else delete input.edits;
  } else if (path !== undefined) {
    const whole = take("content") ?? take("new_source");
    if (whole !== undefined) parts.push(changes([["", whole]]));
  }
  return parts;
}

const scrolls = (name) => ({ tabindex: "0", role: "group", "aria-label": name }); // for the keyboard; names repeat, so it is no landmark

// changes shows pairs of texts, before and after, as a diff.
function changes(pairs) {
  const lists = pairs.map(([before, after]) => diff(before, after, mostCells / pairs.length));
  const lines = lists.flatMap((list, n) => (n > 0 ? [[null, ""], ...list] : list));
  const count = (sign) => lines.filter(([s]) => s === sign).length;
  return h("figure", { class: "ask-diff" },
    h("figcaption", null, h("span", { class: "added" }, `+${count("+")}`), " ", h("span", { class: "removed" }, `−${count("-")}`), " lines"),
    diffLines(lines, "Changes"));
}

// prompts lists what an agent may do without asking once its plan is approved.
function prompts(input) {
  const list = input.allowedPrompts;
  if (!Array.isArray(list) || !list.every((p) => p && Object.keys(p).every((k) => k === "tool" || k === "prompt"))) return null;
  delete input.allowedPrompts;
  if (list.length === 0) return null;
  return h("div", { class: "ask-about" }, "Approving also allows:", h("ul", { class: "ask-prompts" },
    rows(list, (p) => h("li", null, h("b", null, long(textOf(p.tool ?? "?"), false)), ": ", long(textOf(p.prompt ?? "?"), false)), "permissions", () => 0)));
}

// fact shows a field of an input that has no element of its own.
function fact(text, name) {
  const high = text.includes("\n") || text.length > 300;
  return high ? h("pre", { class: "ask-code", ...scrolls(name) }, h("code", null, long(text))) : h("code", null, escaped(text));
}

// facts shows fields of an input, and others that have a value.
function facts(fields, others) {
  const known = others.filter(([, value]) => value);
  const one = (key, value) => {
    const both = document.createDocumentFragment();
    both.append(h("dt", null, escaped(key)), h("dd", null, value));
    return both;
  };
  const texts = fields.map(([key, value]) => [cut(key, 200), textOf(value)]);
  return texts.length + known.length === 0 ? null : h("dl", { class: "ask-facts" },
    rows(texts, ([key, text]) => one(key, fact(text, key)), "fields", ([, text]) => text.length), known.map(([key, value]) => one(key, value)));
}

// ruleWords names a rule for the session, such as Bash(go test *).
export function ruleWords(rule) {
  const [, tool, what] = /^([\w-]+)\((.*)\)$/s.exec(rule) ?? [];
  if (/^[\w-]+$/.test(rule)) return ["every use of ", h("b", null, escaped(rule))];
  if (!tool || what.includes("), ")) return [h("code", null, escaped(rule))];
  return [h("b", null, escaped(tool)), tool.toLowerCase() === "bash" ? " commands like " : " with ", h("code", null, escaped(what))];
}

const mostFields = 500; // questions and options; the runtime itself asks four with four each

// Fields is the form to answer the questions of an agent.
export class Fields {
  #list = [];

  // element is null if the input is not understood, so that it cannot be answered here.
  constructor(q) {
    const list = q.input?.questions;
    const valid = Array.isArray(list) && list.length > 0 && list.every((a) => typeof a?.question === "string" && (a.options === undefined || Array.isArray(a.options))) &&
      list.reduce((n, a) => n + 1 + (a.options?.length ?? 0), 0) <= mostFields;
    this.element = valid ? h("div", { class: "ask-fields" }, list.map((a, n) => this.#field(a, `${q.id}-${n}`))) : null;
  }

  #field(asked, name) {
    const type = asked.multiSelect === true ? "checkbox" : "radio";
    const options = (asked.options ?? []).map((o) => {
      const label = textOf(typeof o === "string" ? o : o?.label ?? "");
      const input = h("input", { type, name, value: label });
      return { input, element: h("label", { class: "ask-option" }, input, h("span", null, h("b", null, long(label, false)),
        o?.description ? h("span", { class: "ask-describes" }, long(textOf(o.description), false)) : null,
        o?.preview ? h("pre", { class: "ask-code" }, h("code", null, long(textOf(o.preview)))) : null)) };
    });
    const other = h("input", { type: "text", class: "ask-other", "aria-label": `Another answer to: ${cut(asked.question, 200)}`, placeholder: options.length ? "Another answer" : "Answer" });
    // A typed answer and a choice replace each other.
    if (type === "radio") {
      other.addEventListener("input", () => { if (other.value) for (const { input } of options) input.checked = false; });
      for (const { input } of options) input.addEventListener("change", () => { other.value = ""; });
    }
    this.#list.push({ asked, options, other });
    return h("fieldset", null, h("legend", null, asked.header ? h("span", { class: "label" }, escaped(cut(textOf(asked.header), 200))) : null, long(asked.question)),
      options.map((o) => o.element), other);
  }

  // answers returns the answers by question, or the first field without one.
  answers() {
    const answers = Object.create(null); // a question can be "__proto__"
    for (const { asked, options, other } of this.#list) {
      const list = options.filter((o) => o.input.checked).map((o) => o.input.value);
      if (other.value.trim()) list.push(other.value.trim());
      if (list.length === 0) return { missing: options[0]?.input ?? other };
      answers[asked.question] = list.join(", ");
    }
    return { answers };
  }

  get touched() {
    return this.#list.some(({ options, other }) => other.value || options.some((o) => o.input.checked));
  }
}
