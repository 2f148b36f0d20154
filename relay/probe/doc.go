// Package probe measures what a Claude Code does, on which teambridge relies: offline, with a stand-in for the model, in a
// directory of its own.
//
// [Run] starts the program three times: headless, headless again, which resumes the session, and as the lead of a team, in a
// pseudo-terminal that nobody sees. Each [Point] is a statement that is true or not. What is expected is in the table of
// package teams, or is the same for all versions.
//
// Every wait has a limit, and says what did not come. What a point needs that does not come leaves it unmeasured, and no
// other one that does not need it.
package probe
