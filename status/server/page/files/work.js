// The work of agents among the messages: which of it a conversation shows, and in which groups.

import { when } from "./message.js";
import { notice } from "./notice.js";
import { short } from "./text.js";

const steps = new Set(["tool", "thinking", "file"]);
const mostDepth = 10; // of subagents that start others; deeper ones are a block of their own

// isStep reports whether a record is a step, which is folded. Texts of an agent and failures of
// its turns are not, unless they are a subagent's.
export const isStep = (r) => Boolean(r.work && (r.work.subagent || steps.has(r.kind)));

// running reports whether a step still runs. layout sets idle.
export const running = (step) => step.item.records[0].work.state === "running" && !step.idle;

// layout returns the blocks of a conversation in order. A block is {item}, one message,
// {notices}, items of consecutive notices of one day, or {steps}, consecutive steps of one turn
// of one agent. A step is {item, idle, steps}, with the steps of the subagent that it started. A block with subagent
// has the steps of one whose start is not among the items. A message between two steps separates them. over says that
// the team has ended, so nothing runs. A notice that an agent went idle right after its text or step is left out.
export function layout(items, { withSteps, over = false }) {
  const hidden = answered(items);
  const ended = endedTurns(items);
  const parents = new Map(); // steps by the subagent that they started
  let open = new Map(); // blocks of steps that the next ones can join
  const blocks = [];
  for (const item of items) {
    const [r] = item.records;
    if (hidden.has(item)) continue;
    if (!isStep(r)) {
      open = new Map();
      const last = blocks.at(-1);
      item.notice ??= notice(r) !== null;
      if (item.notice && rests(r, last)) continue;
      if (!item.notice) blocks.push({ item });
      else if (last?.notices && when(last.notices[0].records[0]).toDateString() === when(r).toDateString()) last.notices.push(item);
      else blocks.push({ notices: [item] });
      continue;
    }
    if (!withSteps) continue;
    const w = r.work;
    const step = { item, idle: over || (!w.subagent && ended.has(turnOf(r))), steps: [] };
    const key = turnOf(r) + "\0" + (w.subagent ?? "");
    const parent = parents.get(w.subagent);
    const group = parent ?? open.get(key);
    step.depth = parent ? parent.depth + 1 : 0;
    // After the parent was looked up: no step is below itself.
    if (w.starts && step.depth < mostDepth) parents.set(w.starts, step);
    if (group && isNamed(r, group.steps)) continue;
    if (group) {
      group.steps.push(step);
      continue;
    }
    const block = { steps: [step], subagent: w.subagent };
    open.set(key, block);
    blocks.push(block);
  }
  return blocks;
}

// rests reports whether a notice says only that an agent went idle, right after a text or step of that agent.
function rests(r, last) {
  const [before] = (last?.item ?? last?.steps?.[0].item)?.records ?? [];
  if (!before || r.kind !== "idle_notification") return false;
  const { did, about } = notice(r);
  return did === "went idle" && (!about || about.startsWith("[to ")) && r.from === (before.work || before.answer ? before.inbox : before.from);
}

// isNamed reports whether one of the last tool calls already names a written file.
function isNamed(r, steps) {
  const path = r.kind === "file" && codeParts(r.text).find(([, isCode]) => isCode)?.[0];
  return path && steps.slice(-10).some(({ item: { records: [s] } }) => s.work.tool && s.text.includes(path));
}

const turnOf = (r) => [r.inbox, r.work.session, r.work.turn ?? ""].join("\0");

// answered returns the items with the last text of a turn, if it is also the turn's answer. It is
// known to be the last only after the turn. A transcript has other ids for turns, but the same
// times.
function answered(items) {
  const answers = new Map(); // by turn, and by time
  const then = (r) => r.inbox + "\0" + r.timestamp;
  for (const { records: [r] } of items) if (r.answer) answers.set(r.answer.frame, r).set(then(r), r);
  const last = new Map();
  for (const item of items) {
    const [r] = item.records;
    if (!r.work || r.kind !== "text" || r.work.subagent) continue;
    const turn = [r.work.turn, then(r)].find((key) => answers.has(key));
    if (turn) last.set(turn, item);
  }
  return new Set([...last].filter(([turn, { records: [r] }]) => {
    const { text, answer } = answers.get(turn);
    return answer.truncated ? r.text.trim().startsWith(text.trim()) : r.text.trim() === text.trim();
  }).map(([, item]) => item));
}

// endedTurns returns the turns that are over, so that none of their tool calls still runs:
// their agent answered, failed, was cancelled, or works on another turn. Only a subagent in
// the background goes on.
function endedTurns(items) {
  const ended = new Set();
  const current = new Map(); // by agent
  for (const { records: [r] } of items) {
    if (r.answer) {
      const turn = current.get(r.inbox);
      if (turn?.work.turn === r.answer.frame) ended.add(turnOf(turn));
    }
    if (!r.work || r.work.subagent) continue;
    const before = current.get(r.inbox);
    if (before && turnOf(before) !== turnOf(r)) ended.add(turnOf(before));
    current.set(r.inbox, r);
    if (r.kind === "turn") ended.add(turnOf(r));
  }
  return ended;
}

const notDone = { failed: "failed", denied: "denied", cut: "cut off" };

// summary describes a group of steps: its only step, the running step, or their number, the
// tools that they used, how many failed, and how long they took.
export function summary(list) {
  const all = flatten(list);
  const current = all.findLast(running);
  if (all.length === 1) {
    const [{ item: { records: [r] } }] = all;
    return { text: r.kind === "thinking" ? "thinking" : short(r.text, 100), after: "", running: Boolean(current) };
  }
  if (current) return { text: current.item.records[0].text, after: `step ${all.length}`, running: true };
  const records = all.map((s) => s.item.records[0]);
  const uses = new Map(); // by tool
  for (const { work: { tool } } of records) if (tool) uses.set(tool, (uses.get(tool) ?? 0) + 1);
  const names = [...uses].map(([name, n]) => (n > 1 ? `${name} ×${n}` : name));
  const bad = Object.entries(notDone).map(([state, word]) => [records.filter((r) => r.work.state === state).length, word]).filter(([n]) => n > 0);
  const times = records.flatMap((r) => [r.timestamp, r.work.ended]).map((t) => Date.parse(t)).filter(Number.isFinite);
  const took = times.reduce((a, b) => Math.max(a, b), -Infinity) - times.reduce((a, b) => Math.min(a, b), Infinity);
  return {
    text: `${all.length} steps`,
    after: [
      names.slice(0, 4).join(", ") + (names.length > 4 ? ", …" : ""), bad.map((b) => b.join(" ")).join(", "), took >= 1000 ? lasted(took) : "",
    ].filter(Boolean).join(" · "),
    running: false,
  };
}

const flatten = (list) => list.flatMap((s) => [s, ...flatten(s.steps)]);

// lasted returns a duration in ms as a text, such as "1 min 5 s".
export function lasted(ms) {
  const s = Math.round(ms / 1000);
  const [hours, minutes, seconds] = [Math.floor(s / 3600), Math.floor(s / 60) % 60, s % 60];
  const parts = [[hours, "h"], [minutes, "min"], [hours ? 0 : seconds, "s"]].filter(([n]) => n > 0);
  return parts.map(([n, unit]) => `${n}\u00a0${unit}`).join(" ") || "0\u00a0s";
}

// codeParts splits the line of a tool call at its outermost backticks:
// [text, whether it is code].
export function codeParts(line) {
  const from = line.indexOf("`"), to = line.lastIndexOf("`");
  if (to <= from + 1) return [[line, false]];
  return [[line.slice(0, from), false], [line.slice(from + 1, to), true], [line.slice(to + 1), false]].filter(([t]) => t);
}
