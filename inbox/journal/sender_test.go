package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"teambridge/inbox"
)

// glances are the looks of one process at one file, each in three steps.
type glances struct {
	j           *Journal
	step        int // 0: none is under way; 1: begun; 2: read; 3: done, to be handed over
	began, done int
	rows        []string
}

// sim is one inbox file, an agent that takes all rows, a sender that hands over what it read back, and a tap, in one
// process or two, each with any speed.
type sim struct {
	t     *testing.T
	inbox string
	clock int
	file  []string
	names map[string]int

	locked  bool // by the sender
	sender  glances
	ours    string // the message that the sender sent and follows; "": none
	sent    []string
	looking bool // the receipt was handed over: what follows are looks

	tap     glances
	tapping bool
	pending bool // the file has changed since the tap began to read
}

func (s *sim) snapshot(g *glances) Snapshot {
	var rows []string
	for _, text := range g.rows {
		rows = append(rows, row(text))
	}
	snap := look(s.t, float64(g.began), rows...)
	snap.Inbox, snap.Done = s.inbox, at(float64(g.done))
	return snap
}

// glance does the next step of a look, and returns whether its snapshot was handed over, and whether another look is
// needed.
func (s *sim) glance(g *glances) (over, again bool) {
	switch g.step {
	case 0:
		g.began = s.clock
	case 1:
		g.rows = slices.Clone(s.file)
	case 2:
		g.done = s.clock
	case 3:
		g.step = 0
		return true, len(observe(s.t, g.j, s.snapshot(g)).Again) > 0
	}
	g.step++
	return false, false
}

func (s *sim) change(file []string) {
	s.file = file
	s.pending = true
}

func (s *sim) name(kind string) string {
	s.names[kind]++
	return fmt.Sprint(kind, s.names[kind])
}

// send does the next step of the sender.
func (s *sim) send() {
	switch {
	case s.ours == "":
		s.ours, s.locked, s.looking = s.name("ours"), true, false
		s.sent = append(s.sent, s.ours)
		s.change(append(s.file[:len(s.file):len(s.file)], s.ours))
	case s.locked:
		s.glance(&s.sender)
		s.locked = s.sender.step < 3
	default:
		over, again := s.glance(&s.sender)
		switch {
		case !over:
		case s.looking && !again && !slices.Contains(s.sender.rows, s.ours):
			s.ours = "" // taken, and the sender knows it
		default:
			s.looking = true
		}
	}
}

func (s *sim) tapStep() {
	if s.tap.step == 0 {
		if !s.pending {
			return
		}
		s.pending = false
	}
	if _, again := s.glance(&s.tap); again {
		s.pending = true
	}
}

// However the looks of a sender and a tap interleave, each sent message is recorded once, and as gone if and only if
// it is gone.
func TestSenderBesideATap(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	j, other := mustOpen(t, path), mustOpen(t, path)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		s := &sim{t: t, inbox: fmt.Sprint("inbox", n), names: map[string]int{}, tapping: rapid.Bool().Draw(rt, "tap")}
		s.sender.j, s.tap.j = j, j
		if rapid.Bool().Draw(rt, "two processes") {
			s.tap.j = other
		}
		step := func(do func()) func(*rapid.T) {
			return func(*rapid.T) {
				s.clock++
				do()
			}
		}
		actions := map[string]func(*rapid.T){
			"sender":       step(s.send),
			"sender again": step(s.send),
			"agent": step(func() {
				if !s.locked {
					s.change(nil)
				}
			}),
			"another": step(func() {
				if !s.locked {
					s.change(append(s.file[:len(s.file):len(s.file)], s.name("theirs")))
				}
			}),
		}
		if s.tapping {
			actions["tap"] = step(s.tapStep)
			actions["tap again"] = step(s.tapStep)
		}
		rt.Repeat(actions)
		// All looks end, and nothing else happens.
		for k := 0; s.ours != "" && (!slices.Contains(s.file, s.ours) || !s.looking); k++ {
			if s.clock++; k > 100 {
				rt.Fatalf("the sender does not end")
			}
			s.send()
		}
		for k := 0; s.tapping && (s.pending || s.tap.step > 0); k++ {
			if s.clock++; k > 100 {
				rt.Fatalf("the tap does not end")
			}
			s.tapStep()
		}
		var want, got []string
		for _, text := range s.sent {
			want = append(want, fmt.Sprintf("%s#1 gone %v", text, !slices.Contains(s.file, text)))
		}
		for _, m := range messages(t, j, Query{Inbox: s.inbox}) {
			if slices.Contains(s.sent, m.Text) {
				got = append(got, fmt.Sprintf("%s#%d gone %v", m.Text, m.Occurrence, !m.GoneAt.IsZero()))
			}
			if s.tapping && m.GoneAt.IsZero() != slices.Contains(s.file, m.Text) {
				rt.Errorf("%s is gone at %v, and the file has %q", m.Text, m.GoneAt, s.file)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Errorf("what was sent (-want +got):\n%s", diff)
		}
	})
}

// Ahead returns the rows in front of a message that are still there, and were not seen gone in between.
func TestAhead(t *testing.T) {
	t.Parallel()
	first, second, ours := row("first"), row("second"), row("ours", `"messageId":"ours"`)
	read := row("first", `"read":true`)
	key := func(list ...string) (keys []string) {
		for _, r := range file(t, list...) {
			keys = append(keys, r.Key())
		}
		return keys
	}
	all := []string{first, second, ours}
	for name, tc := range map[string]struct {
		looks [][]string // after the message was written
		then  func(j *Journal) error
		want  []string
	}{
		"nothing happened":     {want: []string{first, second}},
		"it is gone":           {looks: [][]string{{first, second}}, want: []string{first, second}},
		"one of them is gone":  {looks: [][]string{{second}}, want: []string{second}},
		"all are gone":         {looks: [][]string{{}}},
		"all were gone":        {looks: [][]string{{}, {first, second}}},
		"one is read":          {looks: [][]string{{read, second, ours}}, want: []string{second}},
		"there are newer ones": {looks: [][]string{{second, ours, row("third")}, {second, row("third")}}, want: []string{second}},
		"it was written back":  {looks: [][]string{{first}, {first, ours}}, want: []string{first}},
		"it was consumed":      {then: func(j *Journal) error { _, err := j.Receipts.Consumed(t.Context(), aKey("ours"), at(9)); return err }},
		"it was seen":          {then: func(j *Journal) error { _, err := j.Receipts.Seen(t.Context(), aKey("ours"), at(9)); return err }, want: []string{first, second}},
		"sent again behind fewer": {then: func(j *Journal) error {
			_, lerr := j.Receipts.Lost(t.Context(), aKey("ours"), at(8), "clobbered")
			_, err := j.Receipts.Verified(t.Context(), aKey("ours"), at(9), key(second)...)
			return errors.Join(lerr, err)
		}, want: []string{second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			observe(t, j, look(t, 1, first))
			observe(t, j, look(t, 2, all...))
			_, err := j.Receipts.Verified(t.Context(), aKey("ours"), at(3), inbox.Ahead(file(t, all[:2]...))...)
			must(t, err)
			for i, rows := range tc.looks {
				observe(t, j, look(t, float64(4+i), rows...))
			}
			if tc.then != nil {
				must(t, tc.then(j))
			}
			got, err := j.Receipts.Ahead(t.Context(), aKey("ours"))
			must(t, err)
			if diff := cmp.Diff(key(tc.want...), got); diff != "" {
				t.Errorf("ahead (-want +got):\n%s", diff)
			}
		})
	}
	j := newJournal(t)
	if got, err := j.Receipts.Ahead(t.Context(), aKey("ours")); err != nil || got != nil {
		t.Errorf("of what is not known: %v, %v", got, err)
	}
}
