package inbox_test

import (
	"errors"
	"testing"

	"teambridge/inbox"
	"teambridge/teams/lockedfile"
)

// A writer that ignores the lock puts back the content from before our message, once, twice or always. The message is
// sent in the end, or its sender learns that it was not sent, and can send it again under its id.
func TestClobbered(t *testing.T) {
	t.Parallel()
	for _, step := range []lockedfile.Step{lockedfile.StepReadBack, lockedfile.StepFence} {
		for _, times := range []int{1, 2, 3, 100} {
			p := newPlace(t)
			p.write([]byte(foreign))
			n := 0
			b := p.open(lockedfile.Options{Before: func(s lockedfile.Step) {
				if s == step && n < times {
					n++
					p.write([]byte(foreign))
				}
			}})
			r, err := b.Append(t.Context(), numbered("m", 0), inbox.AppendOptions{Memory: p.memory()})
			want := error(nil)
			if times >= 3 {
				want = lockedfile.ErrClobbered
			}
			if !errors.Is(err, want) || r.Deduplicated || r.ID != "m-0" {
				t.Errorf("%d times before %s: got %+v, %v; want error %v", times, step, r, err, want)
			}
			if got := p.count("m-0"); (got == 1) != (want == nil) {
				t.Errorf("%d times before %s: %d rows of it", times, step, got)
			}
			p.wantForeign(p.content())
			p.wantNames("alice.json")
			p.resend(false, want == nil, nil)
			if got := p.count("m-0"); got != 1 {
				t.Errorf("sent again: %d rows of it", got)
			}
		}
	}
}
