package interop

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// A session at a terminal and a headless one are listed with their states, until they end or are killed.
func TestRealSessions(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		ctx := deadline(t, patience)
		home := standin.NewHome(t, nil)
		terminal := standin.StartTerminal(t, v, home)
		u := &user{t: t, team: &standin.Team{Lead: terminal, API: home.API, Home: home, Root: home.Root}, home: t.TempDir()}
		is := func(pid int, headless bool, word string) api.Session {
			t.Helper()
			return u.sessionThat(ctx, func(s api.Session) bool {
				// Headless sessions report their state from 2.1.280 on, but not in 2.1.257.
				return s.PID == pid && s.Headless == headless && (s.Word == word || headless && s.Word == api.WordUnknown)
			})
		}
		s := is(terminal.Pid(), false, api.WordIdle)
		if s.Session == "" || s.Cwd != home.Work || s.Member != "team-lead" || !s.Socket || s.Version != v.String() {
			t.Errorf("the session at the terminal is %+v", s)
		}
		prompts(t, ctx, terminal, "SLEEP:4 long")
		is(terminal.Pid(), false, api.WordWorking)
		is(terminal.Pid(), false, api.WordIdle)

		headless := standin.StartHeadless(t, v, home)
		if _, err := headless.Send("hello"); err != nil {
			t.Fatal(err)
		}
		is(headless.Pid(), true, api.WordIdle)
		must(t, headless.Kill())
		must(t, terminal.End(ctx))
		if list := u.sessions(); len(list) != 0 {
			t.Errorf("after they ended: %+v", list)
		}
	})
}

func (u *user) sessions() (list []api.Session) {
	u.t.Helper()
	must(u.t, json.Unmarshal([]byte(u.must("sessions", "--json")), &list))
	return list
}

// sessionThat waits for a session that fits.
func (u *user) sessionThat(ctx context.Context, fits func(api.Session) bool) api.Session {
	u.t.Helper()
	for {
		list := u.sessions()
		for _, s := range list {
			if fits(s) {
				return s
			}
		}
		select {
		case <-ctx.Done():
			u.t.Fatalf("the sessions are %+v", list)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
