// Package handoff moves one session between a person's terminal and a headless agent.
//
// [Run] has the inbox of a member, whose lock its caller holds. The session is in one of two places. At the terminal the
// person's own program runs in it, and nothing is taken from the inbox. At the relay a headless agent works on it and
// gets the messages. Never do both run: each would miss what the other does.
//
//	local ── a prompt waits, the key, a wish ──▶ switching ──▶ remote
//	remote ── the key, a wish ──▶ returning ──▶ local
//
// Only a person's prompt in the ledger switches to remote, never a row of the inbox. The switch waits until the program
// is idle and the person does not type, and is refused while its end would lose something: [Agent.Obstacle]. What stands
// at the prompt is committed to the ledger before the program is ended, and is put there again when the session returns.
//
// # Crashes
//
// Each step is committed before the next is taken. [Run] goes on where an earlier one was killed: it waits for the process
// that was left behind, and gives what was entered and not run back to the person. A draft is lost only if the program
// is killed before it was asked for it.
package handoff
