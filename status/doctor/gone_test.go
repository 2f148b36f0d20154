package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teambridge/plugin"
	"teambridge/status/supervisor"
	"teambridge/teams/teamstest"
)

// A plugin and a unit whose program is gone are reported, with the repair.
func TestProgramIsGone(t *testing.T) {
	t.Parallel()
	f := teamstest.New(t)
	home := t.TempDir()
	claude, program := filepath.Join(home, "bin", "claude"), filepath.Join(home, "bin", "teambridge")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(claude, "#!/bin/sh\n")
	write(claude+".exe", "")
	write(program, "#!/bin/sh\n")
	write(filepath.Join(f.Root.Path(), "settings.json"), `{"enabledPlugins":{"teambridge@teambridge":true}}`)
	const servers = "teambridge/.mcp.json"
	write(filepath.Join(plugin.Dir(f.State, f.Root.Path()), filepath.FromSlash(servers)), `{"mcpServers":{"teambridge":{"command":"`+filepath.ToSlash(program)+`"}}}`)
	environment := map[string]string{"PATH": filepath.Dir(claude), "HOME": home}
	lookup := func(name string) (string, bool) { v, ok := environment[name]; return v, ok }
	u, err := supervisor.Service(lookup, func() (string, error) { return home, nil })
	if err != nil {
		t.Fatal(err)
	}
	text, err := u.Text([]string{program, "serve"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(u.Path, text)
	found := func() (codes []string) {
		x := &examination{Checkup: Checkup{Root: f.Root, State: f.State, LookupEnv: lookup}}
		x.tools()
		x.service(t.Context())
		for _, f := range x.findings {
			codes = append(codes, f.Code)
		}
		return codes
	}
	if got := found(); slices.Contains(got, "plugin_gone") || slices.Contains(got, "service_gone") {
		t.Errorf("while the program is there: %q", got)
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if got := found(); !slices.Contains(got, "plugin_gone") || !slices.Contains(got, "service_gone") {
		t.Errorf("when it is gone: %q", got)
	}
}
