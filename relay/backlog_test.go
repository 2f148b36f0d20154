package relay

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/claim"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams/lockedfile"
)

// envRows is how many rows wait in TestBacklog; the default is 300.
//
//	RELAY_TEST_ROWS=10000 go test -run Backlog -v ./relay
const envRows = "RELAY_TEST_ROWS"

// Many rows wait when the relay starts. All are delivered once, in order; at most 64 are
// claimed ahead; the file is rewritten once for every 32 rows, and not for every frame; and
// finished rows are removed from it.
func TestBacklog(t *testing.T) {
	rows := 300
	if n, err := strconv.Atoi(os.Getenv(envRows)); err == nil {
		rows = n
	}
	t.Parallel()
	s := newStation(t, simchild.Script{})
	texts := make([]string, rows)
	for i := range texts {
		texts[i] = fmt.Sprintf("[m-%05d]", i)
	}
	s.agent().write(texts...)
	var writes atomic.Int64
	s.locker = s.locking(lockedfile.Options{Before: func(step lockedfile.Step) {
		if step == lockedfile.StepRename {
			writes.Add(1)
		}
	}})
	opts := s.options()
	report, ahead := opts.Report, 0
	opts.Report = func(st Status) {
		ahead = max(ahead, st.Queue)
		report(st)
	}
	start := time.Now()
	r, stop := s.relay(opts)
	s.drained()
	took := time.Since(start)
	stop()
	if ahead > MaxAhead || ahead < MaxAhead/2 {
		t.Errorf("%d were claimed ahead, want at most %d, and not few", ahead, MaxAhead)
	}
	if limit := int64(rows/(MaxAhead/2) + 2); writes.Load() > limit {
		t.Errorf("the inbox was written %d times for %d rows, want at most %d", writes.Load(), rows, limit)
	}
	turns := s.turns()
	var said []string
	for _, turn := range turns {
		for rest := turn; ; {
			i := strings.Index(rest, "[m-")
			if i < 0 {
				break
			}
			said = append(said, rest[i:i+9])
			rest = rest[i+9:]
		}
	}
	if !slices.Equal(said, texts) {
		t.Errorf("%d messages were said, not the %d in their order", len(said), rows)
	}
	left, err := r.box.Read(t.Context())
	if limit := claim.KeptRows + claim.KeptRows/2 + 2*MaxAhead; err != nil || len(left) > limit || len(left) < claim.KeptRows {
		t.Errorf("%d rows are left in the file, %v; want %d to %d", len(left), err, claim.KeptRows, limit)
	}
	t.Logf("%d rows in %d turns and %d writings of the file: %.1f s", rows, len(turns), writes.Load(), took.Seconds())
}

// An agent does not read its stdin: its frame is larger than the pipe, so the relay is
// in the middle of writing it. Only that frame and the 64 claimed rows are in memory;
// the others stay in the file. The relay of another member, in the same process and with
// the same ledger, is not delayed. When the agent reads again, everything arrives once.
func TestAgentThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Hold, Name: "go"}}})
	const rows = 200
	texts := []string{strings.Repeat("x", 100<<10) + "[m-large]"}
	for i := range rows {
		texts = append(texts, fmt.Sprintf("[m-%03d]", i))
	}
	s.agent().write(texts...)
	opts := s.options()
	change(&opts, func(o *claude.Options) { o.WriteTimeout = time.Hour }) // never during the test
	r, stop := s.relay(opts)
	s.until("working", func(st Status) bool { return st.State == Working })
	s.await("the agent is held", func() bool { return s.logged("hold") > 0 })

	other := newStationBeside(s, simchild.Script{})
	path := filepath.Join(s.dir, "root/teams/demo/inboxes/worker.json")
	beside := &sender{t: t, path: path, from: "team-lead"}
	second := other.options()
	second.Member = "worker"
	_, stopOther := other.relay(second)
	for i := range 20 {
		beside.write(fmt.Sprintf("[o-%02d]", i))
	}
	other.await("the other agent has it all", func() bool {
		return strings.Count(strings.Join(other.turns(), "\n"), "[o-") == 20
	})
	stopOther()
	open, err := s.ledger.Deliveries.OpenCount(t.Context(), r.Key())
	if err != nil || open > MaxAhead {
		t.Errorf("%d are claimed, %v; want at most %d", open, err, MaxAhead)
	}
	data, err := os.ReadFile(r.box.Path())
	if n := bytes.Count(data, []byte(`"read": false`)); err != nil || n != len(texts)-open {
		t.Errorf("%d rows wait in the file, %v; want %d", n, err, len(texts)-open)
	}
	if len(s.turns()) > 0 || s.logged("read") > 0 {
		t.Error("the agent read something")
	}

	s.let("go")
	s.drained()
	stop()
	all := strings.Join(s.turns(), "\n")
	for _, text := range texts {
		m := text[strings.Index(text, "[m-"):]
		if n := strings.Count(all, m); n != 1 {
			t.Errorf("%s was said %d times", m, n)
		}
	}
	if n := s.logged("start"); n != 1 {
		t.Errorf("%d processes, want one", n)
	}
}

// An agent that reads nothing for longer than WriteTimeout is replaced, because half of a
// line may be in its stdin. The next one gets the same bytes.
func TestAgentThatNeverReads(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Hang}}})
	s.agent().write(strings.Repeat("x", 100<<10)+"[m-1]", "[m-2]")
	opts := s.options()
	change(&opts, func(o *claude.Options) { o.WriteTimeout = 300 * time.Millisecond })
	r := s.newRelay(opts)
	r.opts.Report = func(st Status) { // in the goroutine that starts agents
		if st.State == BackOff {
			change(&r.opts, func(o *claude.Options) { // the next one reads, even if the first was killed before it began to hang
				o.WriteTimeout, o.Env = time.Minute, append(o.Env, simchild.Script{State: s.script.State}.Env())
			})
		}
		opts.Report(st)
	}
	stop := s.run(r)
	s.drained()
	stop()
	if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 {
		t.Errorf("worked on %v", n)
	}
	all, err := s.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{})
	if err != nil || len(all) != 2 {
		t.Fatalf("%d deliveries, %v", len(all), err)
	}
	f, _, err := s.ledger.Frames.Frame(t.Context(), all[1].Frame)
	if err != nil || f.Tries != 2 || f.Deaths != 1 {
		t.Errorf("written %d times, %d deaths, %v; want 2, 1", f.Tries, f.Deaths, err)
	}
}
