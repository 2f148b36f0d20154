package interop

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// A lead whose session was resumed is alive, is idle when it waits, and takes messages, which are seen. So does its
// teammate, whatever id its team has, and so do both after /clear, which changes the session.
func TestRealResumedLead(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		for _, how := range []string{"--resume", "--continue"} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				ctx := deadline(t, patience)
				home := standin.NewHome(t, nil)
				session := uuid.NewString()
				lead := standin.StartTerminal(t, v, home, "--session-id", session)
				u := &user{t: t, team: &standin.Team{Lead: lead, API: home.API}, member: v, home: t.TempDir()}
				u.enter(ctx, "hello [first]")
				path := filepath.Join(home.Root, "projects", transcript.Slug(home.Work), session+".jsonl")
				if _, err := standin.WaitFile(ctx, path, func(data []byte) bool { return strings.Contains(string(data), "ACK: hello [first]") }); err != nil {
					t.Fatal(err)
				}
				must(t, lead.End(ctx))
				args := []string{how}
				if how == "--resume" {
					args = append(args, session)
				}
				u.team.Lead = standin.StartTerminal(t, v, home, args...)
				u.enter(ctx, "hello [second]")
				u.team = standin.LeadTeam(t, v, home, u.team.Lead)
				c, err := u.team.Config()
				must(t, err)
				since := v.Compare(teams.Version{Major: 2, Minor: 1, Patch: 311}) >= 0 // the team's config names its session and its process
				if (c.LeadSessionID == session) != since {
					t.Errorf("leadSessionId %s of the session %s", c.LeadSessionID, session)
				}
				u.known(ctx, "resumed")
				prompts(t, ctx, u.team.Lead, "/clear")
				u.enter(ctx, "hello [third]")
				u.known(ctx, "cleared")
				u.clean()
				must(t, u.team.Lead.Kill())
				_, out, _ := u.run("doctor")
				if back := strings.Contains(out, "or resume its session"); back != since {
					t.Errorf("doctor says that a resume takes the team back: %t\n%s", back, out)
				}
			})
		}
	})
}

// enter types a prompt, and waits until the lead's model has answered it.
func (u *user) enter(ctx context.Context, text string) {
	u.t.Helper()
	prompts(u.t, ctx, u.team.Lead, text)
	_, marker, _ := strings.Cut(text, " ")
	if _, err := u.team.API.Wait(ctx, func(r standin.Request) bool { return !r.Side && r.Has(marker) && !r.Answered.IsZero() }); err != nil {
		u.t.Fatalf("%v\n%s", err, u.team.Lead.Screen())
	}
}

// known checks that the states of the lead and its worker are known.
func (u *user) known(ctx context.Context, how string) {
	u.t.Helper()
	var listed []api.Team
	if out := u.must("teams", "--json"); json.Unmarshal([]byte(out), &listed) != nil || len(listed) != 1 || listed[0].LeadState != "alive" {
		u.t.Errorf("%s: teams: %s", how, out)
	}
	for _, member := range []string{standin.Worker, "team-lead"} {
		u.must("send", member, "to "+member+", "+how, "--wait", "seen", "--timeout", "60s")
		u.must("wait", "--for", "idle", "--member", member, "--timeout", "60s")
	}
	all := decoded[[]api.Status](u.t, u.must("status", "--json"))
	if len(all) != 2 || slices.ContainsFunc(all, func(s api.Status) bool { return s.Word != api.WordIdle }) {
		u.t.Errorf("%s: status: %+v", how, all)
	}
}
