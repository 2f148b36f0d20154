package bridge_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/bridge/bridgetest"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

// local is a [bridge.Local] as a command has it.
func local(t *testing.T, f *teamstest.Fixture) *bridge.Local {
	l := sync.OnceValues(func() (*ledger.Ledger, error) {
		return ledger.Open(context.Background(), filepath.Join(f.State, "ledger.db"))
	})
	j := sync.OnceValues(func() (*journal.Journal, error) {
		return journal.Open(context.Background(), filepath.Join(f.State, "journal.db"))
	})
	t.Cleanup(func() {
		if opened, err := l(); err != nil || opened.Close() != nil {
			t.Error("the ledger cannot be opened or closed", err)
		}
		if opened, err := j(); err != nil || opened.Close() != nil {
			t.Error("the journal cannot be opened or closed", err)
		}
	})
	return bridge.New(bridge.Options{
		Root:   func() (*teams.Root, error) { return f.Root, nil },
		Ledger: func(context.Context) (*ledger.Ledger, error) { return l() }, Journal: func(context.Context) (*journal.Journal, error) { return j() },
		State: f.State, Locker: f.Locker, Warn: func(err error) { t.Error(err) }, Debug: t.Logf,
	})
}

func TestLocal(t *testing.T) {
	t.Parallel()
	bridgetest.Run(t, func(t *testing.T, f *teamstest.Fixture) api.Bridge { return local(t, f) })
}

// Prompts are for persons: a program that uses the files is none unless it says so.
func TestNobodyIsAPersonByDefault(t *testing.T) {
	t.Parallel()
	if bridge.Person(t.Context()) || !bridge.Person(bridge.WithPerson(t.Context())) {
		t.Error("who is a person is not what was said")
	}
}
