package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams/atomicfile"
)

func (x *examination) state(ctx context.Context) {
	dir := x.State
	if dir == "" {
		x.add(api.LevelProblem, "no_state", "", "", "there is no home directory for teambridge's own files", "set $TEAMBRIDGE_STATE")
		return
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return // without a ledger, nothing was ever sent
	}
	if err == nil && !info.IsDir() {
		x.add(api.LevelProblem, "no_state", "", dir, "teambridge cannot keep its own files: this is not a directory", "move it away, or set $TEAMBRIDGE_STATE")
		return
	}
	if err == nil && atomicfile.Exposed(info) {
		x.add(api.LevelProblem, "open_state", "", dir, fmt.Sprintf("others can read teambridge's files (mode %o)", info.Mode().Perm()),
			"chmod 700 "+dir+", as teambridge doctor --fix does").
			remedy = func() error { return os.Chmod(dir, info.Mode().Perm()&0o700) }
	}
	l, err := x.Ledger(ctx)
	if err != nil {
		x.add(api.LevelProblem, "ledger", "", filepath.Join(dir, "ledger.db"), view.Describe(err),
			x.goesOn("messages are sent only with --force, and no history has them"))
		return
	}
	if l == nil {
		return
	}
	if err := x.relays(ctx, l); err != nil {
		x.add(api.LevelProblem, "ledger", "", "", err.Error(), "")
	}
}

// databases reports the size of the databases, and since when messages are recorded.
func (x *examination) databases(ctx context.Context) error {
	size := func(names ...string) (path, text string, there bool) {
		path = filepath.Join(x.State, names[0])
		var bytes int64
		for _, name := range names {
			if info, err := os.Stat(filepath.Join(x.State, name)); err == nil {
				bytes += info.Size()
				there = there || strings.HasPrefix(name, names[0])
			}
		}
		return path, fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)), there
	}
	if path, text, there := size("ledger.db", "ledger.db-wal"); there {
		if _, err := x.Ledger(ctx); err == nil { // state reports the error
			x.add(api.LevelOK, "ledger_size", "", path, "the ledger has "+text, "")
		}
	}
	path, text, there := size("journal.db", "journal.db-wal", "index.db", "index.db-wal")
	if !there {
		x.add(api.LevelNote, "no_journal", "", path, "nothing is recorded yet", `"teambridge watch" and the service record messages`)
		return nil
	}
	j, err := x.Journal(ctx)
	if ctx.Err() != nil {
		return err
	}
	since := "no messages have been recorded"
	if err == nil {
		for m, merr := range j.Messages.All(ctx, journal.Query{Root: x.Root.Path(), Limit: 1}) {
			if err = merr; err == nil {
				since = "messages have been recorded since " + view.Clock(m.FirstSeen)
			}
		}
	}
	switch {
	case errors.Is(err, journal.ErrBusy):
		x.add(api.LevelNote, "journal", "", path, view.Describe(err), "look again later")
		return nil
	case err != nil:
		x.add(api.LevelProblem, "journal", "", path, view.Describe(err), x.goesOn("messages can be sent, but messages of others are not recorded, and there is no history"))
		return nil
	}
	x.add(api.LevelOK, "journal_size", "", path, since+"; the journal has "+text, "teambridge gc deletes old ones")
	return nil
}

// goesOn describes what still works if this command cannot use a database: the text otherwise, or what a service does
// that has the database open.
func (x *examination) goesOn(otherwise string) string {
	c, err := client.Find(x.State, x.Root.Path())
	if err != nil {
		return otherwise
	}
	c.Close()
	if _, moved := MovedDatabases(x.State, x.Root.Path()); moved != "" {
		return otherwise
	}
	return "the service still has it open: messages through the service may not be recorded"
}
