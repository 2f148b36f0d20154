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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/relay/relaytest/simagent"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams/teamstest"
)

// The service is killed at random instants while messages pass and others follow
// what happens: every message is sent once, and each follower is told of each of
// them, and of what became of it, exactly once.
//
// TEAMBRIDGE_SERVICE_MESSAGES is how many messages there are; while they pass, the
// service is killed once for every three at the most. By default there are 60
// messages and 6 kills.
func TestServiceIsKilled(t *testing.T) {
	t.Parallel()
	messages := 60
	if text := os.Getenv("TEAMBRIDGE_SERVICE_MESSAGES"); text != "" {
		var err error
		if messages, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(messages)*time.Second)
	defer cancel()
	root, state := filepath.Join(t.TempDir(), "claude"), teamstest.StateDir(t)
	// An older agent keeps what it has taken, so that all of it can be counted.
	team, err := simagent.Create(ctx, simagent.TeamOptions{
		Root: root, Marks: true, Name: "t", Poll: 5 * time.Millisecond, Members: []simagent.Member{{Name: "worker"}}, Report: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	box := filepath.Join(team.Dir(), "inboxes", "worker.json")
	socket := filepath.Join(state, "s")

	var agents sync.WaitGroup
	defer agents.Wait()
	defer cancel()
	agents.Go(func() { _ = team.Agent("worker").Run(ctx) })

	svc := &victim{t: t, root: root, state: state, socket: socket}
	svc.start()
	defer svc.kill()
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
			svc.kill()
			killed++
			svc.free(box)
			svc.start()
		}
	}
	// Whatever they are told twice they are told before they see the one that follows.
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
	cancel()
	agents.Wait() // an older agent writes in place
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

// victim is a service that is killed again and again.
type victim struct {
	t                   *testing.T
	root, state, socket string
	cmd                 *exec.Cmd
}

func (v *victim) start() {
	v.t.Helper()
	v.cmd = exec.Command("teambridge", "serve", "--listen", "unix:"+v.socket) // that of the scripts
	v.cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+v.root, "TEAMBRIDGE_STATE="+v.state, "TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m", "GORACE=atexit_sleep_ms=0")
	var errs bytes.Buffer
	v.cmd.Stderr = &errs
	said, err := v.cmd.StdoutPipe()
	if err != nil {
		v.t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	if _, err := said.Read(make([]byte, 100)); err != nil {
		_ = v.cmd.Wait()
		v.t.Fatalf("it does not start: %v: %s", err, &errs)
	}
}

func (v *victim) kill() {
	if v.cmd.ProcessState == nil {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait()
	}
}

// free ages the lock that a service has left behind, so that nobody waits 10 s until
// it is stale. That of the agent, which holds it for a moment, is left alone.
func (v *victim) free(box string) {
	lock := box + ".lock"
	was, err := os.Stat(lock)
	if err != nil {
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 400 {
		<-tick.C
		if is, err := os.Stat(lock); errors.Is(err, fs.ErrNotExist) || err == nil && !is.ModTime().Equal(was.ModTime()) {
			return
		}
	}
	old := time.Now().Add(-time.Hour)
	_ = os.Chtimes(lock, old, old)
}

// follower follows what happens until the message "end" appears.
type follower struct {
	want int
	told chan struct{} // closed once it knows that each message appeared and was taken, or has ended
	last int64
	seen map[string]int // what it was told, by what that is
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

// verdict says what it was not told exactly once. A receipt that says "verified" may
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
