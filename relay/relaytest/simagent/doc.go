// Package simagent simulates the agents of a current Claude Code by what they do to the
// files of a team, without a model, an account or a process.
//
// The tests of the other packages run against it. It shares no
// code with the packages that write inboxes, so that a mistake in them cannot be hidden
// by the same mistake here.
//
// # What an agent does
//
// An agent keeps an inbox as a JSON array with an indent of two spaces
// and no newline at the end. A file that is empty, cut off, null, an object or
// garbage is read as no rows, and the next writer replaces it with a fresh
// array: what was in it is gone. Nothing is deduplicated by id.
//
// Every writer creates the inbox as [] if it is missing, makes the directory
// <inbox>.json.lock, reads the file again, changes it, writes it and removes
// the directory. A lock directory whose modification time is more than
// [StaleAfter] old is taken over. A regular file, or a directory that is not
// empty, in its place is never removed: see [ErrBlocked].
//
// A row is taken if from, text and timestamp are strings and read is not true;
// read may be missing. An agent in a turn takes nothing, not even between two tool
// calls; it looks when the turn has ended (measured: a row that came in the first
// second of a turn was taken 30 to 60 ms after its end). Agents poll every 500 ms,
// leads every 1000 ms.
//
// What was taken is removed from the file before it is delivered, under the lock, with the
// rows that were read already and those that are malformed. An inbox is replaced by
// <inbox>.json.tmp.<8 hex digits>, which is renamed.
//
// Files of old agents exist, too: see [Options.Marks] and [TeamOptions.NoProcess].
//
// # Turns
//
// Without a [Handler] an agent takes all rows that wait, and does nothing else. With
// one, it runs one turn for all rows that wait. A turn sends the messages of its [Reply];
// after it a teammate writes an idle_notification to the lead. Agents take first, and give no
// idleReason if they took something (measured: the inbox was empty up to 60 ms before the
// notification was in the lead's); if they took nothing, they look once more after the
// notification. With or without a handler, a teammate answers a shutdown_request with
// shutdown_approved and ends. The lead removes the member from config.json when it takes that
// row.
//
// # What is not promised
//
// Agents that mark rows leave malformed ones as they are, and keep the escapes of strings;
// real ones normalise them. U+2028 and U+2029 are written
// as escapes, by Claude Code as themselves. File modes were not measured: files here
// are 0600, directories 0700. As with the real ones, two agents that find the same
// stale lock at the same instant can both believe that they hold it.
//
// All times come from [Options.Now] and the timers of package time, so
// everything here runs inside testing/synctest.
package simagent
