package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"teambridge/status/api"
)

// However many agents there are, and however narrow the terminal is, the overview fits on a screen.
func TestOverviewIsShort(t *testing.T) {
	t.Parallel()
	var list []api.Agent
	for i := range 50 {
		list = append(list, api.Agent{Name: fmt.Sprint("app-", i), Kind: "session", Does: "idle", Overview: api.Overview{Way: "session", Promise: "each message once", Cwd: "/" + strings.Repeat("deep/", 40)}})
	}
	text := overviewText(list, 80)
	if n := strings.Count(text, "\n"); n > 30 || !strings.Contains(text, "\nand 30 more: ") || strings.Contains(text, "app-20") {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
	if text := overviewText([]api.Agent{{Name: "team-lead@session-78f3e919", Kind: "member", Does: "idle"}}, 40); !strings.HasPrefix(text, "NAME                        STATE\nteam-lead@session-78f3e919  idle\n") {
		t.Errorf("in 40 columns:\n%s", text)
	}
	if text := overviewText(list[:20], 0); strings.Contains(text, " more: ") {
		t.Errorf("twenty are too many:\n%s", text)
	}
}

// No command to paste contains a name that looks like a flag or cannot be shown unchanged.
func TestOverviewExamples(t *testing.T) {
	t.Parallel()
	by := func(way string) api.Overview { return api.Overview{Way: way} }
	list := []api.Agent{{Name: "-rf", Overview: by("session")}, {Name: "a\u202eb", Overview: by("session")}, {Name: "unheard"}}
	if text := overviewText(list, 0); strings.Contains(text, "teambridge send") || !strings.Contains(text, `a\u202eb`) {
		t.Errorf("it is\n%s", text)
	}
	if text := overviewText(append(list, api.Agent{Name: "two words", Overview: by("inbox")}), 0); !strings.Contains(text, "teambridge send 'two words' ") {
		t.Errorf("it is\n%s", text)
	}
}

// A row for a team on another machine has no invented time or lead.
func TestRowOfAMachine(t *testing.T) {
	t.Parallel()
	team := api.Team{Team: "ci@build", Machine: "build", LeadState: "unknown", Members: 2, CreatedAt: time.UnixMilli(1)}
	if got, want := (listedTeam{Team: team}).row(), []string{"ci@build", "-", "-", "2", "-", "on build"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
