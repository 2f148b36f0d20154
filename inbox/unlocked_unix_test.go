//go:build unix

package inbox_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"teambridge/inbox"
	"teambridge/teams/lockedfile"
)

// No call of the Memory is made while Claude's lock is held, whatever happens to the message: each call would fail
// there.
func TestMemoryIsNotUsedUnderTheLock(t *testing.T) {
	t.Parallel()
	intent := func(p *place, before string) inbox.Send {
		m := numbered("m", 0)
		key := inbox.SendKey{InboxKey: inbox.InboxKey{Root: p.root, Team: "demo", CreatedAt: 1795196213317, Inbox: "alice"}, ID: "m-0"}
		return inbox.Send{SendKey: key, Digest: m.Digest(), Before: before, State: inbox.SendIntent, At: m.Time}
	}
	for name, tc := range map[string]struct {
		setup func(p *place, n *notebook) error // what happened before
		at    lockedfile.Step                   // before this step ...
		do    func(p *place)                    // ... that happens, each time
		ctx   bool                              // the caller's context ends there, too
		force bool
		want  error
		calls []string
	}{
		"sent":                       {calls: []string{"recall", "intend", "written"}},
		"the caller goes away":       {at: lockedfile.StepReadBack, ctx: true, calls: []string{"recall", "intend", "written"}},
		"changed before the lock":    {at: lockedfile.StepLock, do: func(p *place) { p.write([]byte(foreign)) }, calls: []string{"recall", "intend", "written"}},
		"overwritten":                {at: lockedfile.StepReadBack, do: func(p *place) { p.write([]byte(foreign)) }, want: lockedfile.ErrClobbered, calls: []string{"recall", "intend", "withdraw"}},
		"lock lost, and gone away":   {at: lockedfile.StepFence, do: func(p *place) { p.breakLock() }, ctx: true, want: lockedfile.ErrCompromised, calls: []string{"recall", "intend", "withdraw"}},
		"corrupt":                    {setup: func(p *place, _ *notebook) error { p.write([]byte("{}")); return nil }, want: errCorrupt, calls: []string{"recall", "intend", "withdraw"}},
		"sent before without memory": {setup: func(p *place, _ *notebook) error { return p.appendTo(nil) }, calls: []string{"recall", "intend", "written"}},
		"sent before":                {setup: func(p *place, n *notebook) error { return p.appendTo(n) }, calls: []string{"recall"}},
		"sent before, and taken": {setup: func(p *place, n *notebook) error {
			err := p.appendTo(n)
			p.write([]byte("[]"))
			return err
		}, calls: []string{"recall"}},
		"unknown": {setup: func(p *place, n *notebook) error { return n.put(intent(p, "other")) }, want: inbox.ErrUnknown, calls: []string{"recall"}},
		"unknown, and forced": {setup: func(p *place, n *notebook) error { return n.put(intent(p, "other")) }, force: true,
			calls: []string{"recall", "intend", "written"}},
		"forced, and failed": {setup: func(p *place, n *notebook) error { return n.put(intent(p, "other")) }, force: true,
			at: lockedfile.StepFence, do: func(p *place) { p.breakLock() }, want: lockedfile.ErrCompromised, calls: []string{"recall", "intend", "intend"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write([]byte(foreign))
			if tc.setup != nil {
				must(t, tc.setup(p, p.memory()))
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := p.open(lockedfile.Options{Before: func(s lockedfile.Step) {
				if s != tc.at {
					return
				}
				if tc.do != nil {
					tc.do(p)
				}
				if tc.ctx {
					cancel()
				}
			}})
			memory := p.memory()
			memory.lock = p.lock()
			var calls []string
			memory.around = func(call, when string) {
				if when == "before" {
					calls = append(calls, call)
				}
			}
			r, err := b.Append(ctx, numbered("m", 0), inbox.AppendOptions{Memory: memory, Force: tc.force})
			if c := new(*inbox.CorruptError); tc.want == errCorrupt && errors.As(err, c) {
				err = errCorrupt
			}
			if !errors.Is(err, tc.want) || r.Unrecorded != nil || errors.Is(err, errHeld) {
				t.Errorf("got %+v, %v; want error %v", r, err, tc.want)
			}
			if !slices.Equal(calls, tc.calls) {
				t.Errorf("the memory was called: %q, want %q", calls, tc.calls)
			}
		})
	}
}
