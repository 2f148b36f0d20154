package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teambridge/inbox/sqlite"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/supervisor"
	"teambridge/status/view"
)

// service reports whether the service runs and answers.
func (x *examination) service(ctx context.Context) {
	const start = "start it with: teambridge serve; or have the system do it: teambridge service install"
	c, err := client.Find(x.State, x.Root.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if x.unitGone() {
			return
		}
		x.add(api.LevelNote, "no_service", "", "", "no service runs: messages of others are recorded only while a command such as watch runs", start)
		return
	case err != nil:
		x.add(api.LevelProblem, "service", "", "", view.Describe(err), "restart it with this teambridge")
		return
	}
	defer c.Close()
	if pid, moved := MovedDatabases(x.State, x.Root.Path()); moved != "" {
		x.add(api.LevelProblem, "service_files", "", x.State, moved+" moved away or replaced while the service ran: its records are not in the history here, and its messages can be sent twice",
			fmt.Sprintf("end process %d; move the files that it has back, each with its -wal, unless you do not need their content; then %s", pid, start))
		return
	}
	card, _ := api.ReadCard(x.State, x.Root.Path())
	wait := cmp.Or(x.Wait, time.Second)
	asking, done := context.WithTimeoutCause(ctx, 2*wait, &client.UnreachableError{Where: c.Where(), Sent: true, Err: fmt.Errorf("not even to a health check within %s", 2*wait)})
	defer done()
	if err := c.Health(asking); err != nil {
		x.add(api.LevelProblem, "service", "", c.Where(), view.Describe(err), fmt.Sprintf("end process %d, and %s", card.PID, start))
		return
	}
	if v, err := c.Version(asking); err == nil && x.Version.Version != "" && v.Version.Other(x.Version) { // a missing answer is reported above
		x.add(api.LevelNote, "service_version", "", strings.Join(card.Listen, ", "), fmt.Sprintf("the service is teambridge %s, and this is %s: changes take effect after a restart", v.Version.Version, x.Version.Version),
			"teambridge service restart, or start it again as you did")
	}
	x.add(api.LevelOK, "service", "", strings.Join(card.Listen, ", "), fmt.Sprintf("the service runs and records: process %d", card.PID), "")
}

// unitGone adds a finding if the program of the service's systemd unit is gone, and reports whether it is.
func (x *examination) unitGone() bool {
	u, err := supervisor.Service(x.LookupEnv, func() (string, error) {
		home, _ := x.LookupEnv("HOME")
		return home, nil
	})
	if err != nil {
		return false
	}
	program, err := u.Program() // there is no unit, or teambridge did not write it
	if err != nil || !gone(program) {
		return false
	}
	x.add(api.LevelProblem, "service_gone", "", u.Path, "the service cannot start: it runs a program that is gone, "+program, "teambridge service install, or uninstall")
	return true
}

// gone reports whether a path names a program that no longer exists.
func gone(program string) bool {
	_, err := os.Stat(program)
	return filepath.IsAbs(program) && errors.Is(err, fs.ErrNotExist)
}

// MovedDatabases returns the process of the service, and the databases in the state directory that it does not have
// open, as "ledger.db was". moved is "" if the service has all open, or if the system does not show open files. A
// service of this version ends if its databases are moved, but an earlier version continues to record in the moved files.
func MovedDatabases(state, root string) (pid int, moved string) {
	card, err := api.ReadCard(state, root)
	if err != nil {
		return 0, ""
	}
	// In another container, this number means another process.
	if it, _ := sqlite.Uses(card.PID, api.LockPath(state, root)); !it {
		return card.PID, ""
	}
	var names []string
	for _, name := range []string{"ledger.db", "journal.db"} {
		if uses, known := sqlite.Uses(card.PID, filepath.Join(state, name)); known && !uses {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return card.PID, ""
	case 1:
		return card.PID, names[0] + " was"
	}
	return card.PID, strings.Join(names, " and ") + " were"
}
