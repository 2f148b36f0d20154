package teams

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCreateAndDiscard(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	path := filepath.Join(dir, "teams", "mine")
	for i, want := range []bool{true, false} {
		made, err := root.Create(t.Context(), "mine", "boss", "s-1", "/home/dev")
		if err != nil || made != want {
			t.Fatalf("call %d: made %v, %v; want %v", i+1, made, err, want)
		}
	}
	team, err := root.Team("mine")
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	c, err := team.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lead, ok := c.Lead()
	if !ok || lead.Name != "boss" || lead.Guest() || c.Generation() != G2 || c.LeadSessionID != "s-1" || len(c.Faults) > 0 {
		t.Errorf("config: %+v", c)
	}
	if got := c.LeadProcess.Liveness(); got == Gone {
		t.Errorf("the lead is %v", got)
	}
	if err := root.Discard(t.Context(), "mine", "boss"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if err := root.Discard(t.Context(), "mine", "boss"); err != nil {
		t.Errorf("discarded twice: %v", err)
	}
}

// A team that somebody else leads, or works in, is never removed.
func TestDiscardLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(config string) error{
		"another process leads": func(config string) error {
			data, err := firstConfig("mine", "boss", "", "/", time.UnixMilli(1))
			if err != nil {
				return err
			}
			return os.WriteFile(config, bytes.Replace(data, []byte(`"procStart": "`), []byte(`"procStart": "9`), 1), 0o600)
		},
		"an agent is in it": func(config string) error {
			data, err := firstConfig("mine", "boss", "", "/", time.UnixMilli(1))
			if err != nil {
				return err
			}
			return os.WriteFile(config, bytes.Replace(data, []byte(`"members": [`), []byte(`"members": [{"agentId":"w@mine","name":"w","backendType":"in-process"},`), 1), 0o600)
		},
	} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		root, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if _, err := root.Create(t.Context(), "mine", "boss", "", "/"); err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(dir, "teams", "mine", "config.json")
		if err := spoil(config); err != nil {
			t.Fatal(err)
		}
		if err := root.Discard(t.Context(), "mine", "boss"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(config); err != nil {
			t.Errorf("%s: removed: %v", name, err)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, names := range [][2]string{{"../x", "boss"}, {"mine", "a/b"}, {"", "boss"}} {
		if _, err := root.Create(t.Context(), names[0], names[1], "", "/"); !errors.Is(err, ErrBadName) {
			t.Errorf("%q: %v, want ErrBadName", names, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "teams")); err == nil {
		t.Error("something was made")
	}
}
