// Package handoff moves one session between a person's terminal and a headless agent.
//
// [Run] serves the inbox of a member; its caller holds the inbox's lock. The session is in one of two places.
// At the terminal, the person's own program runs it, and the inbox is left alone. At the relay, a headless
// agent runs it and gets the messages. The two never run at the same time, because neither would see the
// other's work.
//
//	local ── a waiting prompt, the key, a request ──▶ switching ──▶ remote
//	remote ── the key, a request ──▶ returning ──▶ local
//
// Only a person's prompt in the ledger switches to remote, never a row of the inbox. The switch waits until
// the program is idle and the person is not typing. It is refused while the end of the program would lose
// something: see [Agent.Obstacle]. A draft at the prompt is committed to the ledger before the program is
// ended, and is restored when the session returns.
//
// # Crashes
//
// Each step is committed before the next. [Run] continues where an earlier run was killed: it waits for a
// process that was left behind, and puts entered but unprocessed text back at the prompt. A draft is lost
// only if the program is killed before the switch has copied it.
package handoff
