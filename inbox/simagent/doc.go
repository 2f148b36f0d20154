// Package simagent simulates Claude Code agents of both generations by what
// they do to the files of a team, without a model, an account or a process.
//
// It is an independent witness. It shares no code with the packages that write
// inboxes, so that a mistake in them cannot hide in a matching mistake here.
// The demonstration and the tests of the other packages run against it.
//
// # What an agent does
//
// Both generations keep an inbox as a JSON array with an indent of two spaces
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
//   - [G1] (2.1.80) polls every 500 ms. It sets "read" to true in the rows it
//     takes and keeps them. It truncates the file and writes in place, so a
//     reader without the lock can see it empty or torn.
//   - [G2] (2.1.329) polls every 500 ms as a teammate and every 1000 ms as the
//     lead. It removes the rows it takes, with them the rows that were read
//     already and the malformed ones. It writes <inbox>.json.tmp.<8 hex digits>
//     and renames.
//
// A row is taken if from, text and timestamp are strings and read is not true;
// read may be missing. An agent that is in a turn takes nothing, also not between
// two calls of tools; it looks as soon as the turn has ended (measured on both: a
// row that came in the first second of a turn was taken 30 to 60 ms after its
// end).
//
// # Turns
//
// Without a [Handler] an agent only takes, all that waits. With one, G1 runs a turn for each
// row, and G2 one for all rows that wait when it is free. A turn sends the
// messages of its [Reply]; after it a teammate writes an idle_notification to
// the lead. G1 says that it is available, and takes the next row after that: one
// at a time, where its lead takes all (measured: 1 to 3 ms after the notification
// stood in the lead's inbox). G2 takes first, and gives no idleReason when it took
// something and goes on (measured: the inbox was empty up to 60 ms before that
// notification stood in the lead's); when it took nothing, it looks once more right
// after the notification. With or without a handler, a teammate answers a shutdown_request
// with shutdown_approved and ends, and the lead, when it takes that row,
// removes the member from config.json.
//
// # What is not promised
//
// Whether a G1 agent takes malformed rows was not measured: here it leaves them
// as they are. Strings of rows that are rewritten keep their escapes, where the
// real G1 would normalise them; keys that occur twice in a row are joined by
// both. U+2028 and U+2029 are written as escapes, by Claude Code as themselves.
// File modes were not measured: files here are 0600, directories 0700. Like the
// real ones, two agents that find the same stale lock at the same instant can
// both believe that they hold it.
//
// All times come from [Options.Now] and the timers of package time, so
// everything here runs inside testing/synctest.
package simagent
