package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simagent"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams/teamstest"
)

// The service is killed at random instants while messages pass and followers read events: every message is sent
// once, and each follower gets each message and its receipts exactly once.
//
// TEAMBRIDGE_SERVICE_MESSAGES is the number of messages; the service is killed at most once for every three.
// The default is 60 messages and 6 kills.
func TestServiceIsKilled(t *testing.T) {
	t.Parallel()
	messages := killtest.Rounds(t, "TEAMBRIDGE_SERVICE_MESSAGES", 60)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(messages)*time.Second)
	defer cancel()
	root, state := filepath.Join(t.TempDir(), "claude"), teamstest.StateDir(t)
	// An older agent keeps the rows that it took, so that all can be counted.
	team, err := simagent.Create(ctx, simagent.TeamOptions{
		Root: root, Marks: true, Name: "t", Poll: 5 * time.Millisecond, Members: []simagent.Member{{Name: "worker"}}, Report: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	box := filepath.Join(team.Dir(), "inboxes", "worker.json")
	socket := filepath.Join(state, "s")

	// run runs the agent until rest is called.
	run := func() (rest func()) {
		ctx, cancel := context.WithCancel(ctx)
		var agents sync.WaitGroup
		agents.Go(func() { _ = team.Agent("worker").Run(ctx) })
		return func() {
			cancel()
			agents.Wait()
		}
	}
	rest := run()
	defer func() { rest() }()
	serve := func() *killtest.Process {
		cmd := exec.Command("teambridge", "serve", "--listen", "unix:"+socket) // the scripts' program
		cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+state, "TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m", "GORACE=atexit_sleep_ms=0")
		p := killtest.Start(t, cmd)
		p.Line() // ready
		return p
	}
	svc := serve()
	c, err := client.New(client.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	page, err := c.Messages(ctx, "t", client.MessageQuery{})
	if err != nil {
		t.Fatal(err)
	}

	followers := make([]*follower, 5)
	var all sync.WaitGroup
	for i := range followers {
		followers[i] = &follower{want: messages, told: make(chan struct{})}
		all.Go(func() { followers[i].run(ctx, socket, page.Seq) })
	}
	sent := make(chan error, 1)
	unknown := 0
	go func() {
		sent <- func() error {
			for n := range messages {
				id := fmt.Sprintf("m-%d", n)
				m := api.NewMessage{Text: "message " + id}
				for {
					s, err := c.Send(ctx, "t", "worker", id, m)
					if err == nil && s.ID == id {
						break
					}
					switch code := view.Explain(err).Code; {
					case ctx.Err() != nil:
						return fmt.Errorf("%s: %w", id, err)
					case code == api.CodeUnknown && !there(box, id):
						// It died before it had written it; nothing is ever removed here.
						unknown++
						m.Force = true
					case errors.Is(err, client.ErrUnreachable), code == api.CodeUnavailable, code == api.CodeInterrupted, code == api.CodeLocked:
					default:
						return fmt.Errorf("%s: %w", id, err)
					}
					select {
					case <-ctx.Done():
					case <-time.After(2 * time.Millisecond):
					}
				}
			}
			return nil
		}()
	}()
	killed, most := 0, messages/3
	if os.Getenv("TEAMBRIDGE_SERVICE_MESSAGES") == "" {
		most = 6
	}
	for over := false; !over; {
		next := time.After(time.Duration(rand.IntN(120)) * time.Millisecond)
		if killed == most {
			next = nil
		}
		select {
		case err := <-sent:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		case <-next:
			svc.Kill()
			killed++
			rest() // so that a held lock is the service's: nothing has to wait 10 s until it is stale
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(box+".lock", old, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			rest = run()
			svc = serve()
		}
	}
	// A repeated event would come before the event that follows.
	for _, f := range followers {
		select {
		case <-f.told:
		case <-ctx.Done():
		}
	}
	if _, err := c.Send(ctx, "t", "worker", "end", api.NewMessage{Text: "this is all"}); err != nil {
		t.Error(err)
	}
	all.Wait()
	for i, f := range followers {
		if err := f.verdict(); err != nil {
			t.Errorf("follower %d: %v", i, err)
		}
	}
	rest() // an older agent writes in place
	data, err := os.ReadFile(box)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := inbox.Parse(data)
	if want := messages + 1; err != nil || len(rows) != want {
		t.Errorf("%d rows are in the inbox, want %d (%v)", len(rows), want, err)
	}
	t.Logf("%d messages, %d kills, %d followers; of %d messages it was not known whether they were sent, and they were not",
		messages, killed, len(followers), unknown)
}

// there reports whether a message is in an inbox.
func there(box, id string) bool {
	data, err := os.ReadFile(box)
	return err == nil && bytes.Contains(data, []byte(`"`+id+`"`))
}

// follower follows events until the message "end" appears.
type follower struct {
	want int
	told chan struct{} // closed once it knows that each message appeared and was taken, or has ended
	last int64
	seen map[string]int // number of its events, by content
	err  error
}

func (f *follower) run(ctx context.Context, socket string, after int64) {
	f.seen, f.last = map[string]int{}, after
	tell := sync.OnceFunc(func() { close(f.told) })
	defer tell()
	c, err := client.New(client.Options{Socket: socket})
	if err != nil {
		f.err = err
		return
	}
	defer c.Close()
	appeared, consumed := 0, 0
	count := func(what string) {
		f.seen[what]++
		if f.seen[what] > 1 {
			return
		}
		switch {
		case strings.HasPrefix(what, api.Appeared+" "):
			appeared++
		case strings.HasPrefix(what, api.Consumed+" "):
			consumed++
		default:
			return
		}
		if appeared == f.want && consumed == f.want {
			tell()
		}
	}
	for e, err := range c.Events(ctx, "t", client.After(after)) {
		if err != nil {
			f.err = err
			return
		}
		switch {
		case e.Reset != nil:
			f.err = errors.New("it was told to begin anew")
			return
		case e.Snapshot != nil:
			continue
		case e.Seq <= f.last:
			f.err = fmt.Errorf("event %d comes behind %d", e.Seq, f.last)
			return
		}
		f.last = e.Seq
		switch {
		case e.Message != nil && e.Message.Message.ID == "end":
			return
		case e.Message != nil && e.Message.Message.Inbox == "worker":
			count(e.Message.Change + " " + e.Message.Message.ID)
		case e.Receipt != nil:
			count(e.Receipt.State + " " + e.Receipt.ID)
		}
	}
	f.err = fmt.Errorf("it was told of %d messages, and of %d that they were taken, want %d", appeared, consumed, f.want)
}

// verdict lists the events that it did not get exactly once. A "verified" receipt may have been overtaken by
// "consumed", and an appearance never is.
// have been overtaken by the one that says "consumed", and an appearance is never.
func (f *follower) verdict() error {
	if f.err != nil {
		return f.err
	}
	var errs []error
	for n := range f.want {
		for _, what := range []string{api.Appeared, api.Consumed} {
			if got := f.seen[fmt.Sprintf("%s m-%d", what, n)]; got != 1 {
				errs = append(errs, fmt.Errorf("it was told %d times: %s m-%d", got, what, n))
			}
		}
		if got := f.seen[fmt.Sprintf("%s m-%d", api.Verified, n)]; got > 1 {
			errs = append(errs, fmt.Errorf("it was told %d times that m-%d is verified", got, n))
		}
	}
	return errors.Join(errs...)
}
