package relay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/relay/relaytest/simchild"
)

// atOnce is an IdleExit that is over as soon as an agent is idle.
const atOnce = time.Nanosecond

// sleeps waits until the agent has been ended n times for being idle.
func (s *station) sleeps(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("the agent was ended %d times", n), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		found, before := 0, State("")
		for _, st := range s.seen {
			if st.State == Asleep && before != Asleep {
				found++
			}
			before = st.State
		}
		return found >= n
	})
}

// once fails for messages that were not worked on once, in order, and for deliveries
// that are not done.
func (s *station) once(markers ...string) {
	s.t.Helper()
	for _, d := range s.settled(len(markers)) {
		if d.State != ledger.Done {
			s.t.Errorf("%s is %s (%s)", d.Raw, d.State, d.Reason)
		}
	}
	all, last := strings.Join(s.turns(), "\n"), -1
	for _, m := range markers {
		at := strings.Index(all, m)
		if at <= last || strings.Count(all, m) != 1 {
			s.t.Errorf("%s at %d after %d, %d times in %q", m, at, last, strings.Count(all, m), all)
		}
		last = max(last, at)
	}
}

// undisturbed fails for deaths and warnings.
func (s *station) undisturbed() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.seen {
		if st.Deaths > 0 || st.State == BackOff || st.State == Dead {
			s.t.Errorf("status %+v: an end that was asked for is no death", st)
		}
	}
	for _, err := range s.warned {
		s.t.Errorf("warning: %v", err)
	}
}

// An idle agent is ended, and the next message starts it again, on its session.
func TestIdleExit(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	opts.IdleExit = atOnce
	r, stop := s.relay(opts)
	s.sleeps(1) // it got no message
	s.send("[m-1]")
	s.sleeps(2)
	st := r.Status()
	if st.State != Asleep || st.PID != 0 || st.Session == "" || st.Queue != 0 || !strings.Contains(st.Reason, "the next message starts it") {
		t.Errorf("status %+v, want asleep, without a process", st)
	}
	session, _, err := s.ledger.Sessions.Session(t.Context(), r.Key())
	if err != nil || session.State != ledger.RelayAsleep || session.PID != 0 || session.Reason != st.Reason {
		t.Errorf("session %+v, %v; want asleep, without a process", session, err)
	}
	config, err := s.team.Config(t.Context())
	must(t, err)
	o, found, err := Stat(t.Context(), s.ledger, opts.State, s.team, config, "team-lead")
	if err != nil || !found || !o.Running || o.State != Asleep || o.PID != 0 {
		t.Errorf("from outside %+v, %t, %v; want asleep", o, found, err)
	}
	if err := r.Interrupt(t.Context()); !errors.Is(err, agent.ErrNotInFlight) {
		t.Errorf("interrupt: %v, want that nothing is in flight", err)
	}
	s.prompt(r, Input{Text: "[m-2]"})
	s.sleeps(3)
	stop()
	s.once("[m-1]", "[m-2]")
	s.undisturbed()
	if n := s.logged("start"); n != 3 {
		t.Errorf("the agent was started %d times, want 3", n)
	}
	if now, _, err := s.ledger.Sessions.Session(t.Context(), r.Key()); err != nil || now.ID != session.ID || now.State != ledger.RelayEnded {
		t.Errorf("session %+v, %v; want %s, ended", now, err, session.ID)
	}
}

// A relay that ended or was killed while its agent was asleep is followed by one that starts the agent for a message only,
// on its session. A changed command is tried at once.
func TestAsleepAfterARestart(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	s.agent().write("[m-1]")
	b := s.bridge(sleeps, func(b *bridge) { b.at = string(asleep) })
	b.Killed()
	was, starts := s.logged("start"), func(what string, want int) {
		t.Helper()
		if n := s.logged("start"); n != want {
			t.Errorf("%s: the agent was started %d times, want %d", what, n, want)
		}
	}
	opts := s.options()
	opts.IdleExit = atOnce
	r, stop := s.relay(opts)
	sleeps := func() {
		t.Helper()
		s.await("the agent is asleep", func() bool { return r.Status().State == Asleep })
	}
	sleeps()
	starts("after a kill", was)
	if st := r.Status(); st.PID != 0 || st.Session == "" || !strings.Contains(st.Reason, "the next message starts it") {
		t.Errorf("status %+v, want asleep, without a process", st)
	}
	stop()
	config, err := s.team.Config(t.Context())
	must(t, err)
	if o, _, err := Stat(t.Context(), s.ledger, opts.State, s.team, config, "team-lead"); err != nil || o.State != Stopped || o.Reason != "" {
		t.Errorf("from outside %+v, %v; want stopped, for no reason", o, err)
	}
	r, stop = s.relay(opts)
	sleeps()
	starts("after an end", was)
	s.send("[m-2]")
	s.settled(2)
	sleeps()
	starts("with a message", was+1)
	stop()
	child := opts.Runtime.(claude.Runtime).Options
	child.Command = append(child.Command, "--verbose")
	opts.Runtime = claude.Runtime{Options: child}
	r, stop = s.relay(opts)
	sleeps()
	starts("with another command", was+2)
	stop()
	s.once("[m-1]", "[m-2]")
}

// A message that comes at any instant of the end or of the next start is sent once, and
// so are the messages after it.
func TestMessageWhileTheAgentIsEnded(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"row", "person"} {
		for _, instant := range []moment{idle, closing, exited, asleep, claimed, committed} {
			t.Run(fmt.Sprintf("%s, %s", how, instant), func(t *testing.T) {
				t.Parallel()
				s := newStation(t, simchild.Script{})
				opts := s.options()
				opts.IdleExit = atOnce
				r := s.newRelay(opts)
				ended, sent := false, false
				r.at = func(now moment) {
					ended = ended || now == asleep
					if sent || now != instant || !ended && (now == claimed || now == committed) {
						return
					}
					sent = true
					if how == "row" {
						s.send("[m-2]")
					} else if _, err := r.Prompt(t.Context(), Input{Text: "[m-2]"}); err != nil {
						t.Error(err)
					}
				}
				first := []string{"[m-1]"}
				if instant == claimed || instant == committed {
					// Only a message causes a claim: one wakes the agent.
					s.send("[m-0]")
					first = []string{"[m-0]", "[m-1]"}
				}
				stop := s.run(r)
				if len(first) == 2 {
					s.sleeps(1)
				}
				s.send("[m-1]")
				s.settled(len(first) + 1)
				s.send("[m-3]")
				s.settled(len(first) + 2)
				stop()
				// The other may come first: another goroutine sends it.
				all := strings.Join(s.turns(), "\n")
				for _, m := range append(first, "[m-2]", "[m-3]") {
					if n := strings.Count(all, m); n != 1 {
						t.Errorf("%s %d times in %q", m, n, all)
					}
				}
				s.undisturbed()
			})
		}
	}
}

// A change of the mode also applies to an agent that is asleep.
func TestModeWhileAsleep(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	opts.IdleExit = atOnce
	r, stop := s.relay(opts)
	for i, mode := range []mode.Mode{
		{Model: mode.Set("opus")}, {PermissionMode: mode.Set("plan")}, {AppendSystemPrompt: mode.Set("be brief")}, {},
	} {
		s.sleeps(i + 1)
		s.prompt(r, Input{Text: fmt.Sprintf("[m-%d]", i), Mode: mode})
		s.settled(i + 1)
	}
	s.sleeps(5)
	stop()
	s.once("[m-0]", "[m-1]", "[m-2]", "[m-3]")
	s.undisturbed()
	entries := s.log()
	var modes []string
	for _, e := range entries {
		if e.Kind == "begin" {
			modes = append(modes, e.Model+" "+e.Mode)
		}
	}
	if want := []string{"opus default", "opus plan", "opus plan", "opus plan"}; !slices.Equal(modes, want) {
		t.Errorf("modes %q, want %q", modes, want)
	}
}

// An agent that works in the background is not idle while its task runs, nor in the turn
// after it.
func TestBackgroundTaskIsNotIdle(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Worked, Do: simchild.Task, Match: "[m-1]", Name: "task"}}})
	opts := s.options()
	opts.IdleExit = atOnce
	var inits atomic.Int32
	opts.Events = func(e agent.Event) {
		if _, ok := e.Payload.(claude.Init); ok {
			inits.Add(1)
		}
	}
	r := s.newRelay(opts)
	var over atomic.Bool
	r.at = func(now moment) {
		if now == closing && inits.Load() > 0 && !over.Load() {
			t.Error("the agent was ended in the background task or its turn")
		}
	}
	s.send("[m-1]")
	stop := s.run(r)
	s.settled(1)
	s.send("[m-2]") // a whole turn of the relay
	s.settled(2)
	s.let("task")
	s.await("the background turn has begun", func() bool { return inits.Load() >= 3 })
	for range 20 {
		r.poke()
		if _, err := s.ledger.Deliveries.OpenCount(t.Context(), r.Key()); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	s.let("task.end")
	s.sleeps(1)
	stop()
	s.once("[m-1]", "[m-2]")
	s.undisturbed()
}

// An agent that does not exit when its stdin is closed is killed, and one that exits with
// an error does not count as dead: the next message starts either at once.
func TestIdleExitOfAnUnwillingAgent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		script simchild.Script
		text   string
	}{
		{"does not exit", simchild.Script{IgnoreTerm: true, Faults: []simchild.Fault{{At: simchild.Ended, Do: simchild.Hang, Match: "[m-1]", Times: 1}}}, "[m-1]"},
		{"exits with an error", simchild.Script{}, "FAIL [m-1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, tc.script)
			opts := s.options()
			opts.IdleExit = atOnce
			r := s.newRelay(opts)
			r.grace = agent.Grace{EOF: time.Millisecond, Term: time.Millisecond}
			ends := make(chan struct{})
			tell := sync.OnceFunc(func() { close(ends) })
			r.at = func(now moment) {
				if now == closing && len(s.fates("team-lead")) > 0 { // not before it got a message
					tell()
				}
			}
			stop := s.run(r)
			s.send(tc.text)
			s.settled(1)
			<-ends // an agent that hangs would never finish a message that it got before
			s.send("[m-2]")
			s.settled(2)
			s.await("the agent is asleep", func() bool { return r.Status().State == Asleep })
			stop()
			if w := s.works("[m-1]", "[m-2]"); w["[m-1]"] != 1 || w["[m-2]"] != 1 {
				t.Errorf("works %v, want each once", w)
			}
			s.undisturbed()
		})
	}
}

// A lead is not ended while the team has agents that it may have started.
func TestIdleExitKeepsTheTeam(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	config := func(member string) {
		joined := time.Now().Add(time.Hour).UnixMilli() // after the agent was started
		data := strings.Replace(teamConfig, `"backendType": "in-process"}`, fmt.Sprintf(`"backendType": "in-process"}
	, {"agentId": "guest@demo", "name": "guest", "joinedAt": %d, "tmuxPaneId": "", "cwd": "/"}`, joined)+member, 1)
		path := filepath.Join(s.team.Path(), "config.json")
		must(t, os.WriteFile(path+".new", []byte(data), 0o600))
		must(t, os.Rename(path+".new", path))
	}
	config(fmt.Sprintf(`, {"agentId": "helper@demo", "name": "helper", "joinedAt": %d, "backendType": "in-process"}`, time.Now().Add(time.Hour).UnixMilli()))
	opts := s.options()
	opts.IdleExit = time.Millisecond
	r := s.newRelay(opts)
	var alone atomic.Bool
	tried := make(chan struct{}, 1)
	r.at = func(now moment) {
		switch {
		case now == idle:
			select {
			case tried <- struct{}{}:
			default:
			}
		case now == closing && !alone.Load():
			t.Error("the agent was ended, and helper with it")
		}
	}
	stop := s.run(r)
	for range 3 {
		<-tried
	}
	s.until("told why", func(st Status) bool { return st.PID != 0 && strings.Contains(st.Reason, "its team would lose helper") })
	s.mu.Lock()
	warned := s.warned
	s.warned = nil
	s.mu.Unlock()
	if len(warned) != 1 || !strings.Contains(warned[0].Error(), "team-lead is idle and is not ended: its team would lose helper") {
		t.Errorf("warnings %v, want one that names helper", warned)
	}
	alone.Store(true)
	config("")
	s.sleeps(1)
	stop()
	s.undisturbed()
}

// An agent that has scheduled work for itself is not ended: its schedule would be lost.
func TestIdleExitKeepsScheduledWork(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	opts.IdleExit = time.Millisecond
	r := s.newRelay(opts)
	var scheduled, free atomic.Bool
	r.at = func(now moment) {
		if now == closing && scheduled.Load() && !free.Load() {
			t.Error("the agent was ended, and what it had scheduled")
		}
	}
	s.send("USE:CronCreate\n[m-1]")
	stop := s.run(r)
	s.settled(1)
	scheduled.Store(true)
	s.until("told why", func(st Status) bool { return st.PID != 0 && strings.Contains(st.Reason, "it has scheduled work") })
	free.Store(true)
	s.send("USE:CronDelete\n[m-2]")
	s.settled(2)
	s.await("the agent is asleep", func() bool { return r.Status().State == Asleep })
	stop()
	s.once("[m-1]", "[m-2]")
}

// If the bridge is killed at any instant of the end of an agent, the next one delivers
// each message once.
func TestKilledWhileTheAgentIsEnded(t *testing.T) {
	t.Parallel()
	for _, instant := range []moment{idle, closing, exited, asleep} {
		t.Run(string(instant), func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			s.agent().write("[m-1]")
			b := s.bridge(sleeps, func(b *bridge) { b.at = string(instant) })
			b.Killed()
			s.agent().write("[m-2]")
			b.start()
			s.drained()
			b.reaches(Asleep)
			v := s.verdict([]string{"[m-1]", "[m-2]"})
			v.check(t)
			if v.cut+v.nudges > 0 {
				t.Errorf("cut %d, nudges %d; want none", v.cut, v.nudges)
			}
		})
	}
}

// The relay can end normally while its agent is asleep, or is being ended.
func TestEndWhileAsleep(t *testing.T) {
	t.Parallel()
	for _, instant := range []moment{idle, closing, exited, asleep} {
		t.Run(string(instant), func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{})
			opts := s.options()
			opts.IdleExit = atOnce
			r := s.newRelay(opts)
			ctx, cancel := context.WithCancel(t.Context())
			r.at = func(now moment) {
				if now == instant {
					cancel()
				}
			}
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
			session, _, err := s.ledger.Sessions.Session(t.Context(), r.Key())
			if err != nil || session.State != ledger.RelayEnded || session.PID != 0 {
				t.Errorf("session %+v, %v; want ended, without a process", session, err)
			}
			s.send("[m-1]")
			r, stop := s.relay(opts)
			s.settled(1)
			s.await("the agent is asleep", func() bool { return r.Status().State == Asleep })
			stop()
			s.once("[m-1]")
			s.undisturbed()
		})
	}
}
