package service

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/signals"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/teamstest"
)

// world is a Claude directory with a captured team.
type world struct{ *teamstest.Fixture }

// joinedTeam joins the team as operator, as the command does.
func (w world) joinedTeam(t *testing.T, l *ledger.Ledger) (*teams.Team, teams.Membership) {
	t.Helper()
	team := w.Team(teamstest.Newer)
	m, err := team.Join(t.Context(), w.Locker, "operator", "/")
	must(t, err)
	must(t, l.Teams.Joined(t.Context(), w.joinOf(t, team, m)))
	return team, m
}

func (w world) joinOf(t *testing.T, team *teams.Team, m teams.Membership) ledger.Join {
	t.Helper()
	c, err := team.Config(t.Context())
	must(t, err)
	return ledger.Join{Root: w.Root.Path(), Team: teamstest.Newer, CreatedAt: c.Instance().CreatedAt, Member: m.Name, AgentID: m.AgentID, At: m.JoinedAt}
}

// member returns a member in config.json.
func member(t *testing.T, team *teams.Team, name string) (teams.Member, bool) {
	t.Helper()
	c, err := team.Config(t.Context())
	must(t, err)
	return c.Member(name)
}

// forget writes config.json without a member, like a program that does not know the member.
func (w world) forget(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join(w.Root.Path(), "teams", teamstest.Newer, "config.json")
	data, err := os.ReadFile(path)
	must(t, err)
	var config map[string]any
	must(t, json.Unmarshal(data, &config))
	config["members"] = slices.DeleteFunc(config["members"].([]any), func(m any) bool { return m.(map[string]any)["name"] == name })
	if data, err = json.MarshalIndent(config, "", "  "); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(path+".new", data, 0o600))
	must(t, os.Rename(path+".new", path))
}

// If our entry vanishes, it is added again, as often as that happens, but not after the person left the team.
func TestJoinsAgain(t *testing.T) {
	t.Parallel()
	f, r := service(t)
	w, end := world{f}, r.start(t)
	team, _ := w.joinedTeam(t, r.ledger)
	for range 2 {
		w.forget(t, "operator")
		end := time.After(time.Minute)
		for {
			if _, there := member(t, team, "operator"); there {
				break
			}
			select {
			case <-end:
				t.Fatal("the team is not joined again")
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	if _, there := member(t, team, "worker"); !there {
		t.Error("somebody else is gone")
	}
	// The record is the new entry's, so the person can leave.
	var m teams.Membership
	for {
		c, err := team.Config(t.Context())
		must(t, err)
		ours, err := mail.Memberships(t.Context(), r.ledger, team, c)
		if err != nil || len(ours) != 1 {
			t.Fatalf("joined as %+v, %v", ours, err)
		}
		there, _ := c.Member("operator")
		if m = ours[0]; m.JoinedAt.Equal(there.JoinedAt) {
			break
		}
		<-time.After(5 * time.Millisecond)
	}

	// Leaving takes two steps, and no join may happen between them.
	release, err := mail.Alone(t.Context(), w.State)
	must(t, err)
	if _, err := team.Leave(t.Context(), r.locker, m); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if again, err := r.rejoiner.join(soon, w.joinOf(t, team, m)); again || !errors.Is(err, lockedfile.ErrLocked) {
		t.Errorf("in the middle of leaving: joined %v, %v", again, err)
	}
	must(t, r.ledger.Teams.Left(t.Context(), w.joinOf(t, team, m)))
	must(t, release())
	for range 3 { // looks
		signals.Send(r.rejoiner.dirty)
		for len(r.rejoiner.dirty) > 0 {
			<-time.After(time.Millisecond)
		}
	}
	end()
	if m, there := member(t, team, "operator"); there {
		t.Errorf("joined again after it was left: %+v", m)
	}
}
