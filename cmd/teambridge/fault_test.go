package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Codes and statuses are for programs, and stay what they are.
func TestExplain(t *testing.T) {
	t.Parallel()
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	at := func(err error) error { return fmt.Errorf("send to worker: %w", err) }
	for _, c := range []struct {
		err  error
		code string
		exit int
		hint bool // there is one
	}{
		{usage("h", "wrong"), "usage", 2, true},
		{at(&inbox.InvalidError{Field: "text", Reason: "is blank"}), "invalid", 2, true},
		{at(teams.ErrBadName), "invalid", 2, true},
		{&teams.AmbiguousTeamError{Teams: []teams.Candidate{{Name: "a"}, {Name: "b"}}}, "ambiguous_team", 2, true},
		{&teams.NoRootError{Dir: "/x", Err: fs.ErrNotExist}, "not_found", 3, true},
		{&teams.NotFoundError{Kind: "team", Query: "x"}, "not_found", 3, true},
		{&teams.NotFoundError{Kind: "team"}, "not_found", 3, true},
		{&teams.NotFoundError{Kind: "member", Query: "x", Team: "t"}, "not_found", 3, true},
		{notFound("h", "nothing"), "not_found", 3, true},
		{at(inbox.ErrMissing), "not_found", 3, true},
		{at(teams.ErrTeamGone), "gone", 3, true},
		{at(context.DeadlineExceeded), "timeout", 4, false},
		{refuse("h", "no"), "refused", 5, true},
		{at(teams.ErrNameTaken), "refused", 5, true},
		{at(teams.ErrNotOurs), "refused", 5, true},
		{at(teams.ErrNotDir), "refused", 5, true},
		{at(lockedfile.ErrNotRegular), "refused", 5, true},
		{at(teams.ErrJoinNotNeeded), "join_not_needed", 5, true},
		{at(inbox.ErrIDTaken), "id_taken", 5, true},
		{at(ledger.ErrConflict), "id_taken", 5, true},
		{at(&inbox.CorruptError{Path: "/x"}), "corrupt", 6, true},
		{at(&teams.CorruptError{Path: "/x", Err: errors.New("bad")}), "corrupt", 6, true},
		{at(lockedfile.ErrForeignLock), "foreign_lock", 6, true},
		{at(&lockedfile.LockedError{Path: "/x"}), "locked", 6, true},
		{at(lockedfile.ErrHeldTooLong), "locked", 6, true},
		{at(&ledger.Error{Op: "open", Path: "/x", Kind: ledger.ErrBusy}), "locked", 6, true},
		{at(lockedfile.ErrTooLarge), "too_large", 6, true},
		{at(inbox.ErrBusy), "busy", 6, true},
		{at(inbox.ErrEmpty), "busy", 6, true},
		{at(&lockedfile.CompromisedError{Path: "/x"}), "compromised", 6, true},
		{at(&lockedfile.CompromisedError{Path: "/x", Replaced: true}), "unknown", 7, true},
		{at(inbox.ErrUnknown), "unknown", 7, true},
		{at(lockedfile.ErrClobbered), "lost", 7, true},
		{at(inbox.ErrNoMemory), "no_ledger", 1, true},
		{at(&os.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}), "permission", 1, true},
		{at(&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}), "output", 1, true},
		{errors.New("anything"), "error", 1, false},
	} {
		f := explain(context.Background(), c.err)
		if f.code != c.code || f.exit != c.exit || (f.hint != "") != c.hint || f.quiet {
			t.Errorf("%v: %+v, want code %s, exit %d, hint %v", c.err, f, c.code, c.exit, c.hint)
		}
	}
	// An interrupt counts for more than the lock that was waited for.
	waiting := fmt.Errorf("lock /x: %w (%w)", context.Canceled, &lockedfile.LockedError{Path: "/x"})
	if f := explain(interrupted, waiting); f.code != "interrupted" || f.exit != 130 {
		t.Errorf("interrupted: %+v", f)
	}
	if f := explain(context.Background(), exitStatus(1)); f.exit != 1 || !f.quiet {
		t.Errorf("exit status: %+v", f)
	}
}
