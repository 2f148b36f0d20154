// Package watch says which inboxes of which teams have changed, and holds on to
// what they had in them.
//
// A [Watcher] is given Claude's directory, and finds the teams and the inboxes
// by itself, those too that come later, go, and come again under the same name.
// Its reader calls [Watcher.Next] in a loop:
//
//	w := watch.New(watch.Options{Root: root})
//	go w.Run(ctx)
//	for {
//		e, err := w.Next(ctx)
//		if err != nil {
//			return err
//		}
//		for _, v := range e.Versions {
//			// read v.File
//		}
//		if e.Unkept {
//			// read e.Path
//		}
//		e.Close()
//	}
//
// # What an event means
//
// An event says "look here", no more: what is there now is for the reader to
// find out, and it can have changed again. Everything there is when Run begins
// comes as an event too. After the last change of a file, at least one event
// for it follows. Events of one inbox are joined: one is handed out once nothing
// has followed for 2 ms, or 20 ms after the first ([Options.Settle],
// [Options.MaxSettle]), or at once when the writer gives back its lock. So a
// file that is written without a pause gets through as well.
//
// The events of one team come in the order [TeamAppeared], those of its
// files, [TeamGone]. A team that was deleted and made again under its name is
// gone in between. Rarely, a team that was made again is reported gone and
// appeared once more, or a version a second time: a reader must bear both.
//
// # Versions
//
// An agent of Claude Code 2.1.329 replaces its inbox by "[]" when it has taken
// the rows. An open descriptor of a replaced file keeps its bytes, therefore a
// file is opened the moment something happens to it, before anything is
// parsed: when it is replaced, and when the lock directory NAME.json.lock
// appears, which every writer and taker makes first. All versions seen since
// the last event are in [Event.Versions], oldest first, each once. A version
// is known by device, inode, modification time and size.
//
// A version that is written in place, as Claude Code 2.1.80 does, has one
// inode throughout, so its descriptor shows the content of the moment of reading, which
// may be torn. Another event follows when its writer gives back the lock.
//
// At most [MaxVersions] of one event and [MaxFiles] of all events that wait are
// kept open. Beyond that, first those go whose successor is not smaller, for
// then most likely rows were only added and are in the successor too; then the
// oldest, and those are counted in [Event.Missed]. A file that could not be
// kept, cannot be opened, or is no regular file, is reported with
// [Event.Unkept].
//
// A reader that never calls Next costs no more than that: one waiting event for
// each inbox that there is. It never holds up the reading of kernel events.
//
// # Where the news comes from
//
// From the kernel, by one watch per directory: Claude's directory, teams, each
// team, each inboxes. Every 2 s ([Options.Sweep]) all is looked at besides, by
// stat alone, which finds what the kernel did not say. When the kernel has
// dropped events, or reading them fails, everything is looked at at once.
// Where there is no watch, because the system's limit is reached, or where three
// sweeps found something and no event came, as on network file systems, it is
// done every 250 ms ([Options.Poll]); [Options.Warn] is told so once.
//
// Without events, a version that lives for less than the interval is not seen.
//
// # What is looked at
//
// Directories below teams whose name does not begin with a dot, and in their
// inboxes the names that end in ".json" and do not begin with a dot. Locks and
// temporary files are not inboxes. Links are followed as long as they stay below
// the root, links of single files never. Names are passed on as they are: they
// need not be names that a team or a member may have.
//
// # Systems
//
// On Windows a file that somebody has open cannot be replaced, so none is kept
// there: every event has Unkept set and the reader opens the path. Linux is
// where the tests run. The scripts in testdata say what each system is
// expected to give.
package watch
