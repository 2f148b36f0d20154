// The messages of one conversation, in the order in which they appeared.

// A key of a message to all, as the page makes it, and the member it went to.
const toAll = /^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-(.+)$/;

// History has items, by seq: each is one message, or one that went to several
// members. A message that was lost and sent again under its id appears again in the
// journal; here it is one, of which the last appearance tells how it is. What pages and events say of a message only adds to what is known, so
// they may come in any order, and twice.
export class History {
  items = [];
  older = true; // there is more in front, as far as is known
  newer = false; // there is more behind: this is not the end
  #records = new Map(); // by seq
  #groups = new Map(); // items by key of a message to all
  #receipts = new Map(); // the last one of each message, by inbox and id: it may come before its message
  #copies = new Map(); // what #records has of a message with an id of its own, by that

  // who is the member of the conversation, null for all of the team.
  constructor(team, createdAt, who) {
    Object.assign(this, { team, createdAt, who });
  }

  // has reports whether a message belongs here.
  has(r) {
    return r.team === this.team && r.createdAt === this.createdAt && !r.noise &&
      (this.who === null || r.from === this.who || r.inbox === this.who);
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

  // add takes a record, and returns what it did: the item, whether that is new,
  // and whether anything changed.
  add(r) {
    const told = this.#receipts.get(r.inbox + "\0" + r.id);
    if (told) merge(r, { receipt: told });
    const known = this.#records.get(r.seq);
    if (known) {
      const before = JSON.stringify(known.record);
      merge(known.record, r.seq < known.record.last ? { receipt: r.receipt } : r);
      return { item: known.item, fresh: false, changed: JSON.stringify(known.record) !== before };
    }
    // What has no id of its own is known by what it says: said again, it is another one.
    const copy = r.id.startsWith("inbox-") ? null : [r.inbox, r.id, r.from, r.text].join("\0");
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
    const group = this.who === null && toAll.exec(r.id);
    const key = group && group[2] === r.inbox ? group[1] + "\0" + r.from : null;
    let item = key && this.#groups.get(key);
    if (item) {
      item.records.push(r);
      item.records.sort((a, b) => a.seq - b.seq);
      this.#keep(r, item, copy);
      return { item, fresh: false, changed: true };
    }
    item = { seq: r.seq, records: [r] };
    let n = this.items.length;
    while (n > 0 && this.items[n - 1].seq > r.seq) n--;
    this.items.splice(n, 0, item);
    if (key) this.#groups.set(key, item);
    this.#keep(r, item, copy);
    return { item, fresh: true, changed: true };
  }

  #keep(record, item, copy) {
    const entry = { record, item };
    this.#records.set(record.seq, entry);
    if (copy !== null) this.#copies.set(copy, entry);
  }

  // receipt takes what became of a message, and returns its item, if it is here.
  receipt(receipt) {
    if (receipt.team === this.team && receipt.createdAt === this.createdAt) {
      this.#receipts.set(receipt.member + "\0" + receipt.id, receipt);
    }
    return this.#each((r) => r.inbox === receipt.member && r.id === receipt.id && r.createdAt === receipt.createdAt && r.team === receipt.team,
      (r) => merge(r, { receipt }));
  }

  // relayed takes what became of a message that a relay brings to its agent.
  relayed(team, createdAt, inbox, id, fate) {
    return this.#each((r) => r.inbox === inbox && r.id === id && r.team === team && (!createdAt || r.createdAt === createdAt),
      (r) => merge(r, { relay: fate }));
  }

  #each(wanted, change) {
    let found = null;
    for (const { record, item } of this.#records.values()) {
      if (!wanted(record)) continue;
      change(record);
      found = item;
    }
    return found;
  }
}

// merge adds to a record what another one knows of it.
function merge(r, news) {
  r.read ||= news.read ?? false;
  r.gone ||= news.gone ?? false;
  r.readAt ??= news.readAt;
  r.goneAt ??= news.goneAt;
  if (news.receipt && news.receipt.seq > (r.receipt?.seq ?? 0)) r.receipt = news.receipt;
  if (news.relay && Date.parse(news.relay.at) >= (Date.parse(r.relay?.at) || 0)) r.relay = news.relay;
}
