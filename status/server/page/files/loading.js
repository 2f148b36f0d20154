// Loads the messages of a conversation into its history, a page at a time.

import { ready } from "./markdown.js";
import { messages } from "./request.js";

const pageSize = 100;
const firstPage = 50; // more than fits on a screen, and laid out in half the time
const fewBlocks = 10, mostPages = 5; // up to mostPages are read at once while folded work makes fewer than fewBlocks

// load reads messages until enough of them are shown. range is {before} or {after} a seq. take
// is called with each record, blocks returns how many are shown, and current reports whether
// the answers are still wanted.
export async function load(history, range, { take, blocks, current }) {
  const { team, createdAt, member } = history;
  const back = range.after === undefined;
  const first = history.range() === null && range.before === undefined;
  const enough = blocks() + fewBlocks;
  for (let n = 0, more = true; n < mostPages && more && blocks() < enough; n++) {
    const [page] = await Promise.all([messages(team, { with: member ?? undefined, createdAt, protocol: true, thinking: true, limit: first ? firstPage : pageSize, ...range }), ready()]);
    if (!current()) return;
    history.ours = page.ours;
    more = page.more;
    history[back ? "older" : "newer"] = more;
    for (const r of page.messages) take(r);
    const end = page.messages.at(back ? 0 : -1);
    range = back ? { before: end?.seq } : { after: end?.seq };
  }
}
