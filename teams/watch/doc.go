// Package watch reports changes of inboxes in all teams, and keeps the inboxes' earlier contents.
//
// A [Watcher] finds the teams and inboxes in Claude's directory, including those that are made, removed, or
// made again later. Its reader calls [Watcher.Next] in a loop:
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
// An event only means that a file must be checked: it may have changed again since. Everything that exists at
// the start of Run causes an event, too. After the last change of a file, at least one event for it follows.
// Events of one inbox are joined. A joined event is delivered 2 ms after its last change, 20 ms after its
// first change, or as soon as the writer releases its lock, whichever comes first. So the limit holds even
// for a file that is written all the time.
//
// The events of one team have this order: [TeamAppeared], events of its files, [TeamGone]. If a team was
// deleted and made again under its name, TeamGone comes in between. In rare cases, TeamGone and TeamAppeared
// are repeated for a team that was made again, or a version is delivered twice.
//
// # Versions
//
// An agent replaces its inbox by "[]" when it has taken the rows. An open descriptor of the replaced file
// keeps its bytes. So the watcher opens a file as soon as it is replaced, and as soon as the lock directory
// NAME.json.lock appears, which every reader and writer makes first. [Event.Versions] has all versions seen
// since the last event, oldest first, each once. Device, inode, modification time and size identify a
// version.
//
// If a file is written in place, as an old Claude Code does, its one descriptor shows the content at the time
// of reading, which may be torn. Another event follows when the writer releases its lock.
//
// At most [MaxVersions] of one event and [MaxFiles] of all waiting events are kept open. Beyond that, a
// version whose successor is not smaller is closed first, because most likely the successor only has more
// rows; then the oldest one, which [Event.Missed] counts. [Event.Unkept] reports a file that could not be
// kept, cannot be opened, or is not a regular file.
//
// If a reader never calls Next, one event per inbox waits, and the reading of kernel events is not delayed.
//
// # Where events come from
//
// The kernel reports events, with one watch per directory: Claude's directory, teams, each team, each
// inboxes. To find unreported changes, a sweep also checks each directory by stat every 5 s, and each file
// every 30 s; if it finds any, it checks everything again after 2 s. Every write of Claude Code changes a
// directory, because it replaces the file or makes a lock directory next to it. If the kernel has dropped
// events, or reading them fails, everything is checked at once. A directory is polled every 250 ms, with one
// call of [Options.Warn], if it has no watch, because the system's limit is reached, or if three sweeps found
// a change before any event, as on network file systems.
//
// Without events, a version that exists for less than the interval goes unnoticed.
//
// # What is watched
//
// The watcher watches the directories below teams whose names do not begin with a dot, and in their inboxes
// the names that end in ".json" and do not begin with a dot. It follows links that stay below the root,
// except links to single files. It passes names on unchanged: they need not be valid names of a team or a
// member.
//
// With [Options.Tasks], it watches the directories below tasks instead, and the files in them. Team then
// means a task list, and Inbox a task.
//
// On Windows everything is polled. An open file cannot be replaced there, so no file is kept open: every
// event has Unkept set, and the reader opens the path.
package watch
