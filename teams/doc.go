// Package teams reads the agent teams that Claude Code keeps in its configuration directory. It also adds and
// removes people, and makes teams for headless agents.
//
// # Files
//
// A Claude directory is $CLAUDE_CONFIG_DIR, else ~/.claude ([Find]). A team is a directory
// <claude>/teams/<team> with a config.json, which lists the members, and a directory inboxes with one
// <member>.json each. When the lead's session ends, Claude Code deletes the whole directory; after a crash,
// the directory stays.
//
// One team can have agents of several versions of Claude Code. [Team.Agent] finds an agent's version in its
// conversation (package transcript) or its process; [Version.Outdated] reports whether it is too old. A
// config.json has no version, but from 2.1.311 on it has leadProcess. Claude Code rewrites it under the lock
// directory config.json.lock; old versions rewrite it in place and without a lock.
//
// # How to use it
//
//	dir, err := teams.Find("", os.LookupEnv)
//	root, err := teams.Open(dir)          // close it at the end
//	team, err := root.Choose(ctx, cwd)    // or root.Team("name"); close it too
//	config, err := team.Config(ctx)
//	name, err := team.Resolve(ctx, "lead")
//	inboxes, err := team.InboxDir(true)
//	err = locker.Transform(ctx, lockedfile.File{
//		Dir: inboxes, Name: name + ".json", Guard: team.Exists,
//	}, change)
//
// # What is promised
//
//   - Every name that this package returns is valid by [CheckName]. The package follows no symbolic link in
//     place of a team or its inboxes.
//   - A [Team] stays with the directory that it was opened on. Once that is deleted, even if another team of
//     the name is made, the error is [ErrTeamGone], and nothing is created.
//   - A config.json that is being rewritten in place is not mistaken for an empty or corrupt one: a read
//     waits, see [Team.Config].
//   - Only these functions write: [Team.Join], [Team.Leave], [Team.Enlist] and [Team.Dismiss] (one element of
//     members, every other byte kept), [Team.InboxDir] (one directory), [Team.Sweep] and [Root.Sweep]
//     (leftovers), and, for teams of our own, [Root.Create], [Root.Adopt], [Root.Restore], [Root.Discard] and
//     [Root.DiscardLed].
//   - A member's prompt can hold secrets. No verb of fmt, no logger and no JSON encoder prints a [Secret].
//
// # What is not promised
//
// Whether a lead is alive is known only on Linux, and only within the lead's pid namespace; see
// [LeadProcess.Liveness]. Names are compared by bytes: on a file system that ignores case, two spellings can
// mean one team.
package teams
