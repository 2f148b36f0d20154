package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// several is how many messages each of these tests sends.
const several = 20

// eachTeam runs a test with teams of the oldest and the newest version at the same time, and with a team that the
// oldest leads and whose worker, a process of its own, is of the newest. (Not the reverse: an old member with a
// process of its own takes rows twice, and skips others, by itself.)
func eachTeam(t *testing.T, test func(t *testing.T, u *user)) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		test(t, newUser(t, v))
	})
	oldest, newest := standin.Oldest(t), standin.Newest(t)
	if oldest == newest {
		return
	}
	t.Run(fmt.Sprintf("%s leads %s", oldest, newest), func(t *testing.T) {
		t.Parallel()
		u := newUser(t, oldest)
		u.team.StartMember(t, newest, "bob")
		u.team.Member, u.member = "bob", newest
		test(t, u)
	})
}

var delivered = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<m-[0-9]+>`) })

// each checks that the worker was given each of n messages once. A last message marks the end, since an agent takes
// rows in the order of the file.
func (u *user) each(ctx context.Context, n int) {
	u.t.Helper()
	u.must("send", u.team.Member, "the last one <end>")
	given(u.t, ctx, u.team.API, u.team.Member, "<end>")
	want := map[string]int{}
	for i := range n {
		want[fmt.Sprintf("<m-%d>", i)] = 1
	}
	got := u.team.API.Counts(u.team.Member, delivered())
	for m := range want {
		if got[m] != 1 {
			u.t.Errorf("%s was given to %s %d times, want once", m, u.team.Member, got[m])
		}
	}
	if len(got) != n {
		u.t.Errorf("%d messages were given, want %d", len(got), n)
	}
}

// A message that is followed is consumed once the agent has taken it: it is never lost, and never given twice.
func TestRealSendConsumed(t *testing.T) {
	eachTeam(t, func(t *testing.T, u *user) {
		ctx := deadline(t, patience)
		for i := range several {
			sent := decoded[api.Sent](t, u.must("send", u.team.Member, fmt.Sprintf("please <m-%d>", i), "--wait", "consumed", "--timeout", "60s", "--json"))
			if sent.State != api.Consumed {
				t.Errorf("message %d: %+v; want it consumed", i, sent)
			}
		}
		u.each(ctx, several)
		u.clean()
	})
}

// Messages that the agents of a killed lead took before the kill are consumed. A message that is sent afterwards
// never is, even if it disappears from the inbox.
func TestRealLeadIsKilled(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		u := newUser(t, v)
		ctx := deadline(t, patience)
		u.must("send", "worker", "please <m-0>", "--id", "before", "--wait", "seen", "--timeout", "60s")
		must(t, u.team.Lead.Kill())
		_ = u.team.Lead.Exited(ctx) // with an error: it was killed
		to := "worker@" + u.team.Name
		u.must("send", to, "please <m-0>", "--id", "before", "--wait", "consumed", "--timeout", "60s")
		box := u.team.Inbox("worker")
		ways := map[string]func() error{"deleted": func() error { return os.Remove(box) }}
		if v.Compare(teams.Version{Major: 2, Minor: 1, Patch: 311}) >= 0 { // otherwise it may have been resumed
			ways["emptied"] = func() error { return os.WriteFile(box, []byte("[]"), 0o600) }
		}
		for id, vanish := range ways {
			vanished := make(chan error, 1)
			go func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for ctx.Err() == nil {
					<-tick.C
					data, _ := os.ReadFile(box) // until it can be read
					if _, err := os.Stat(box + ".lock"); err != nil && bytes.Contains(data, []byte(id)) {
						vanished <- vanish()
						return
					}
				}
				vanished <- ctx.Err()
			}()
			status, out, errs := u.run("send", to, "nobody takes this", "--id", id, "--wait", "consumed", "--timeout", "60s")
			if err := <-vanished; err != nil || status != api.ExitUnknown {
				t.Errorf("%s: status %d, want %d; %v\n%s%s", id, status, api.ExitUnknown, err, out, errs)
			}
		}
	})
}

// A service follows a message that no command waits for, and it is consumed, too.
func TestRealSendThroughAService(t *testing.T) {
	eachTeam(t, func(t *testing.T, u *user) {
		ctx := deadline(t, patience)
		s := serve(t, u.team.Home, u.state())
		for i := range several {
			u.must("send", u.team.Member, fmt.Sprintf("please <m-%d>", i))
		}
		u.each(ctx, several)
		var states []string
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var page api.Page
			s.ask(ctx, "GET", "/v1/teams/"+u.team.Name+"/messages?inbox="+u.team.Member+"&limit=100", "", "", 200, &page)
			states = states[:0]
			open := 0
			for _, m := range page.Messages {
				switch {
				case m.Receipt == nil:
				case m.Receipt.State == string(inbox.Unconsumed):
					open++
				default:
					states = append(states, m.Receipt.State)
				}
			}
			if open == 0 && len(states) > 0 {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("%d messages are still followed, states of the others: %q", open, states)
			}
		}
		if want := slices.Repeat([]string{string(api.Consumed)}, several+1); !slices.Equal(states, want) {
			t.Errorf("states: %q, want %q", states, want)
		}
		u.clean()
	})
}

// ask gets an answer, and joins the team for that if the agent cannot write to "user".
func TestRealAsk(t *testing.T) {
	eachTeam(t, func(t *testing.T, u *user) {
		for i := range 3 {
			answer := fmt.Sprintf("it is this <a-%d>", i)
			a := u.asks(u.team.Member, fmt.Sprintf("SLEEP:1\nwhat is it <m-%d>\n%s", i, replyCall(api.Guest, answer)))
			if a.Text != answer || a.Via != api.ViaMessage || !a.Certain || a.Sent.State != api.Consumed {
				t.Errorf("answered: %+v", a)
			}
		}
		u.each(deadline(t, 2*time.Minute), 3)
		u.clean()
	})
}

// lockedBuffer collects the output of a process.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.buf.String())
}

// A message in the inbox of an agent that is too old is verified and reaches its model. Everything else is refused,
// or is unknown with the reason.
func TestRealOutdatedTeam(t *testing.T) {
	t.Parallel()
	standin.ForEach(t, func(t *testing.T, v teams.Version) {
		if !v.Outdated() {
			t.Skip("it is supported: TEAMBRIDGE_VERSIONS=taken selects those that are not")
		}
		t.Parallel()
		u := newUser(t, v)
		ctx := deadline(t, patience)
		why := v.Check("worker").Error()
		look := func(want int, says string, args ...string) {
			t.Helper()
			status, out, errs := u.run(args...)
			t.Logf("$ teambridge %s\n%s%s", strings.Join(args, " "), out, errs)
			if status != want || !strings.Contains(out+errs, says) {
				t.Errorf("teambridge %s: exit status %d, want %d and %q", strings.Join(args, " "), status, want, says)
			}
		}
		look(0, "warning: "+why, "send", "worker", "please <m-0>")
		given(t, ctx, u.team.API, u.team.Member, "<m-0>")
		look(api.ExitRefused, why, "ask", "worker", "how many?")
		look(api.ExitRefused, why, "wait", "--for", "idle", "--member", "worker")
		look(api.ExitUnknown, why, "send", "worker", "and <m-1>", "--wait", "seen", "--timeout", "60s")
		look(0, "warning: "+why, "members")
		look(0, v.Check("it").Error(), "status")
		look(1, "Claude Code "+v.String()+" is too old: teambridge needs "+teams.Oldest.String()+" or newer", "doctor")
		if v.Compare(teams.Version{Major: 2, Minor: 1, Patch: 178}) >= 0 { // an older one does not show its version there
			look(0, "unknown: "+v.Check("it").Error(), "sessions")
		}
		u.each(ctx, 2)
	})
}
