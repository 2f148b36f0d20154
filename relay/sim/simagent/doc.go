// Package simagent simulates Claude Code agents of several versions by what they
// do to the files of a team, without a model, an account or a process.
//
// The demonstration and the tests of the other packages run against it. It shares no
// code with the packages that write inboxes, so that a mistake in them cannot be hidden
// by the same mistake here. Of package teams it uses only the table of versions.
//
// # What an agent does
//
// All versions keep an inbox as a JSON array with an indent of two spaces
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
// second of a turn was taken 30 to 60 ms after its end). Agents poll every 500 ms;
// leads of versions that remove what they take, every 1000 ms.
//
// # Versions
//
// Agents differ by their version of Claude Code, in what [teams.Version.Has] says:
//
//   - Inboxes are written in place, so that a reader without the lock can see them
//     empty or torn, or as <inbox>.json.tmp.<8 hex digits> and renamed.
//   - Rows that were taken are marked "read": true and stay, or they are removed,
//     with those that were read already and those that are malformed.
//   - Rows are delivered first and taken from the file afterwards, under the lock:
//     while somebody else holds it, they are delivered again at every look. An
//     agent gives up the lock after 0.6 s without a word. Newer versions take
//     first, and wait for the lock.
//   - The team has a chosen name, or was made with its session and is named after
//     it. config.json is written under its lock, or without one. It has
//     leadProcess, or not.
//   - Anybody can be written to, or only members.
//   - Rows have msgV, msg_id and type, or not. An idle_notification has the result
//     of the turn, or not.
//
// [Kinds] has a version for each combination that exists. The members of a team
// need not be of one version.
//
// # Turns
//
// Without a [Handler] an agent takes all rows that wait, and does nothing else. With
// one, versions that remove rows run one turn for all rows that wait; others run a turn
// for each row. A turn sends the messages of its [Reply]; after it a teammate writes an
// idle_notification to the lead. Versions that mark rows say that they are available,
// and then take the next row (measured on 2.1.80: 1 to 3 ms after the notification was
// in the lead's inbox); their leads take all rows. Versions that remove rows take first,
// and give no idleReason if they took something (measured on 2.1.329: the inbox was
// empty up to 60 ms before the notification was in the lead's); if they took nothing,
// they look once more after the notification. With or without a handler, a teammate
// answers a shutdown_request with shutdown_approved and ends. The lead removes the
// member from config.json when it takes that row.
//
// # What is not promised
//
// Whether agents that mark rows take malformed ones was not measured: here they
// leave them as they are. Agents here never take a row that they did not deliver;
// leads that mark rows do, under load. Strings of rows that are rewritten keep their
// escapes; real agents of old versions normalise them. U+2028 and U+2029 are written
// as escapes, by Claude Code as themselves. File modes were not measured: files here
// are 0600, directories 0700. As with the real ones, two agents that find the same
// stale lock at the same instant can both believe that they hold it.
//
// All times come from [Options.Now] and the timers of package time, so
// everything here runs inside testing/synctest.
package simagent
