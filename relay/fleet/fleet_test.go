package fleet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/runtimes"
	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
	"teambridge/teams/watch"
)

func TestMain(m *testing.M) {
	simchild.Main()
	os.Exit(killtest.Tests(m))
}

// harbour has a Claude root and the other needs of a fleet.
type harbour struct {
	*teamstest.Fixture
	t      *testing.T
	ledger *ledger.Ledger
	work   string
	script simchild.Script
	timing relay.Timing

	mu      sync.Mutex
	results []string
	models  []string
	warned  []error
	look    chan struct{}
}

func newHarbour(t *testing.T, script simchild.Script) *harbour {
	t.Helper()
	h := &harbour{Fixture: teamstest.New(t), t: t, work: t.TempDir(), script: script, look: make(chan struct{}, 1)}
	h.script.State = h.Root.Path()
	h.timing = relay.Timing{Backoff: time.Millisecond, Startup: time.Millisecond, Retry: 20 * time.Millisecond, Poll: 20 * time.Millisecond, Handover: time.Minute}
	var err error
	h.ledger, err = ledger.Open(t.Context(), filepath.Join(h.State, "ledger.db"))
	must(t, err)
	t.Cleanup(func() { h.ledger.Close() })
	return h
}

var must = errtest.Must

func (h *harbour) remove(team string) {
	h.t.Helper()
	must(h.t, os.RemoveAll(filepath.Join(h.Root.Path(), "teams", team)))
}

func (h *harbour) changed() {
	select {
	case h.look <- struct{}{}:
	default:
	}
}

// sail runs a fleet until the test, or stop, ends it.
func (h *harbour) sail() (f *Fleet, stop func() error) {
	h.t.Helper()
	return h.sailWith(func(*Fleet) {})
}

// sailWith changes the fleet first.
func (h *harbour) sailWith(change func(*Fleet)) (f *Fleet, stop func() error) {
	h.t.Helper()
	f = New(Options{
		Root: h.Root, Ledger: h.ledger, Locker: h.Locker, State: h.State, Every: 20 * time.Millisecond,
		Timing: h.timing,
		Env:    append(os.Environ(), h.script.Env(), "GORACE=atexit_sleep_ms=0"),
		Report: func(Status) { h.changed() },
		Events: func(_ string, e agent.Event) {
			h.mu.Lock()
			switch p := e.Payload.(type) {
			case claude.Init:
				h.models = append(h.models, p.Model)
			case claude.Result:
				h.results = append(h.results, p.Text)
			}
			h.mu.Unlock()
			h.changed()
		},
		Warn: func(err error) {
			if errors.Is(err, watch.ErrLimit) { // other processes have all watches: the relays poll
				return
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.warned = append(h.warned, err)
		},
	})
	change(f)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	h.t.Cleanup(func() { stop() })
	return f, stop
}

func (h *harbour) entry(team, member string) ledger.Relay {
	return ledger.Relay{Team: team, Member: member, Command: []string{simchild.Program()}, Dir: h.work}
}

func (h *harbour) add(f *Fleet, r ledger.Relay) string {
	h.t.Helper()
	r, _, err := f.Add(h.t.Context(), r)
	must(h.t, err)
	return r.ID
}

// until waits until a relay is in such a state.
func (h *harbour) until(f *Fleet, id, what string, holds func(Status) bool) Status {
	h.t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		s, err := f.Status(id)
		if err == nil && holds(s) {
			return s
		}
		select {
		case <-h.look:
		case <-time.After(10 * time.Millisecond): // some changes are not reported
		case <-timeout:
			h.mu.Lock()
			defer h.mu.Unlock()
			h.t.Fatalf("%s is not %s: %+v, %v; warned %v; results %q", id, what, s, err, h.warned, h.results)
		}
	}
}

func state(want relay.State) func(Status) bool {
	return func(s Status) bool { return s.Now.State == want }
}

func (h *harbour) send(team, member, text string) { h.t.Helper(); h.Send(team, "user", member, text) }

// worked waits until a text was worked on, and returns how often.
func (h *harbour) worked(text string) int {
	h.t.Helper()
	timeout := time.After(2 * time.Minute)
	for {
		works, err := simchild.Works(h.script.State)
		must(h.t, err)
		n := 0
		for said, times := range works {
			n += times * strings.Count(said, text)
		}
		if n > 0 {
			return n
		}
		select {
		case <-h.look:
		case <-time.After(10 * time.Millisecond):
		case <-timeout:
			h.t.Fatalf("%q was never worked on: %v", text, works)
		}
	}
}

// The relays in the ledger run, also those that others add; removed ones end, and
// another fleet resumes the sessions.
func TestRunsWhatIsListed(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "lead", "worker")
	f, stop := h.sail()
	lead := h.add(f, h.entry("red", "lead"))
	h.until(f, lead, "idle", state(relay.Idle))
	entry := h.entry("red", "worker")
	entry.Root = h.Root.Path()
	added, err := h.ledger.Relays.Add(t.Context(), entry) // as another process does
	must(t, err)
	h.until(f, added.ID, "idle", state(relay.Idle))
	h.send("red", "lead", "[m-1]")
	h.send("red", "worker", "[m-2]")
	if a, b := h.worked("[m-1]"), h.worked("[m-2]"); a != 1 || b != 1 {
		t.Errorf("worked on %d and %d times", a, b)
	}
	if running, err := Running(h.State, h.Root); err != nil || !running {
		t.Errorf("running %v, %v", running, err)
	}
	second := New(Options{Root: h.Root, Ledger: h.ledger, Locker: h.Locker, State: h.State, Timing: relay.Timing{Handover: time.Millisecond}})
	if err := second.Run(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("a second fleet: %v, want ErrBusy", err)
	}
	another := h.entry("red", "lead")
	another.OnCut = string(relay.ReportCut)
	if _, _, err := f.Add(t.Context(), another); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("added twice: %v", err)
	}

	must(t, f.Remove(t.Context(), added.ID, false))
	for {
		if _, err := f.Status(added.ID); errors.Is(err, ErrUnknown) {
			break
		}
		<-time.After(time.Millisecond)
	}
	if err := f.Remove(t.Context(), added.ID, false); !errors.Is(err, ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	was := h.until(f, lead, "idle", state(relay.Idle)).Now
	must(t, stop())
	if running, err := Running(h.State, h.Root); err != nil || running {
		t.Errorf("running %v, %v", running, err)
	}
	h.send("red", "lead", "[m-3]")
	f, _ = h.sail()
	s := h.until(f, lead, "idle", state(relay.Idle))
	if n := h.worked("[m-3]"); n != 1 || s.Now.Session != was.Session || s.Now.PID == was.PID {
		t.Errorf("worked on %d times; %+v after %+v", n, s.Now, was)
	}
}

// An outdated Claude Code is not started as an agent. The state says why, and messages wait until there is a current
// one.
func TestOutdatedProgram(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{Version: teams.Version{Major: 2, Minor: 1, Patch: 256}})
	h.Make("red", 1, "worker")
	h.send("red", "worker", "[m-1]")
	f, stop := h.sail()
	id := h.add(f, h.entry("red", "worker"))
	s := h.until(f, id, "refused", func(s Status) bool { return s.Now.Reason != "" })
	if s.Now.State != relay.Stopped || !strings.Contains(s.Now.Reason, "is Claude Code 2.1.256, and teambridge needs 2.1.257 or newer: update it with claude update") {
		t.Errorf("%+v", s.Now)
	}
	must(t, stop())
	if all, err := simchild.Log(h.script.State); err != nil || len(all) > 0 {
		t.Errorf("it was started: %+v, %v", all, err)
	}
	h.script.Version = teams.Version{}
	h.sail()
	if n := h.worked("[m-1]"); n != 1 {
		t.Errorf("worked on %d times", n)
	}
}

// If a program or its interpreter has gone, the reason names it and a remedy. Once it is back, the relay goes on.
func TestProgramThatHasMoved(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "worker")
	h.send("red", "worker", "[m-1]")
	e := h.entry("red", "worker")
	program := e.Command[0]
	e.Command = []string{filepath.Join(t.TempDir(), "claude")}
	f, _ := h.sail()
	id := h.add(f, e)
	named := func(part string) func(Status) bool {
		return func(s Status) bool {
			return strings.Contains(s.Now.Reason, e.Command[0]) && strings.Contains(s.Now.Reason, part) && strings.Contains(s.Now.Reason, "teambridge service install")
		}
	}
	h.until(f, id, "it is gone", named("no such file"))
	must(t, os.WriteFile(e.Command[0], []byte("#!/bin/sh\necho 'env: node: No such file or directory' >&2\nexit 127\n"), 0o700))
	h.until(f, id, "its interpreter is gone", named("env: node: No such file"))
	must(t, os.Remove(e.Command[0]))
	must(t, os.Symlink(program, e.Command[0]))
	h.until(f, id, "it is back", state(relay.Idle))
}

// A relay waits for its team, ends with it, and starts again with the next team of
// its name.
func TestTeamComesAndGoes(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	f, _ := h.sail()
	id := h.add(f, h.entry("red", "lead"))
	gone := func(s Status) bool {
		return s.Now.State == relay.Stopped && strings.Contains(s.Now.Reason, "no team red")
	}
	h.until(f, id, "without a team", gone)
	if _, err := prompt(t.Context(), f, id, relay.Input{Text: "x"}); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), "no team red") {
		t.Errorf("said to a team that is not there: %v", err)
	}
	h.Make("red", 1, "lead")
	first := h.until(f, id, "idle", state(relay.Idle)).Now.Session
	h.remove("red")
	h.until(f, id, "without a team", gone)
	h.Make("red", 2, "lead")
	if second := h.until(f, id, "idle", state(relay.Idle)).Now.Session; second == first {
		t.Error("another team goes on with the session of the first")
	}
	if _, err := prompt(t.Context(), f, id, relay.Input{Text: "[said]"}); err != nil {
		t.Error(err)
	}
	if n := h.worked("[said]"); n != 1 {
		t.Errorf("worked on %d times", n)
	}
}

// An agent that does not stay alive is dead, for the next fleet too, until a person
// requests a retry.
func TestDeadUntilRetried(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Exit, Times: relay.MaxStarts}}})
	h.Make("red", 1, "lead")
	h.send("red", "lead", "[m-1]")
	h.timing.Startup = time.Hour // no agent lives long enough to get the message
	f, stop := h.sail()
	id := h.add(f, h.entry("red", "lead"))
	if s := h.until(f, id, "dead", state(relay.Dead)); s.Now.Reason == "" {
		t.Errorf("dead without a reason: %+v", s.Now)
	}
	must(t, stop())
	h.timing.Startup = time.Millisecond
	f, _ = h.sail()
	h.until(f, id, "dead", state(relay.Dead))
	entries, err := simchild.Log(h.script.State)
	must(t, err)
	starts := len(slices.DeleteFunc(entries, func(e simchild.Entry) bool { return e.Kind != "start" }))
	if starts != relay.MaxStarts {
		t.Errorf("%d starts, want %d", starts, relay.MaxStarts)
	}
	// A person's prompt meanwhile waits for the agent.
	said, err := prompt(t.Context(), f, id, relay.Input{Text: "[m-2]", ID: "key"})
	must(t, err)
	must(t, f.Retry(t.Context(), id))
	h.until(f, id, "idle", state(relay.Idle))
	if n := h.worked("[m-1]") + h.worked("[m-2]"); n != 2 {
		t.Errorf("worked on %d times", n)
	}
	again, err := prompt(t.Context(), f, id, relay.Input{Text: "[m-2]", ID: "key"})
	if err != nil || !again.Again || again.Delivery != said.Delivery {
		t.Errorf("said again: %+v after %+v, %v", again, said, err)
	}
}

// A fleet serves a member with a relay of the fleet, but no member that another
// process relays, or that has a terminal.
func TestServing(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "lead", "worker", "other")
	f, stop := h.sail()
	lead := h.add(f, h.entry("red", "lead"))
	worker := h.add(f, h.entry("red", "worker"))
	h.until(f, lead, "idle", state(relay.Idle))
	h.until(f, worker, "idle", state(relay.Idle))
	team, err := h.Root.Team("red")
	must(t, err)
	defer team.Close()
	want := func(f *Fleet, member, id string) {
		t.Helper()
		got, ok, err := f.Serving(t.Context(), team, member)
		if err != nil || ok != (id != "") || ok && got != id {
			t.Errorf("%s is served by %q, %v, %v; want %q", member, got, ok, err, id)
		}
	}
	want(f, "lead", lead)
	want(f, "worker", worker)
	want(f, "other", "")
	// Also before the fleet has read the ledger, or if it does not run.
	early := New(Options{Root: h.Root, Ledger: h.ledger, Locker: h.Locker, State: h.State})
	other, _, err := early.Add(t.Context(), h.entry("red", "other"))
	must(t, err)
	want(early, "other", other.ID)
	if said, err := prompt(t.Context(), early, other.ID, relay.Input{Text: "[at once]"}); err != nil || said.Delivery == "" {
		t.Errorf("said %+v, %v", said, err)
	}
	if _, err := prompt(t.Context(), early, "nobody", relay.Input{Text: "x"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("said to nobody: %v", err)
	}
	if n := h.worked("[at once]"); n != 1 {
		t.Errorf("worked on %d times", n)
	}
	must(t, f.Remove(t.Context(), other.ID, false))
	must(t, stop())

	// Now another process relays one of them.
	runtime, err := runtimes.Launch{
		Team: team, Member: "worker", Settings: ledger.Relay{Command: []string{simchild.Program()}, Plain: true, Dir: h.work}, Env: append(os.Environ(), h.script.Env()),
	}.Runtime(t.Context())
	must(t, err)
	elsewhere, err := relay.New(t.Context(), relay.Options{
		Team: team, Member: "worker", Locker: h.Locker, Ledger: h.ledger, State: h.State, Runtime: runtime,
		Report: func(relay.Status) { h.changed() },
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- elsewhere.Run(ctx) }()
	for elsewhere.Status().State != relay.Idle {
		<-h.look
	}
	h.timing.Handover = time.Millisecond
	f, _ = h.sail()
	h.until(f, lead, "idle", state(relay.Idle))
	h.until(f, worker, "kept out", func(s Status) bool {
		return strings.Contains(s.Now.Reason, relay.ErrBusy.Error()) && s.Now.State == relay.Stopped
	})
	want(f, "lead", lead)
	want(f, "worker", "")
	cancel()
	must(t, <-ended)
}

// A relay that starts at this moment is one of this fleet, not of another process.
func TestServingWhileItStarts(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "lead")
	f, stop := h.sail()
	id := h.add(f, h.entry("red", "lead"))
	team, err := h.Root.Team("red")
	must(t, err)
	defer team.Close()
	for range 10 {
		must(t, stop())
		for f, stop = h.sail(); ; {
			if got, ok, err := f.Serving(t.Context(), team, "lead"); got != id || !ok || err != nil {
				t.Fatalf("served by %q, %v, %v", got, ok, err)
			}
			if m, err := f.member(id); err == nil && m.running() != nil {
				break
			}
		}
	}
}

// The id of a relay selects the turn to interrupt.
func TestInterruptByID(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "lead")
	f, _ := h.sail()
	id := h.add(f, h.entry("red", "lead"))
	h.until(f, id, "idle", state(relay.Idle))
	if err := f.Interrupt(t.Context(), id); !errors.Is(err, agent.ErrNotInFlight) {
		t.Errorf("interrupted what does not run: %v", err)
	}
	said, err := prompt(t.Context(), f, id, relay.Input{Text: "SLEEP:60"})
	must(t, err)
	h.until(f, id, "working", state(relay.Working))
	for err = f.Interrupt(t.Context(), id); errors.Is(err, agent.ErrNotInFlight); err = f.Interrupt(t.Context(), id) {
		<-time.After(time.Millisecond) // its turn has not begun
	}
	must(t, err)
	h.until(f, id, "idle", state(relay.Idle))
	all, err := h.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{})
	must(t, err)
	if len(all) != 1 || all[0].UUID != said.Delivery || all[0].State != ledger.Cancelled {
		t.Errorf("delivered %+v", all)
	}
	if err := f.Interrupt(t.Context(), "nobody"); !errors.Is(err, ErrUnknown) {
		t.Errorf("nobody interrupted: %v", err)
	}
}

// A policy allows no tools, the listed ones, or those that a person allows.
func TestPermissions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		permissions, answer, want string
	}{
		{"", "", "denied: This agent runs without a person"},
		{"deny", "", "denied: This agent runs without a person"},
		{"allow=Read,Bash", "", "allowed"},
		{"allow=Read", "", "denied: This agent runs without a person"},
		{"ask", "yes", "allowed"},
		{"ask", "no", "denied: The person who was asked did not allow it"},
		{"ask", "not now", "denied: not now"},
	} {
		t.Run(tc.permissions+" "+tc.answer, func(t *testing.T) {
			t.Parallel()
			h := newHarbour(t, simchild.Script{})
			h.Make("red", 1, "lead")
			f, _ := h.sail()
			entry := h.entry("red", "lead")
			entry.Permissions = tc.permissions
			id := h.add(f, entry)
			h.until(f, id, "idle", state(relay.Idle))
			_, err := prompt(t.Context(), f, id, relay.Input{Text: "ASK:Bash"})
			must(t, err)
			if tc.answer != "" {
				q := h.until(f, id, "asking", func(s Status) bool { return len(s.Questions) == 1 }).Questions[0]
				if q.Tool != "Bash" || q.ID == "" {
					t.Errorf("asked %+v", q)
				}
				reason := tc.answer
				if reason == "yes" || reason == "no" {
					reason = ""
				}
				a := Answer{Question: q.ID, Digest: q.Digest, Allow: tc.answer == "yes", Reason: reason}
				must(t, f.Answer(a))
				if err := f.Answer(a); !errors.Is(err, ErrAnswered) {
					t.Errorf("answered twice: %v", err)
				}
			}
			h.until(f, id, "answered", func(s Status) bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return len(h.results) == 1 && s.Now.State == relay.Idle
			})
			if !strings.Contains(h.results[0], tc.want) {
				t.Errorf("the agent was told %q, want %q", h.results[0], tc.want)
			}
			if s, err := f.Status(id); err != nil || len(s.Questions) > 0 {
				t.Errorf("still open: %v, %v", s.Questions, err)
			}
		})
	}
}

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "deny", "deny": "deny", "ask": "ask", "allow=Read,Grep": "allow=Read,Grep", "allow=*": "allow=*"} {
		p, err := ParsePolicy(in)
		if err != nil || p.String() != want {
			t.Errorf("%q is %s, %v; want %s", in, p, err, want)
		}
	}
	for _, in := range []string{"allow", "allow=", "allow=Read,", "allow=Bash(rm *)", "Deny", "asked"} {
		if p, err := ParsePolicy(in); err == nil {
			t.Errorf("%q is %s, want an error", in, p)
		}
	}
}

// An agent starts with the recorded mode.
func TestInitialMode(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "lead")
	f, _ := h.sail()
	entry := h.entry("red", "lead")
	entry.Mode = []byte(`{"model":"opus"}`)
	id := h.add(f, entry)
	h.until(f, id, "idle", state(relay.Idle))
	_, err := prompt(t.Context(), f, id, relay.Input{Text: "hi"})
	must(t, err)
	h.until(f, id, "done", func(Status) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.results) == 1
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.models) != 1 || h.models[0] != "opus" {
		t.Errorf("began with %q, want opus", h.models)
	}
}

// When a prompter is closed, open and later questions are denied.
func TestDeskCloses(t *testing.T) {
	t.Parallel()
	asked := make(chan Question, 1)
	d := NewPermissionPrompter(func(q Question, open bool) {
		if open {
			asked <- q
		}
	})
	answer := make(chan agent.Decision, 1)
	go func() { answer <- d.ask(t.Context(), agent.Use{Tool: "Bash"}) }()
	q := <-asked
	d.Close("gone")
	if got := <-answer; got.Allow || got.Reason != "gone" {
		t.Errorf("what was open: %+v", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // only a failure waits so long
	defer cancel()
	if got := d.ask(ctx, agent.Use{Tool: "Bash"}); got.Allow || got.Reason != "gone" {
		t.Errorf("what was asked later: %+v", got)
	}
	if err := d.Answer(Answer{Question: q.ID, Digest: q.Digest, Allow: true}); !errors.Is(err, ErrAnswered) {
		t.Errorf("answered afterwards: %v", err)
	}
}

// Add is [Admin.Add], and starts the relay at once, as a service does.
func (f *Fleet) Add(ctx context.Context, r ledger.Relay) (_ ledger.Relay, added bool, err error) {
	defer f.Poke()
	return f.admin().Add(ctx, r)
}

// Remove is [Admin.Remove], and ends the relay at once.
func (f *Fleet) Remove(ctx context.Context, id string, deleteTeam bool) error {
	r, err := f.entry(ctx, id)
	if err != nil {
		return err
	}
	defer f.Poke()
	_, err = f.admin().Remove(ctx, r, deleteTeam)
	return err
}

// prompt is [Fleet.Prompts] for one prompt.
func prompt(ctx context.Context, f *Fleet, id string, in relay.Input) (relay.PromptResult, error) {
	results, err := f.Prompts(ctx, id, in)
	if err != nil {
		return relay.PromptResult{}, err
	}
	return results[0], nil
}
