// Package probe measures whether a Claude Code behaves as teambridge assumes: offline, with a stand-in for
// the model, in its own directory.
//
// [Run] starts the program four times: headless, headless again to resume the session, as a headless member
// of a team, and as the lead of a team in a pseudo-terminal that nobody sees. Each [Point] is a statement
// that is true or not. All versions from [teams.Oldest] on are expected to fulfil all points, except those
// that name their first version. An older version is refused.
//
// Every wait has a limit, and its error names the missing event. A point without evidence is not measured;
// others are.
package probe
