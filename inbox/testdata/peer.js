// A peer that writes to an inbox as an older agent does: lock with
// proper-lockfile, read, push, JSON.stringify with two spaces, write in place,
// unlock.
//
//	node peer.js INBOX PREFIX COUNT
//
// For each message it prints {"text", "row", "waited"}: the row as compact JSON,
// and how many milliseconds it waited for the lock.
'use strict';
const fs = require('fs');
const lockfile = require('proper-lockfile');

const [inbox, prefix, count] = process.argv.slice(2);
const retries = { retries: 10000, minTimeout: 5, maxTimeout: 100 };

async function main() {
  for (let i = 0; i < Number(count); i++) {
    const row = {
      from: 'bob',
      text: `${prefix}-${i}`,
      timestamp: new Date().toISOString(),
      note: 'é \ud83d\ude00 <&> \u2028 "quoted" \\ \u0001',
      odd: [1e21, -0.5, {}, [], null, 1.5e-7],
      read: false,
    };
    const start = Date.now();
    const release = await lockfile.lock(inbox, { retries });
    const waited = Date.now() - start;
    const rows = JSON.parse(fs.readFileSync(inbox, 'utf8'));
    rows.push(row);
    fs.writeFileSync(inbox, JSON.stringify(rows, null, 2));
    await release();
    console.log(JSON.stringify({ text: row.text, row: JSON.stringify(row), waited }));
  }
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
