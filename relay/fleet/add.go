package fleet

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/relay/pipe"
	"teambridge/teams"
)

// ExistsError says that a member has a relay already, with other settings. It is
// [ledger.ErrConflict].
type ExistsError struct {
	Relay ledger.Relay // the one that is there

	// Differ names the settings in which it differs, as the flags of "relay add" are
	// called; "command" is one.
	Differ []string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s@%s has a relay already, %s, with other settings (%s)", e.Relay.Member, e.Relay.Team, e.Relay.ID, strings.Join(e.Differ, ", "))
}

func (e *ExistsError) Unwrap() error { return ledger.ErrConflict }

// Add records that the relay is to be run. A member has one, whatever it was called
// when that was added: if the same is recorded already, that one is returned, and added
// is false; with other settings it is an [*ExistsError]. [ledger.Ledger.AddRelay] has
// the other errors. The root of r is set.
func Add(ctx context.Context, l *ledger.Ledger, root *teams.Root, r ledger.Relay) (_ ledger.Relay, added bool, err error) {
	r.Root = root.Path()
	all, err := l.Relays(ctx, r.Root)
	if err != nil {
		return ledger.Relay{}, false, err
	}
	name := root.MemberName(ctx, r.Team, r.Member)
	for _, is := range all {
		if is.Team != r.Team || root.MemberName(ctx, is.Team, is.Member) != name {
			continue
		}
		if differ := differences(is, r); len(differ) > 0 {
			return ledger.Relay{}, false, &ExistsError{Relay: is, Differ: differ}
		}
		return is, false, nil
	}
	r, err = l.AddRelay(ctx, r)
	return r, err == nil, err
}

// differences names the settings in which two relays differ.
func differences(a, b ledger.Relay) (names []string) {
	for _, setting := range []struct {
		name string
		same bool
	}{
		{"command", slices.Equal(a.Command, b.Command)},
		{"dir", a.Dir == b.Dir},
		{"on-cut", a.OnCut == b.OnCut},
		{"permissions", a.Permissions == b.Permissions},
		{"mode", sameMode(a.Mode, b.Mode)},
		{"plain", a.Plain == b.Plain},
		{"create-team", a.OwnTeam == b.OwnTeam},
	} {
		if !setting.same {
			names = append(names, setting.name)
		}
	}
	return names
}

// sameMode reports whether two modes, as JSON, have the same settings.
func sameMode(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	x, errX := pipe.ParseMode(a)
	y, errY := pipe.ParseMode(b)
	if errX != nil || errY != nil {
		return bytes.Equal(a, b)
	}
	return x.Hash() == y.Hash()
}
