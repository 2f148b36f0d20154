// Package probe measures whether a Claude Code does what teambridge relies on: offline, with a stand-in for the model, in a
// directory of its own.
//
// [Run] starts the program four times: headless, headless again to resume the session, as a headless member of a team, and as
// the lead of a team in a pseudo-terminal that nobody sees. Each [Point] is a statement that is true or not. All points are
// expected of all versions from [teams.Oldest] on, but for those that name the version that they came with. An older version
// is refused.
//
// Every wait has a limit, and its error says what did not come. A point whose evidence does not come is not measured; points that do not
// need that evidence are.
package probe
