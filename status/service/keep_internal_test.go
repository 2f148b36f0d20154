package service

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams/teamstest"
	"teambridge/teams/transcript"
)

// An agent that a relay runs is left to the relay, and a member without a transcript is left
// out.
func TestKeepTranscriptsOfNoRelay(t *testing.T) {
	t.Parallel()
	f, s := service(t)
	config, err := f.Team(teamstest.Newer).Config(t.Context())
	must(t, err)
	lead, _ := config.Lead()
	path := filepath.Join(f.Root.Path(), "projects", transcript.Slug(lead.Cwd), config.LeadSessionID)
	own := filepath.Join(path, "subagents", "agent-aworker-1")
	must(t, os.MkdirAll(filepath.Dir(own), 0o700))
	for name, text := range map[string]string{path + ".jsonl": "", own + ".jsonl": "{}\n", own + ".meta.json": `{"name":"worker"}`} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	followed := func() (names []string) {
		ctx, stop := context.WithCancel(t.Context())
		k := &keeper{shared: s.shared, panes: s.panes, kept: map[inbox.InboxKey]*keeping{}}
		if err := k.look(ctx, teamstest.Newer); err != nil {
			t.Error(err)
		}
		stop()
		k.wait.Wait()
		for key := range k.kept {
			names = append(names, key.Inbox)
		}
		slices.Sort(names)
		return names
	}
	if got := followed(); !slices.Equal(got, []string{lead.Name, "worker"}) {
		t.Errorf("kept: %q", got)
	}
	i := config.Instance()
	if err := s.ledger.Sessions.SetSession(t.Context(), ledger.Session{
		InboxKey: inbox.Key(f.Root.Path(), i, "worker"), ID: config.LeadSessionID,
	}); err != nil {
		t.Fatal(err)
	}
	if got := followed(); !slices.Equal(got, []string{lead.Name}) {
		t.Errorf("kept beside a relay: %q", got)
	}
}
