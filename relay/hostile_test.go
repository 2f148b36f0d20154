package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/transcript"
)

// warnings waits for matching warnings of the relay, and returns them.
func (s *station) warnings(matches func(error) bool) []error {
	s.t.Helper()
	var all []error
	s.await("a warning", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		all = slices.Clone(s.warned)
		return slices.ContainsFunc(all, matches)
	})
	return all
}

// Anything else in the place of the inbox is left alone, reported once, and shown in
// the status. When there is an inbox again, its rows are delivered.
func TestNoInbox(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		put  func(t *testing.T, path, outside string)
		want func(error) bool
	}{
		"garbage": {
			func(t *testing.T, path, _ string) {
				must(t, os.WriteFile(path, []byte(`[{"from": "worker", "text": "cut o`), 0o600))
			},
			func(err error) bool { _, ok := errors.AsType[*inbox.CorruptError](err); return ok },
		},
		"a link": {
			func(t *testing.T, path, outside string) {
				must(t, errors.Join(os.Remove(path), os.Symlink(outside, path)))
			},
			func(err error) bool { return errors.Is(err, lockedfile.ErrNotRegular) },
		},
		"a directory": {
			func(t *testing.T, path, _ string) {
				must(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o700)))
			},
			func(err error) bool { return errors.Is(err, lockedfile.ErrNotRegular) },
		},
		"a file in the place of its lock": {
			func(t *testing.T, path, _ string) {
				must(t, os.WriteFile(path+".lock", nil, 0o600))
				must(t, os.WriteFile(path, []byte(`[{"from":"worker","text":"[m-9]","timestamp":"2026-11-20T12:00:00.000Z","read": false}]`), 0o600))
			},
			func(err error) bool { return errors.Is(err, lockedfile.ErrForeignLock) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			s.send("[m-1]")
			opts := s.options()
			_, stop := s.relay(opts)
			s.settled(1)
			path, outside := s.agent().path, filepath.Join(s.dir, "outside.json")
			rows := `[{"from":"worker","text":"[outside]","timestamp":"2026-11-20T12:00:00.000Z","read": false}]`
			must(t, os.WriteFile(outside, []byte(rows), 0o600))
			tc.put(t, path, outside)
			s.warnings(tc.want)
			s.until("said in the status", func(st Status) bool { return st.Reason != "" })
			if s.logged("start") != 1 {
				t.Error("the agent was not left alone")
			}
			if data, err := os.ReadFile(outside); err != nil || string(data) != rows {
				t.Errorf("a file outside was changed: %q, %v", data, err)
			}
			must(t, errors.Join(os.RemoveAll(path), os.RemoveAll(path+".lock")))
			s.send("[m-2]")
			s.await("the next message is worked on", func() bool { return s.works("[m-2]")["[m-2]"] > 0 })
			stop()
			if n := s.works("[m-1]", "[m-2]", "[outside]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 || n["[outside]"] != 0 {
				t.Errorf("worked on %v", n)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if n := len(s.warned); n > 2 { // a half-made state may have been seen, too
				t.Errorf("%d warnings, want it said once: %v", n, s.warned)
			}
		})
	}
}

// If the team is deleted while the relay runs, and another is made under its name, the
// relay ends, and no message of the new team reaches the agent of the old one.
func TestTeamMadeAnew(t *testing.T) {
	t.Parallel()
	for name, renew := range map[string]func(dir, config string) error{
		"deleted": func(dir, config string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return errors.Join(os.MkdirAll(filepath.Join(dir, "inboxes"), 0o700), os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
		},
		"moved away": func(dir, config string) error {
			return errors.Join(os.Rename(dir, dir+"-old"), os.MkdirAll(filepath.Join(dir, "inboxes"), 0o700),
				os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
		},
		"in the same directory": func(dir, config string) error {
			return os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			s.send("[m-1]")
			r := s.newRelay(s.options())
			done := make(chan error, 1)
			go func() { done <- r.Run(context.Background()) }()
			s.settled(1)
			s.until("idle", func(st Status) bool { return st.State == Idle && !st.LastDone.IsZero() })
			must(t, renew(filepath.Join(s.dir, "root/teams/demo"), strings.Replace(teamConfig, "1795196213317", "1795196999999", 1)))
			s.agent().write("[m-2]")
			select {
			case err := <-done:
				if !errors.Is(err, teams.ErrTeamGone) {
					t.Errorf("got %v, want ErrTeamGone", err)
				}
			case <-time.After(patience):
				t.Fatal("the relay goes on")
			}
			if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 0 {
				t.Errorf("worked on %v", n)
			}
			if data, err := os.ReadFile(s.agent().path); err != nil || !strings.Contains(string(data), `"read": false`) {
				t.Errorf("the row of the new team: %s, %v; want it unread", data, err)
			}
		})
	}
}

// The relay waits for a held lock, again and again, and reports it once, whether Claude Code's lock or that
// of another teambridge is held; then the row is taken.
func TestHeldLock(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	sender := s.agent()
	sender.write("[m-1]")
	s.locker = s.locking(lockedfile.Options{Wait: 50 * time.Millisecond})
	lock := sender.path + ".lock"
	must(t, os.Mkdir(lock, 0o700))
	r := s.newRelay(s.options())
	var tries atomic.Int32
	r.at = func(m moment) {
		if m == stuck {
			tries.Add(1)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.await("tried again, and again", func() bool {
		now := time.Now() // its holder lives
		must(t, os.Chtimes(lock, now, now))
		return tries.Load() >= 3
	})

	// Another sender waits for the directory, and holds the lock in the state directory until then.
	box, err := inbox.Open(s.team, "team-lead", s.locking(lockedfile.Options{}))
	must(t, err)
	sent := make(chan error, 1)
	go func() {
		_, err := box.Append(ctx, inbox.Message{From: "worker", Text: "[m-2]"}, inbox.AppendOptions{})
		sent <- err
	}()
	s.until("the other lock is held", func(st Status) bool { return strings.Contains(st.Reason, "another teambridge process") })
	s.mu.Lock()
	if len(s.warned) != 1 || !errors.Is(s.warned[0], lockedfile.ErrLocked) || errors.Is(s.warned[0], fs.ErrPermission) {
		t.Errorf("the relay warned of %v; want a lock that is held, once", s.warned)
	}
	s.mu.Unlock()
	must(t, os.Remove(lock))
	must(t, <-sent)
	for _, d := range s.settled(2) {
		if d.State != ledger.Done {
			t.Errorf("the row is %s (%s)", d.State, d.Reason)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// rawLedger opens a ledger that is in use as a plain database with its number of
// versions, without a check of the schema.
func rawLedger(ctx context.Context, path string) (*sqlite.DB, error) {
	format := sqlite.Format{Name: "ledger", Application: 0x74624c33}
	db, err := sqlite.Open(ctx, path, format)
	if newer, ok := errors.AsType[*sqlite.NewerError](err); ok {
		format.Schema = make([]string, newer.Version)
		db, err = sqlite.Open(ctx, path, format)
	}
	return db, err
}

// If every call of the ledger fails from some point of a turn on, the relay ends with
// the error and does not go on from memory. With a ledger that works again, everything
// is delivered once, and the turn that ended meanwhile is not nudged.
func TestLedgerThatFails(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Called, Do: simchild.Hold, Match: "[m-1]", Name: "go"}}})
	s.send("TOOL:0.001\n[m-1]")
	opts := s.options()
	own, err := ledger.Open(t.Context(), filepath.Join(s.dir, "state", "ledger.db"))
	must(t, err)
	opts.Ledger = own
	r := s.newRelay(opts)
	done := make(chan error, 1)
	go func() { done <- r.Run(context.Background()) }()
	s.await("the tool runs", func() bool { return s.logged("hold") > 0 })
	must(t, own.Close())
	s.send("[m-2]")
	s.let("go")
	select {
	case err := <-done:
		if !errors.Is(err, ledger.ErrClosed) || strings.Count(err.Error(), ledger.ErrClosed.Error()) > 3 {
			t.Errorf("got %v, want ErrClosed, and not for every line of the agent", err)
		}
	case <-time.After(patience):
		t.Fatal("the relay goes on")
	}
	_, stop := s.relay(s.options())
	s.drained()
	stop()
	if n := s.works("[m-1]", "[m-2]", Nudge); n["[m-1]"] != 1 || n["[m-2]"] != 1 || n[Nudge] != 0 {
		t.Errorf("worked on %v", n)
	}
}

// An agent prints invalid JSON, a line of the maximum length, a longer one, more unknown
// lines than are kept, and half a line. Its reports on the message still count.
func TestGarbageOfTheAgent(t *testing.T) {
	t.Parallel()
	limit, flood := 256<<10, 2<<20
	if os.Getenv(envRounds) != "" { // the limit of an agent, and far more than its buffer
		limit, flood = 16<<20, 30<<20
	}
	for name, fault := range map[string]simchild.Fault{
		"noise":        {At: simchild.Echoed, Do: simchild.Noise, Size: 100},
		"long line":    {At: simchild.Echoed, Do: simchild.Noise, Size: limit - 100},
		"too long":     {At: simchild.Worked, Do: simchild.Noise, Size: limit + 100},
		"many lines":   {At: simchild.Began, Do: simchild.Flood, Size: flood},
		"half a line":  {At: simchild.Finished, Do: simchild.Torn, Times: 1},
		"half, before": {At: simchild.Read, Do: simchild.Torn, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{Faults: []simchild.Fault{fault}})
			opts := s.options()
			change(&opts, func(o *claude.Options) { o.Buffer, o.LineLimit = int64(limit)/16, limit }) // the buffer has little of it
			s.send("[m-1]")
			_, stop := s.relay(opts)
			s.settled(1)
			s.send("[m-2]")
			s.done(2)
			stop()
			if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != 1 || n["[m-2]"] != 1 {
				t.Errorf("worked on %v", n)
			}
			processes := map[int]bool{}
			for _, st := range s.seen {
				processes[st.PID] = st.PID != 0
			}
			delete(processes, 0)
			if fault.Do != simchild.Torn && len(processes) != 1 { // a torn line ends the agent itself
				t.Errorf("%d agents were started", len(processes))
			}
		})
	}
}

// Rows marked as taken by a delivery that the ledger does not have are not delivered:
// they may have been. They are reported once. A row that its sender has marked in this
// way is treated the same.
func TestRowsOfAnotherLedger(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	row := func(text string, read bool) string {
		return fmt.Sprintf(`{"from":"worker","text":%q,"timestamp":"2026-11-20T12:00:00.000Z","read":%t,"relayedBy":"3d4d01c5-4fc0-4c52-8c90-de243592c189"}`, text, read)
	}
	must(t, os.WriteFile(s.agent().path, []byte("["+row("[m-1]", true)+","+row("[m-2]", false)+"]"), 0o600))
	_, stop := s.relay(s.options())
	s.send("[m-3]")
	s.settled(1)
	s.send("[m-4]")
	s.settled(2)
	stop()
	if n := s.works("[m-1]", "[m-2]", "[m-3]", "[m-4]"); n["[m-1]"] != 0 || n["[m-2]"] != 0 || n["[m-3]"] != 1 || n["[m-4]"] != 1 {
		t.Errorf("worked on %v", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var unknown *UnknownDeliveryError
	if len(s.warned) != 1 || !errors.As(s.warned[0], &unknown) || len(unknown.Deliveries) != 2 {
		t.Errorf("warned %v, want one of two rows", s.warned)
	}
}

// A relay does not warn of rows that it delivered itself after the ledger has pruned
// their deliveries, not even of the second of two equal rows. It still warns of others.
func TestRowsOfPrunedDeliveries(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	const equal = `{"from":"worker","text":"[m-1]","timestamp":"2026-11-20T12:00:00.000Z","read":false}`
	must(t, os.WriteFile(s.agent().path, []byte("["+equal+","+equal+"]"), 0o600))
	_, stop := s.relay(s.options())
	s.send("[m-2]")
	s.settled(3)
	stop()
	if n, err := s.ledger.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil || n < 3 {
		t.Fatalf("pruned %d, %v", n, err)
	}
	_, stop = s.relay(s.options())
	s.send("[m-3]") // it has read the others when it has delivered this
	s.settled(1)
	stop()
	s.mu.Lock()
	warned := slices.Clone(s.warned)
	s.mu.Unlock()
	if len(warned) > 0 {
		t.Errorf("warned of rows that it delivered: %v", warned)
	}
	data, err := os.ReadFile(s.agent().path)
	must(t, err)
	// The same row, by a delivery that never existed.
	forged := bytes.Replace(data, []byte(`"relayedBy":"`), []byte(`"relayedBy":"0000`), 1)
	if bytes.Equal(forged, data) {
		t.Fatalf("no row was relayed: %s", data)
	}
	must(t, os.WriteFile(s.agent().path, forged, 0o600))
	_, stop = s.relay(s.options())
	s.send("[m-4]")
	s.settled(2)
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	var unknown *UnknownDeliveryError
	if len(s.warned) != 1 || !errors.As(s.warned[0], &unknown) || len(unknown.Deliveries) != 1 {
		t.Errorf("warned %v, want one of one row", s.warned)
	}
}

// If an agent that was left behind is killed while its bridge is in the middle of a
// line, no part of that line reaches the next agent, which gets the whole line.
func TestNothingIsWrittenToTheNext(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Hold, Times: 1, Name: "never"}}})
	s.send(strings.Repeat("x", 90<<10) + "[m-1]")
	opts := s.options()
	change(&opts, func(o *claude.Options) { o.WriteTimeout = time.Hour })
	var skipped []claude.Payload
	opts.Events = func(e agent.Event) {
		if p, ok := e.Payload.(claude.Skipped); ok {
			skipped = append(skipped, p)
		}
	}
	_, stop := s.relay(opts)
	s.until("working", func(st Status) bool { return st.State == Working })
	s.await("the agent is held", func() bool { return s.logged("hold") > 0 })
	s.killAgent()
	all := s.settled(1)
	stop()
	f, _, err := s.ledger.Frames.Frame(t.Context(), all[0].Frame)
	must(t, err)
	if n := s.works("[m-1]")["[m-1]"]; n != 1 || f.Tries != 2 || len(skipped) > 0 || s.logged("start") != 2 {
		t.Errorf("worked on %d times, written %d times, %d processes, %v", n, f.Tries, s.logged("start"), skipped)
	}
}

// If an agent was killed while it recorded its first message, its session can be neither
// resumed nor started again, and another session gets the message once.
func TestUnusableSession(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	work, err := filepath.EvalSymlinks(filepath.Join(s.dir, "work"))
	must(t, err)
	left := claude.Transcript{Root: filepath.Join(s.dir, "root"), Dir: work, Session: "5f0c9c0e-7a0f-4c2b-9a53-3d6c2f0f8a11"}
	path := filepath.Join(left.Root, "projects", transcript.Slug(work), left.Session+".jsonl")
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)))
	opts.Session = left.Session
	s.send("[m-1]")
	_, stop := s.relay(opts)
	if all := s.settled(1); all[0].State != ledger.Done {
		t.Errorf("it is %s (%s)", all[0].State, all[0].Reason)
	}
	stop()
	if got := s.works("[m-1]")["[m-1]"]; got != 1 {
		t.Errorf("worked on %d times", got)
	}
	if len(s.warned) != 1 || !errors.Is(s.warned[0], agent.ErrUnusable) {
		t.Errorf("warned of %v, want the conversation that is lost", s.warned)
	}
}
