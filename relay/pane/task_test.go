package pane

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
	"teambridge/teams/transcript"
)

// Without a hook, the transcript and an idle program show the end.
func TestEndWithoutHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.records()
		defer b.run()()
		m := b.put("hello", notify)
		time.Sleep(3 * time.Second)
		b.want(m, ledger.Done, ledger.TaskGiven)
		b.notices()
		b.agent.stop(nil)
		time.Sleep(3 * time.Second)
		got := b.want(m, ledger.Done, ledger.TaskEnded)
		b.notices(m)
		row, done, err := b.Tasks.Answer(t.Context(), m.UUID)
		var answer struct {
			From, Text string
			InReplyTo  []string
		}
		if err != nil || !done || json.Unmarshal(row, &answer) != nil || answer.Text != "Done: "+Nonce(m.UUID) || answer.From != "worker" || answer.InReplyTo[0] != got.ID {
			t.Errorf("answered %s, %t, %v", row, done, err)
		}
		n, err := b.Tasks.Notices(t.Context())
		if err != nil || !strings.Contains(n[0].Text, "worker") || !strings.Contains(n[0].Text, "Done: ") {
			t.Errorf("the notice says %+v, %v", n, err)
		}
	})
}

func TestAwaitAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.records()
		m := b.put("hello")
		b.do()
		time.AfterFunc(time.Minute, func() { b.agent.stop(nil) })
		got, direct, err := b.Tasks.AwaitAnswer(t.Context(), m.UUID)
		if err != nil || direct || got.Task != ledger.TaskEnded || len(got.Answer) == 0 {
			t.Errorf("got %q %q, %v", got.Task, got.Answer, err)
		}
	})
}

// An ESC before the agent's first output leaves no record, and the wait ends anyway.
func TestBrokenOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.records()
		defer b.run()()
		m := b.put("hello", notify)
		time.Sleep(time.Minute)
		b.want(m, ledger.Done, ledger.TaskGiven)
		b.agent.set(func(a *simagent) { a.endTurn(false) })
		time.Sleep(5 * time.Second)
		b.want(m, ledger.Done, ledger.TaskGiven)
		time.Sleep(time.Minute)
		if got := b.want(m, ledger.Done, ledger.TaskEnded); got.Lost != "its turn was broken off" {
			t.Errorf("lost: %q", got.Lost)
		}
		b.notices(m)
	})
}

func TestPaneIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.run()()
		m := b.put("hello", notify)
		time.Sleep(3 * time.Second)
		b.agent.set(func(a *simagent) { a.gone = true })
		waits := b.put("too late")
		time.Sleep(3 * time.Second)
		if got := b.want(m, ledger.Done, ledger.TaskEnded); got.Lost != "the pane is gone" {
			t.Errorf("lost: %q", got.Lost)
		}
		b.notices(m)
		if got := b.want(waits, ledger.Claimed, ""); got.Held != string(tmux.Gone) {
			t.Errorf("held as %q", got.Held)
		}
		v, err := b.Views.Look(t.Context(), b.pane)
		if err != nil || v.State != tmux.Gone || len(v.Waiting()) != 1 {
			t.Errorf("looks %s, %d wait, %v", v.State, len(v.Waiting()), err)
		}
	})
}

// Agents that asked for it are notified once, whichever process sees the end and however often.
func TestNotifyOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("green", 1700000000000, "ann")
	b.agent.ref.ID = "%2"
	other, _, err := b.Registry.Add(t.Context(), Registration{Name: "other", Target: "%2"})
	must(t, err)
	b.agent.ref.ID = "%1"
	ann := inbox.InboxKey{Root: b.Root.Path(), Team: "green", CreatedAt: 1700000000000, Inbox: "ann"}
	gone := ann
	gone.CreatedAt++
	to := func(k inbox.InboxKey) func(*Message) { return func(m *Message) { m.Notify, m.NotifyTo = true, k } }
	b.put("for ann", to(ann))
	b.put("for other", to(other.InboxKey))
	lost := b.put("for somebody else of her name", to(gone))
	b.do()
	for range 3 { // without a transcript, one for each turn
		b.agent.work()
		b.agent.stop(func() {
			var hooks sync.WaitGroup
			for range 4 {
				hooks.Go(func() {
					if err := b.another(b.opts.Ledger).Tasks.notify(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			b.hook()
			hooks.Wait()
		})
	}
	if err := b.Tasks.notify(t.Context()); err != nil {
		t.Error(err)
	}
	rows, err := b.Inbox("green", "ann").Read(t.Context())
	if err != nil || len(rows) != 1 || !strings.Contains(string(rows[0].Raw), "worker has ended the task of message") {
		t.Errorf("ann has %d rows, %v", len(rows), err)
	}
	list, err := b.opts.Ledger.PaneMessages.List(t.Context(), other.InboxKey)
	if err != nil || len(list) != 1 || list[0].Notify || list[0].From != "worker" {
		t.Errorf("the other pane gets %+v, %v", list, err)
	}
	b.notices(lost) // the person, since the team is another one
}

func TestLook(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(*simagent)
		process string
		want    tmux.Reason
		basis   Basis
	}{
		"idle":          {func(*simagent) {}, "", tmux.Empty, OnScreen},
		"working":       {func(a *simagent) { a.working = true }, "", tmux.Busy, OnScreen},
		"draft":         {func(a *simagent) { a.draft = "x" }, "", tmux.Draft, OnScreen},
		"dialog":        {func(a *simagent) { a.dialog = "May I?" }, "", tmux.Dialog, OnScreen},
		"gone":          {func(a *simagent) { a.gone = true }, "", tmux.Gone, OnPane},
		"shell":         {func(a *simagent) { a.shell = true }, "", tmux.Closed, OnPane},
		"busy process":  {func(a *simagent) {}, transcript.ProcessBusy, tmux.Busy, OnProcess},
		"asks":          {func(a *simagent) {}, transcript.ProcessWaiting, tmux.Dialog, OnProcess},
		"idle process":  {func(a *simagent) {}, transcript.ProcessIdle, tmux.Empty, OnProcess},
		"typed at idle": {func(a *simagent) { a.draft = "x" }, transcript.ProcessIdle, tmux.Draft, OnScreen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if test.process != "" {
				b.says(test.process)
			}
			b.agent.set(test.change)
			v, err := b.Views.Look(t.Context(), b.pane)
			if err != nil || v.State != test.want || v.Basis != test.basis {
				t.Errorf("looks %s by %s, %v, want %s by %s", v.State, v.Basis, err, test.want, test.basis)
			}
			why, err := b.Tasks.Busy(t.Context(), b.pane)
			if err != nil || (why == "") != (test.want == tmux.Empty) {
				t.Errorf("busy: %q, %v", why, err)
			}
		})
	}
}

// A look is repeated if the agent gets a message meanwhile.
func TestBusyLooksAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	composer, looks := b.tmux.composer, 0
	b.tmux.composer = func(ctx context.Context, r tmux.Ref, p tmux.Profile) (tmux.Composer, error) {
		if looks++; looks == 2 {
			b.put("hello")
		}
		return composer(ctx, r, p)
	}
	if why, err := b.Tasks.Busy(t.Context(), b.pane); err != nil || why != "a message waits" {
		t.Errorf("busy: %q, %v", why, err)
	}
}

// It is unknown whether a program with an unknown screen took a message, but its hook notifies
// anyway, late rather than early.
func TestNotifyOfGenericProgram(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agent.loses = true
	var err error
	if b.pane, _, err = b.Registry.Add(t.Context(), Registration{Name: "worker", Target: "%1", Profile: tmux.Generic, Replace: true}); err != nil {
		t.Fatal(err)
	}
	m := b.put("hello", notify)
	b.do()
	b.want(m, ledger.Failed, ledger.TaskStaged)
	must(t, b.opts.Ledger.Deliveries.Retry(t.Context(), m.UUID))
	b.want(m, ledger.Claimed, "")
	b.do()
	b.want(m, ledger.Failed, ledger.TaskStaged)
	b.hook()
	b.notices()
	b.hook()
	b.notices(b.want(m, ledger.Failed, ledger.TaskEnded))
	quiet := b.put("hello")
	b.do()
	b.want(quiet, ledger.Failed, "")
}

// The turn of a message can end, and the hook be called, before the message is confirmed.
func TestHookBeforeConfirmation(t *testing.T) {
	t.Parallel()
	twice(t, func(t *testing.T, b *bench) {
		m := b.put("hello", notify)
		var hook sync.WaitGroup
		send := b.tmux.send
		b.tmux.send = func(ctx context.Context, r tmux.Ref, p tmux.Profile, m tmux.Input, s tmux.Steps) (tmux.Outcome, error) {
			out, err := send(ctx, r, p, m, s)
			called := make(chan bool)
			hook.Go(func() {
				b.agent.stop(func() { close(called); b.hook() })
			})
			<-called
			return out, err
		}
		b.do()
		hook.Wait()
		b.notices(b.want(m, ledger.Done, ledger.TaskEnded))
	})
}
