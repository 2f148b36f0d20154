// The messages of one conversation, in the order in which they were first seen. That is not
// the order of seq: a message sent without a service may be recorded after its answer.

// The id of a message to all: the key that the page chose, and the member it went to.
const toAll = /^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-(.+)$/;

// History has items in that order. Each is one message, or one that went to several members. A
// message that was lost and sent again under its id appears twice in the journal; here it
// is one, with the content of the last appearance. Pages and events only add facts to a
// message, so they may come in any order, and twice.
export class History {
  items = [];
  older = true; // there may be older messages
  newer = false; // there are newer messages than these
  ours = null; // the names of the reader, if they are known
  #records = new Map(); // by seq
  #groups = new Map(); // items by the key of a message to all
  #receipts = new Map(); // by inbox and id; a receipt may come before its message
  #copies = new Map(); // entries of #records by id and content
  #progress = new Map(); // how work ended, by seq; its start may come later

  // member is null for everyone in the team.
  constructor(team, createdAt, member) {
    Object.assign(this, { team, createdAt, member });
  }

  // has reports whether a message belongs to the conversation.
  has(r) {
    return r.team === this.team && r.createdAt === this.createdAt &&
      (this.member === null || r.from === this.member || r.inbox === this.member);
  }

  // range returns the lowest and the highest seq, or null.
  range() {
    let low = Infinity, high = 0;
    for (const seq of this.#records.keys()) {
      low = Math.min(low, seq);
      high = Math.max(high, seq);
    }
    return high ? { low, high } : null;
  }

  find(seq) {
    return this.#records.get(seq)?.item;
  }

  // add adds a record. It returns its item, whether the item is new, and whether anything
  // changed.
  add(r) {
    merge(r, { receipt: this.#receipts.get(r.inbox + "\0" + r.id), ...this.#progress.get(r.seq) });
    const known = this.#records.get(r.seq);
    if (known) {
      const before = JSON.stringify(known.record);
      merge(known.record, r.seq < known.record.last ? { receipt: r.receipt } : r);
      return { item: known.item, fresh: false, changed: JSON.stringify(known.record) !== before };
    }
    // An id that was derived from the content does not identify a message.
    const copy = r.work || r.id.startsWith("inbox-") ? null : [r.inbox, r.id, r.from, r.text].join("\0");
    const put = copy !== null && this.#copies.get(copy);
    if (put) {
      if (r.seq > put.record.last) {
        const { receipt, relay, seq } = put.record;
        Object.assign(put.record, r, { seq, last: r.seq, receipt, relay });
      }
      merge(put.record, { receipt: r.receipt, relay: r.relay });
      this.#records.set(r.seq, put);
      return { item: put.item, fresh: false, changed: true };
    }
    r.last = r.seq;
    const group = this.member === null && toAll.exec(r.id);
    const key = group && group[2] === r.inbox ? group[1] + "\0" + r.from : null;
    const other = key && this.#groups.get(key);
    const item = other || { seq: r.seq, at: Date.parse(r.firstSeen) || 0, records: [] };
    item.records.push(r);
    item.records.sort((a, b) => a.seq - b.seq);
    if (!other) {
      this.items.splice(this.items.findLastIndex((i) => i.at < item.at || i.at === item.at && i.seq <= r.seq) + 1, 0, item);
      if (key) this.#groups.set(key, item);
    }
    const entry = { record: r, item };
    this.#records.set(r.seq, entry);
    if (copy !== null) this.#copies.set(copy, entry);
    return { item, fresh: !other, changed: true };
  }

  // progressed updates a step, such as a tool call that has ended. It returns the item, if it
  // is here and has changed.
  progressed({ seq, text, work }) {
    const known = this.#records.get(seq);
    if (!known) this.#progress.set(seq, { text, work });
    return known && merge(known.record, { text, work }) ? known.item : null;
  }

  // receipt adds a receipt, and returns the item of its message, if it is here.
  receipt(receipt) {
    if (receipt.team === this.team && receipt.createdAt === this.createdAt) {
      this.#receipts.set(receipt.member + "\0" + receipt.id, receipt);
    }
    return this.#update(receipt.team, receipt.createdAt, receipt.member, receipt.id, { receipt });
  }

  // relayed adds the state of a relayed message, and returns its item, if it is here.
  relayed(team, createdAt, inbox, id, fate) {
    return this.#update(team, createdAt, inbox, id, { relay: fate });
  }

  #update(team, createdAt, inbox, id, news) {
    let found = null;
    for (const { record: r, item } of this.#records.values()) {
      if (r.inbox !== inbox || r.id !== id || r.team !== team || (createdAt && r.createdAt !== createdAt)) continue;
      merge(r, news);
      found = item;
    }
    return found;
  }
}

// merge adds news of a message to its record. It reports whether a step has ended. A tool call
// whose agent seemed to be dead may have ended after all.
function merge(r, news) {
  const ended = r.work && !r.work.ended && news.work && news.work.state !== "running" && news.work.state !== r.work.state;
  if (ended) Object.assign(r, { text: news.text, work: news.work });
  r.read ||= news.read ?? false;
  r.gone ||= news.gone ?? false;
  r.readAt ??= news.readAt;
  r.goneAt ??= news.goneAt;
  if (news.receipt && news.receipt.seq > (r.receipt?.seq ?? 0)) r.receipt = news.receipt;
  if (news.relay && later(news.relay, r.relay)) r.relay = news.relay;
  return ended;
}

// The states that a transcript proves, in order. Their times are the transcript's, before the states were noticed.
const shown = ["given", "finished"];

// later reports whether a state of a relayed message comes after another one.
function later(news, known) {
  const steps = shown.indexOf(news.state) - shown.indexOf(known?.state);
  return steps ? steps > 0 : Date.parse(news.at) >= (Date.parse(known?.at) || 0);
}
