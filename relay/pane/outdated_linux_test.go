package pane

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simsession"
	"teambridge/relay/tmux"
	"teambridge/teams"
)

// outdatedVersion is the last one before [teams.Oldest].
var outdatedVersion = teams.Version{Major: teams.Oldest.Major, Minor: teams.Oldest.Minor, Patch: teams.Oldest.Patch - 1}.String()

// refused is the error about an outdated program.
const refused = "needs 2.1.257 or newer: update it with claude update"

// wantRefused fails unless an error is a *teams.OutdatedError for that agent.
func wantRefused(t *testing.T, what string, err error, who string) {
	t.Helper()
	old, ok := errors.AsType[*teams.OutdatedError](err)
	if !ok || old.Who != who || old.Version.String() != outdatedVersion || !strings.Contains(err.Error(), refused) {
		t.Errorf("%s: %v", what, err)
	}
}

// A session of an outdated Claude Code gets no messages, whether it has a socket or the hook, but is found, with the
// reason. One without a version counts as current.
func TestOutdatedSession(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, string, string) *simsession.Session{"socket": simsession.Start, "hook": simsession.StartHooked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSessionsWith(t, start)
			s.again(outdatedVersion)
			of := s.session()
			_, _, err := s.Queue.Put(t.Context(), of, Message{Text: "hello"})
			wantRefused(t, "Put", err, "work@sessions")
			wantRefused(t, "Outdated", s.Views.Outdated(t.Context(), of), "work@sessions")
			for _, policy := range []tmux.Policy{tmux.Queued, tmux.WhenIdle} {
				if held, why, err := s.Queue.Held(t.Context(), of, policy); err != nil || held != tmux.Outdated || !held.Lasting() || !strings.Contains(why, refused) {
					t.Errorf("%s: held as %q: %q, %v", policy, held, why, err)
				}
			}
			if v, err := s.Views.Look(t.Context(), of); err != nil || v.State != tmux.Unknown || !strings.Contains(v.Why, refused) || len(v.Messages) > 0 {
				t.Errorf("it is %s: %q with %d messages, %v", v.State, v.Why, len(v.Messages), err)
			}
			s.again(teams.Version{}.String())
			if name == "hook" {
				s.waits()
			}
			s.run()
			s.until(s.put("after"), "to one of unknown version", ended)
			s.wants("after")
		})
	}
}

// again resumes the session in another program of that version.
func (s *sessions) again(version string) {
	s.t.Helper()
	s.Kill()
	s.Version = version
	s.Start()
}

// Messages for a session that an outdated program resumes wait until a current one resumes it: those that came while
// no process had it, and those in the queue of the process before.
func TestResumedByAnOutdatedProgram(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) *sessions{"socket": newSessions, "hook": newHooked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.run()
			s.Tell("busy")
			queued := s.put("queued")
			s.until(queued, "queued", func(m ledger.PaneMessage) bool { return m.Task == ledger.TaskSent })
			of := s.session()
			s.Kill()
			later := Message{ID: "5a3b", Text: "later"}
			put, _, err := s.Queue.Put(t.Context(), of, later)
			must(t, err)
			s.Version = outdatedVersion
			s.Start()
			if name == "hook" {
				s.waits()
			}
			s.until(queued, "of an outdated program", func(m ledger.PaneMessage) bool {
				return m.State == ledger.Claimed && m.Held == string(tmux.Outdated) && strings.Contains(m.Detail, refused)
			})
			if m, again, err := s.Queue.Put(t.Context(), of, later); err != nil || !again || m.UUID != put.UUID {
				t.Errorf("what waits, put again: %s, %t, %v", m.State, again, err)
			}
			_, _, err = s.Queue.Put(t.Context(), of, Message{Text: "too late"})
			wantRefused(t, "Put", err, "work@sessions")
			s.wants()
			s.again("")
			s.until(queued, "of a current program", ended)
			s.until(put, "what came while nobody was there", ended)
			s.wants("queued", "later")
		})
	}
}

// A message that was written to an outdated session, as by an earlier teambridge, is not written again.
func TestNotWrittenAgainToAnOutdatedProgram(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	s.timing.repeat = time.Minute // so that step gives it once, however long it takes
	s.Tell("deaf")
	m := s.put("lost")
	must(t, s.step(m))
	s.Tell("version " + outdatedVersion)
	s.Tell("usual")
	s.timing.repeat = 100 * time.Millisecond
	s.run()
	s.until(m, "once it is known", func(m ledger.PaneMessage) bool {
		return m.Held == string(tmux.Outdated) && time.Since(m.HeldSince) > 3*s.timing.repeat
	})
	s.wants()
}

// step runs one step for the session of a message.
func (s *sessions) step(m ledger.PaneMessage) error {
	_, err := s.Queue.work(s.t.Context(), m.InboxKey, true)
	return err
}

// Nothing is typed into a pane with an outdated Claude Code, not even Enter to submit the text at its prompt.
func TestOutdatedPane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.records()
		waits := b.put("waits")
		b.is(outdatedVersion, "")
		_, _, err := b.Queue.Put(t.Context(), b.pane, Message{Text: "refused"})
		wantRefused(t, "Put", err, "worker@tmux")
		end := b.run()
		defer func() { end() }()
		time.Sleep(time.Minute)
		if m := b.want(waits, ledger.Claimed, ledger.TaskNone); m.Held != string(tmux.Outdated) || !strings.Contains(m.Detail, refused) {
			t.Errorf("it is held as %q: %q", m.Held, m.Detail)
		}
		if v, err := b.Views.Look(t.Context(), b.pane); err != nil || v.State != tmux.Unknown || !strings.Contains(v.Why, refused) {
			t.Errorf("it is %s: %q, %v", v.State, v.Why, err)
		}
		b.wantGiven()
		b.is(teams.Oldest.String(), "")
		time.Sleep(2 * time.Minute)
		b.wantGiven("waits")
		b.want(waits, ledger.Done, ledger.TaskGiven)
		b.agent.stop(b.hook)
		end()
		end = func() {}

		pasted := b.put("pasted")
		b.agent.dieAt = "pasted"
		killed(t, b.do)
		b.agent.mu = sync.Mutex{} // the dead process held it
		b.is(outdatedVersion, "")
		b.Panes = b.another(b.opts.Ledger)
		end = b.run()
		time.Sleep(Expire / 2)
		if m, err := b.Queue.Message(t.Context(), pasted.UUID); err != nil || m.State.Ended() || m.Held != string(tmux.Outdated) {
			t.Errorf("before it has waited for %s it is %s, held as %q, %v", Expire, m.State, m.Held, err)
		}
		time.Sleep(Expire)
		if m := b.want(pasted, ledger.Failed, ledger.TaskNone); causeOf(m) != ledger.CauseUnknown || !strings.Contains(m.Reason, refused) {
			t.Errorf("it failed with %q", m.Reason)
		}
		b.wantGiven("waits")
	})
}
