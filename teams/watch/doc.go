// Package watch reports which inboxes of which teams have changed, and keeps their versions.
//
// A [Watcher] finds the teams and inboxes in Claude's directory by itself, including
// those that come later, go, and come again under the same name. Its reader calls
// [Watcher.Next] in a loop:
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
// An event only means "look here": the file may have changed again. Everything that exists when Run begins
// comes as an event too. After the last change of a file, at least one event for it follows. Events of one
// inbox are joined: one is handed out once nothing has followed for 2 ms, or 20 ms after the first, or at
// once when the writer releases its lock. So a file that is written all the time gets through as well.
//
// The events of one team come in the order [TeamAppeared], those of its files,
// [TeamGone]. If a team was deleted and made again under its name, it is gone in
// between. Rarely, a team that was made again is reported gone and appeared once more,
// or a version a second time.
//
// # Versions
//
// An agent replaces its inbox by "[]" when it has taken the rows. An open descriptor of a replaced file keeps
// its bytes. So a file is opened as soon as it is replaced, and as soon as the lock directory NAME.json.lock
// appears, which every reader and writer makes first. All versions seen since the last event are in
// [Event.Versions], oldest first, each once. A version is known by device, inode, modification time and size.
//
// If a file is written in place, as by an old Claude Code, its one descriptor shows the
// content at the time of reading, which may be torn. Another event follows when the
// writer releases its lock.
//
// At most [MaxVersions] of one event and [MaxFiles] of all waiting events are kept open.
// Beyond that, versions whose successor is not smaller are closed first, since most
// likely rows were only added; then the oldest, which are counted in [Event.Missed]. A
// file that could not be kept, cannot be opened, or is no regular file, is reported with
// [Event.Unkept].
//
// A reader that never calls Next costs one waiting event per inbox, and never delays the reading of kernel
// events.
//
// # Where events come from
//
// From the kernel, by one watch per directory: Claude's directory, teams, each team, each inboxes. To find
// unreported changes, each directory is also checked by stat every 5 s, and each file every 30 s; if this
// finds any, everything is checked again after 2 s. Every write of Claude Code changes a directory: it
// replaces the file, or makes a lock directory next to it. When the kernel has dropped events, or reading
// them fails, everything is looked at at once. Where there is no watch, because the system's limit is
// reached, or where three sweeps found something before any event came, as on network file systems, this is
// done every 250 ms, with one call of [Options.Warn].
//
// Without events, a version that lives for less than the interval is not seen.
//
// # What is watched
//
// Directories below teams whose name does not begin with a dot, and in their inboxes the
// names that end in ".json" and do not begin with a dot. Links are followed if they stay
// below the root; links to single files never. Names are passed on as they are: they
// need not be names that a team or a member may have.
//
// With [Options.Tasks], the directories below tasks are watched instead, and the files in them. Teams then
// stand for task lists, and inboxes for tasks.
//
// On Windows everything is polled. An open file cannot be replaced there, so none is kept: every event has
// Unkept set and the reader opens the path.
package watch
