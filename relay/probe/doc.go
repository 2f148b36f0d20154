// Package probe measures whether a Claude Code behaves as teambridge assumes. It works offline, with a
// stand-in for the model, in its own directory.
//
// [Run] starts the program four times: headless, headless again to resume the session, as a headless member
// of a team, and as the lead of a team in an invisible pseudo-terminal. Each [Point] is a statement that is
// true or false. All versions from [teams.Oldest] on are expected to fulfil all points, except the points
// that name their first version. An older version is refused.
//
// Every wait has a limit, and its error names the missing event. A point without evidence is not measured;
// the other points are.
package probe
