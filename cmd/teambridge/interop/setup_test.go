package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/cmd/setup"
	"teambridge/teams"
)

// setupUser is a person with only Claude Code and Codex in $PATH.
type setupUser struct {
	*pluginUser
	codex string
}

func newSetupUser(t *testing.T, v teams.Version) *setupUser {
	t.Helper()
	p := &setupUser{pluginUser: newPluginUser(t, v)}
	p.codex = p.home.Codex(t)
	bin := filepath.Dir(p.claude)
	must(t, os.Symlink(p.codex, filepath.Join(bin, setup.Codex)))
	return p
}

// setUp runs "teambridge setup", and returns the steps by name, without those of other programs on this machine.
func (p *setupUser) setUp(flags ...string) map[string]setup.Step {
	p.t.Helper()
	cmd := exec.CommandContext(p.ctx, p.program, append([]string{"setup", "--json"}, flags...)...)
	cmd.Dir, cmd.Env = p.home.Work, append(p.home.Env(), "TEAMBRIDGE_STATE="+p.state())
	out, err := cmd.Output()
	var list []setup.Step
	if errJSON := json.Unmarshal(out, &list); err != nil || errJSON != nil {
		p.t.Fatalf("setup %q: %v, %v\n%s", flags, err, errJSON, out)
	}
	steps := map[string]setup.Step{}
	for _, st := range list {
		if st.Program == setup.Claude || st.Program == setup.Codex {
			steps[st.Name] = st
		}
	}
	return steps
}

// stand checks the state of all three steps.
func (p *setupUser) stand(steps map[string]setup.Step, want setup.State, changed bool) {
	p.t.Helper()
	for _, name := range []string{setup.Plugin, setup.Teams, setup.Tools} {
		if st := steps[name]; st.State != want || st.Changed != changed {
			p.t.Errorf("%s: %+v; want %s, changed %t", name, st, want, changed)
		}
	}
}

// files returns the files that setup changes, with their texts or checksums.
func (p *setupUser) files() map[string]string {
	p.t.Helper()
	all := pluginFiles(p.t, p.home.Root)
	for name, path := range map[string]string{"settings": filepath.Join(p.home.Root, "settings.json"), "Codex": p.config()} {
		data, err := os.ReadFile(path)
		must(p.t, err)
		all[name] = string(data)
	}
	return all
}

func (p *setupUser) config() string { return filepath.Join(p.home.Dir, ".codex", "config.toml") }

// as checks that the files have not changed.
func (p *setupUser) as(before map[string]string) {
	p.t.Helper()
	now := p.files()
	for name, text := range now {
		if before[name] != text {
			p.t.Errorf("%s is left, or has changed: %s\nIt was %s", name, text, before[name])
		}
	}
	if len(before) != len(now) {
		p.t.Errorf("before %v, now %v", before, now)
	}
	if _, err := os.Stat(filepath.Join(p.state(), "setup")); !os.IsNotExist(err) {
		p.t.Errorf("the folder setup is left: %v", err)
	}
}

// Claude Code and Codex recognize what setup has installed, and their files are as before once it is undone.
func TestRealSetup(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newSetupUser(t, v)
		settings := filepath.Join(p.home.Root, "settings.json")
		must(t, os.WriteFile(settings, []byte("{\"cleanupPeriodDays\":20,\n\t\"env\": {\"X\" : \"y\"}}"), 0o600))
		p.runs(p.claude, "plugin", "list") // it writes its usual files
		before := p.files()
		p.stand(p.setUp(), setup.Missing, false)
		p.stand(p.setUp("--yes", "--dry-run"), setup.Missing, false)
		p.as(before)
		p.stand(p.setUp("--yes"), setup.Done, true)
		done := p.files()
		p.stand(p.setUp("--yes"), setup.Done, false)
		for name, text := range p.files() {
			if done[name] != text {
				t.Errorf("the second time, %s has changed from %s to %s", name, done[name], text)
			}
		}
		if text := done["settings"]; !strings.Contains(text, `"`+teams.EnableVariable+`"`) || !strings.Contains(text, "enabledPlugins") {
			t.Errorf("the settings are %s", text)
		}
		if said := p.runs(p.codex, "mcp", "get", "teambridge", "--json"); !strings.Contains(said, p.program) {
			t.Errorf("Codex has %s", said)
		}
		p.stand(p.setUp("--undo", "--yes"), setup.Missing, true)
		p.as(before)
		if n := len(p.setUp("--undo", "--yes")); n != 0 {
			t.Errorf("%d steps are left to undo", n)
		}
	})
}
