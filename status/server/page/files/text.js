// Escapes texts of others, and formats times.

// Control characters, and all of Cf (marks that reorder or hide text) except the joiners
// inside words and emoji. The command line escapes the same ones in the same way.
const unsafe = /[\p{Cc}\p{Cf}\u2028\u2029]/u;
const joiners = new Set(["\u200c", "\u200d"]);

const letters = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\u001b": "\\e" };

function escapeOf(c) {
  if (letters[c]) return letters[c];
  const n = c.codePointAt(0);
  if (n < 0x100) return "\\x" + n.toString(16).padStart(2, "0");
  if (n > 0xffff) return "\\U" + n.toString(16).padStart(8, "0");
  return "\\u" + n.toString(16).padStart(4, "0");
}

// mostPieces is how many parts a text is split into. Escapes in the last part are not marked.
const mostPieces = 1000;

// pieces splits a text into parts: [text, whether it is escaped]. With lines, line feeds
// and tabs are not escaped.
export function pieces(text, lines) {
  const list = [];
  let now = "", isEscaped = false;
  for (const c of String(text).toWellFormed()) {
    const escape = unsafe.test(c) && !joiners.has(c) && !(lines && (c === "\n" || c === "\t"));
    if (escape !== isEscaped && list.length < mostPieces) {
      if (now) list.push([now, isEscaped]);
      [now, isEscaped] = ["", escape];
    }
    now += escape ? escapeOf(c) : c;
  }
  if (now) list.push([now, isEscaped && list.length < mostPieces]);
  return list;
}

const mostIndent = 20; // levels

// json writes a value as JSON.stringify does with two spaces, in linear time for any depth: it
// does not recurse, and indents no level further than mostIndent.
export function json(value) {
  const line = (depth) => "\n" + "  ".repeat(Math.min(depth, mostIndent));
  const written = [];
  const rest = [{ value, depth: 0 }];
  while (rest.length > 0) {
    const { text, value, depth } = rest.pop();
    if (text !== undefined) {
      written.push(text);
      continue;
    }
    if (value === null || typeof value !== "object") {
      written.push(String(JSON.stringify(value)));
      continue;
    }
    const [open, close] = Array.isArray(value) ? "[]" : "{}";
    const all = Object.entries(value);
    written.push(open);
    rest.push({ text: (all.length > 0 ? line(depth) : "") + close });
    for (let n = all.length - 1; n >= 0; n--) {
      const [key, inner] = all[n];
      rest.push({ value: inner, depth: depth + 1 });
      rest.push({ text: (n > 0 ? "," : "") + line(depth + 1) + (open === "{" ? JSON.stringify(key) + ": " : "") });
    }
  }
  return written.join("");
}

// flat returns an escaped text on one line.
export function flat(text) {
  return pieces(text, false).map(([t]) => t).join("");
}

// capital returns a text with a capital at its beginning.
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// part returns the first characters of a text: most, or one less so that none is cut in half.
export function part(text, most) {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}

// cut does the same, and adds "…" to a text that it cuts.
export const cut = (text, most) => (text.length > most ? part(text, most) + "…" : text);

// short returns the beginning of a text, on one line. It reads no more of the text than it
// needs.
export function short(text, most) {
  const start = String(text).trimStart();
  const read = part(start, 10 * most);
  const line = flat(read.replace(/\s+/gu, " ").trim()) + (read.length < start.length ? "…" : "");
  return line.length > most ? line.slice(0, most - 1).toWellFormed() + "…" : line;
}

// mostGist is how many characters gist reads: the marks are found in cubic time.
const mostGist = 500;

// gist returns the first paragraph of a Markdown text without its marks, for one line.
export function gist(text) {
  const start = String(text).trim();
  const [first] = cut(start, mostGist).split(/\n\s*\n|\n(?=\s*(?:```|~~~|\|))/u);
  return first
    .replace(/^\s*(?:#{1,6}\s+|>\s?|(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?)/gmu, "")
    .replace(/(\*\*|__|`+)(.+?)\1/gsu, "$2")
    .replace(/!?\[([^\]]+)\]\([^)\s]*\)/gu, "$1");
}

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });

export const timeOf = (date) => clock.format(date);
export const wholeTime = (date) => whole.format(date);

// dayOf returns the day of a date: "Today", "Yesterday" or the date.
export function dayOf(date, now = new Date()) {
  const midnight = (d) => new Date(d.getFullYear(), d.getMonth(), d.getDate());
  const ago = Math.round((midnight(now) - midnight(date)) / 86400e3);
  if (ago === 0) return "Today";
  if (ago === 1) return "Yesterday";
  return date.getFullYear() === now.getFullYear() ? day.format(date) : dayOfYear.format(date);
}

// since returns how long ago a date was, such as "5 min".
export function since(date, now = new Date()) {
  const s = Math.max(0, (now - date) / 1000);
  if (s < 60) return "just\u00a0now";
  if (s < 3600) return Math.floor(s / 60) + "\u00a0min";
  if (s < 86400) return Math.floor(s / 3600) + "\u00a0h";
  return Math.floor(s / 86400) + "\u00a0d";
}

// size returns the size of a text, such as "1.5 KiB".
export function size(text) {
  const n = new TextEncoder().encode(text).length;
  return n < 1024 ? n + " bytes" : (n / 1024).toFixed(n < 10240 ? 1 : 0) + " KiB";
}
