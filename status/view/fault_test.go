package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Codes and statuses, on which programs rely, do not change.
func TestExplain(t *testing.T) {
	t.Parallel()
	at := func(err error) error { return fmt.Errorf("send to worker: %w", err) }
	for _, c := range []struct {
		err  error
		code api.Code
		exit int
		http int
		hint bool // it has one
	}{
		{api.Decide(api.CodeUsage, "h", "wrong"), "usage", 2, 400, true},
		{at(&inbox.InvalidError{Field: "text", Reason: "is blank"}), "invalid", 2, 422, true},
		{at(teams.ErrBadName), "invalid", 2, 422, true},
		{&teams.AmbiguousTeamError{Teams: []teams.Candidate{{Name: "a"}, {Name: "b"}}}, "ambiguous_team", 2, 400, true},
		{&teams.NoRootError{Dir: "/x", Err: fs.ErrNotExist}, "not_found", 3, 404, true},
		{&teams.NotFoundError{Kind: "team", Query: "x"}, "not_found", 3, 404, true},
		{&teams.NotFoundError{Kind: "team"}, "not_found", 3, 404, true},
		{&teams.NotFoundError{Kind: "member", Query: "x", Team: "t"}, "not_found", 3, 404, true},
		{api.Decide(api.CodeNotFound, "h", "nothing"), "not_found", 3, 404, true},
		{at(inbox.ErrMissing), "not_found", 3, 404, true},
		{at(teams.ErrTeamGone), "gone", 3, 410, true},
		{at(context.DeadlineExceeded), "timeout", 4, 504, false},
		{api.Decide(api.CodeRefused, "h", "no"), "refused", 5, 403, true},
		{at(teams.ErrNameTaken), "refused", 5, 403, true},
		{at(teams.ErrNotOurs), "refused", 5, 403, true},
		{at(teams.ErrNotDir), "refused", 5, 403, true},
		{at(lockedfile.ErrNotRegular), "refused", 5, 403, true},
		{at(inbox.ErrIDTaken), "id_taken", 5, 409, true},
		{at(&fleet.ExistsError{Relay: ledger.Relay{ID: "r"}}), "conflict", 5, 409, true},
		{at(&fleet.ExistsError{}), "conflict", 5, 409, true},
		{at(fleet.ErrNotDead), "conflict", 5, 409, true},
		{at(&fleet.NotOwnerError{Team: "t"}), "conflict", 5, 409, true},
		{at(&teams.OccupiedError{Team: "t"}), "conflict", 5, 409, true},
		{at(&ledger.StateError{Op: "drop"}), "conflict", 5, 409, true},
		{at(relay.ErrStays), "conflict", 5, 409, true},
		{at(&pane.NoPaneError{Team: "t", Member: "m"}), "conflict", 5, 409, true},
		{at(&pane.SenderError{Name: "m"}), "not_found", 3, 404, true},
		{at(&pane.SenderError{Name: "m", Teams: []string{"t", "u"}}), "ambiguous_team", 2, 400, true},
		{at(&inbox.CorruptError{Path: "/x"}), "corrupt", 6, 409, true},
		{at(&teams.CorruptError{Path: "/x", Err: errors.New("bad")}), "corrupt", 6, 409, true},
		{at(lockedfile.ErrForeignLock), "foreign_lock", 6, 423, true},
		{at(&lockedfile.LockedError{Path: "/x"}), "locked", 6, 423, true},
		{at(lockedfile.ErrHeldTooLong), "locked", 6, 423, true},
		{at(&ledger.Error{Op: "open", Path: "/x", Kind: ledger.ErrBusy}), "locked", 6, 423, true},
		{at(lockedfile.ErrTooLarge), "too_large", 6, 409, true},
		{at(inbox.ErrBusy), "busy", 6, 423, true},
		{at(inbox.ErrEmpty), "busy", 6, 423, true},
		{at(lockedfile.ErrCompromised), "compromised", 6, 503, true},
		{at(fmt.Errorf("%w; %w", lockedfile.ErrCompromised, lockedfile.ErrReplaced)), "unknown", 7, 500, true},
		{at(inbox.ErrUnknown), "unknown", 7, 500, true},
		{at(lockedfile.ErrClobbered), "lost", 7, 500, true},
		{at(inbox.ErrNoMemory), "no_ledger", 1, 503, true},
		{api.Decide(api.CodeNoAnswer, "h", "none"), "no_answer", 8, 502, true},
		{at(&os.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}), "permission", 1, 500, true},
		{at(&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}), "output", 1, 500, true},
		{errors.New("anything"), "error", 1, 500, false},
		{at(api.Decide(api.CodeTimeout, "", "it did not happen")), "timeout", 4, 504, false},
		{at(&journal.ValueError{Field: "search words", Reason: "is blank"}), "usage", 2, 400, false},
		{at(context.Canceled), "interrupted", 130, 503, false},
		// An interrupt takes precedence over the lock that was waited for.
		{fmt.Errorf("lock /x: %w (%w)", context.Canceled, &lockedfile.LockedError{Path: "/x"}), "interrupted", 130, 503, false},
	} {
		f := Explain(c.err)
		if f.Code != c.code || f.Code.Exit() != c.exit || f.Code.HTTP() != c.http || (f.Hint != "") != c.hint {
			t.Errorf("%v: %+v, exit %d, HTTP %d; want %s, %d, %d, hint %v", c.err, f, f.Code.Exit(), f.Code.HTTP(), c.code, c.exit, c.http, c.hint)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"teams: no team \"x\"", "no team \"x\""},
		{"inbox /a.json: inbox /a.json: there is none", "inbox /a.json: there is none"},
		{"join: teams: join: lockedfile: lock /a: held", "join: lock /a: held"},
		{`send "teams: a: a": no: no`, `send "teams: a: a": no`},
		{`say "a \" teams: b": c`, `say "a \" teams: b": c`},
		{"12:30:15 and http://x", "12:30:15 and http://x"},
		{"ledger: open /x: full", "ledger: open /x: full"},
	} {
		if got := Describe(errors.New(c.in)); got != c.want {
			t.Errorf("Describe(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	if got := Describe(fmt.Errorf("a: %w", errors.New("a"))); got != "a" {
		t.Errorf("got %q", got)
	}
}
