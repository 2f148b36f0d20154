//go:build unix

package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
)

// An installation that fails in the middle says why, can be repeated, and leaves nothing once it is uninstalled.
func TestInstallFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	settings := filepath.Join(dir, "claude", "settings.json")
	program := filepath.Join(dir, "program")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		standin.WriteProgram(t, path, text)
	}
	const before = "{\"model\": \"opus\",\n\n\"env\": {}}"
	kept := filepath.Join(dir, "kept", "settings.json")
	write(kept, before)
	if err := os.Mkdir(filepath.Dir(settings), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, settings); err != nil {
		t.Fatal(err)
	}
	// It keeps the marketplace in the settings, and installs nothing.
	write(program, `#!/bin/sh
cd `+filepath.Join(dir, "claude")+`
case "$*" in
"plugin list --json") echo '[]' ;;
"plugin marketplace list --json") if [ -e market ]; then printf '[{"name":"teambridge","path":"%s"}]' "$(cat market)"; else echo '[]'; fi ;;
"plugin marketplace add "*) printf %s "$4" >market; echo '{"model":"opus","env":{},"extraKnownMarketplaces":{"teambridge":{}}}' >settings.json ;;
"plugin marketplace remove teambridge") rm market; echo '{"model":"opus","env":{},"extraKnownMarketplaces":{}}' >settings.json ;;
*) echo "no space is left: $*" >&2; exit 1 ;;
esac
`)
	i := &Installer{Command: []string{program}, Root: filepath.Join(dir, "claude"), State: filepath.Join(dir, "state")}
	for range 2 {
		if _, _, err := i.Install(t.Context(), "/a/teambridge", nil); err == nil || !strings.Contains(err.Error(), "no space is left: plugin install teambridge@teambridge") {
			t.Fatalf("the error is %v", err)
		}
	}
	if removed, err := i.Uninstall(t.Context()); err != nil || !removed {
		t.Errorf("uninstalled: %t, %v", removed, err)
	}
	if now, err := os.ReadFile(settings); err != nil || string(now) != before {
		t.Errorf("the settings are %s (%v)", now, err)
	}
	if to, err := os.Readlink(settings); err != nil || to != kept {
		t.Errorf("the settings are no link to %s any more: %v", kept, err)
	}
	if left, _ := filepath.Glob(filepath.Join(i.State, "plugins", "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if removed, err := i.Uninstall(t.Context()); err != nil || removed {
		t.Errorf("uninstalled again: %t, %v", removed, err)
	}
}

// Two directories can have the same settings, by a link. When the plugin is removed from one, it is still on in the other.
func TestUninstallSharedSettings(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	standin.WriteProgram(t, program, `#!/bin/sh
cd "$CLAUDE_CONFIG_DIR" || exit
case "$*" in
"plugin list --json") if [ -e version ]; then printf '[{"id":"teambridge@teambridge","version":"%s","enabled":%s}]' "$(cat version)" "$(grep -o true settings.json || echo false)"; else echo '[]'; fi ;;
"plugin marketplace list --json") if [ -e market ]; then printf '[{"name":"teambridge","path":"%s"}]' "$(cat market)"; else echo '[]'; fi ;;
"plugin marketplace add "*) printf %s "$4" >market ;;
"plugin marketplace remove teambridge") rm market ;;
"plugin install teambridge@teambridge")
	sed -n 's/.*"version": "\(.*\)".*/\1/p' "$(cat market)/teambridge/.claude-plugin/plugin.json" >version
	echo '{"enabledPlugins":{"teambridge@teambridge":true}}' >settings.json ;;
"plugin enable teambridge@teambridge") echo '{"enabledPlugins":{"teambridge@teambridge":true}}' >settings.json ;;
"plugin uninstall teambridge@teambridge") rm version; echo '{"enabledPlugins":{}}' >settings.json ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
`)
	of := func(name string) *Installer {
		root := filepath.Join(dir, name)
		if err := os.Mkdir(root, 0o700); err != nil {
			t.Fatal(err)
		}
		return &Installer{Command: []string{program}, Env: []string{"CLAUDE_CONFIG_DIR=" + root}, Root: root, State: filepath.Join(dir, "state")}
	}
	a, b := of("a"), of("b")
	if err := os.WriteFile(filepath.Join(a.Root, "settings.json"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(a.Root, "settings.json"), filepath.Join(b.Root, "settings.json")); err != nil {
		t.Fatal(err)
	}
	for _, i := range []*Installer{a, b} {
		if _, _, err := i.Install(t.Context(), "/a/teambridge", nil); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := a.Uninstall(t.Context()); err != nil || !removed {
		t.Errorf("uninstalled: %t, %v", removed, err)
	}
	if s, err := b.Status(t.Context()); err != nil || s.Version == "" || !s.Enabled {
		t.Errorf("in the other directory, it is %+v, %v", s, err)
	}
	if removed, err := b.Uninstall(t.Context()); err != nil || !removed {
		t.Errorf("uninstalled there: %t, %v", removed, err)
	}
	if now, err := os.ReadFile(filepath.Join(a.Root, "settings.json")); err != nil || strings.Contains(string(now), "true") {
		t.Errorf("the settings are %s (%v)", now, err)
	}
}
