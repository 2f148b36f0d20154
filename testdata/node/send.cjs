// One message into an inbox, as a tool for Node writes it: the lock that Claude
// Code takes, read, append, write beside it, flush, rename, read back, unlock.
// Usage: node send.cjs PATH-OF-PROPER-LOCKFILE INBOX TEXT
const fs = require('node:fs')
const crypto = require('node:crypto')

const [, , lockfile, inbox, text] = process.argv
const { lock } = require(lockfile)

async function send() {
  const release = await lock(inbox, { stale: 10000, retries: { retries: 50, minTimeout: 5, maxTimeout: 50 } })
  try {
    const rows = JSON.parse(fs.readFileSync(inbox, 'utf8'))
    const id = crypto.randomUUID()
    rows.push({ from: 'user', text, timestamp: new Date().toISOString(), msgV: 1, msg_id: id, type: 'message', read: false, messageId: id })
    const temp = `${inbox}.tmp.${crypto.randomBytes(4).toString('hex')}`
    const fd = fs.openSync(temp, 'wx', 0o600)
    fs.writeSync(fd, JSON.stringify(rows, null, 2))
    fs.fsyncSync(fd)
    fs.closeSync(fd)
    fs.renameSync(temp, inbox)
    const back = JSON.parse(fs.readFileSync(inbox, 'utf8'))
    if (!back.some((row) => row.messageId === id)) throw new Error('lost')
    console.log(`verified ${id}`)
  } finally {
    await release()
  }
}

send().catch((err) => {
  console.error(err)
  process.exit(1)
})
