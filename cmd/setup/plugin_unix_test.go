//go:build unix

package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
)

// An installation that fails in the middle reports the reason, and leaves nothing. If leftovers cannot be removed, a
// later undo can remove them.
func TestInstallFails(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const before = "{\"model\": \"opus\",\n\n\"env\": {}}"
	kept := filepath.Join(filepath.Dir(m.Root), "kept", "settings.json")
	m.write(kept, before)
	must(t, os.Remove(m.settings()))
	must(t, os.Symlink(kept, m.settings()))
	// It enters the marketplace into the settings, and installs nothing.
	m.write(filepath.Join(m.Path, Claude), `#!/bin/sh
cd `+m.Root+`
case "$*" in
"plugin list --json") echo '[]' ;;
"plugin marketplace list --json") if [ -e market ]; then printf '[{"name":"teambridge","path":"%s"}]' "$(cat market)"; else echo '[]'; fi ;;
"plugin marketplace add "*) printf %s "$4" >market; echo '{"model":"opus","env":{},"extraKnownMarketplaces":{"teambridge":{}}}' >settings.json ;;
"plugin marketplace remove teambridge")
	[ ! -e stuck ] || exit 1
	rm market; echo '{"model":"opus","env":{},"extraKnownMarketplaces":{}}' >settings.json ;;
*) echo "no space is left: $*" >&2; exit 1 ;;
esac
`)
	files := m.files()
	install := func() {
		t.Helper()
		list := m.does(m.Look(t.Context(), Plugin))
		m.stand(list, "plugin:failed")
		if !strings.Contains(list[0].Detail, "no space is left: plugin install teambridge@teambridge") {
			t.Errorf("the error is %s", list[0].Detail)
		}
	}
	for range 2 {
		install()
		m.as(files)
		if to, err := os.Readlink(m.settings()); err != nil || to != kept {
			t.Errorf("the settings are no link to %s any more: %v", kept, err)
		}
	}
	stuck := filepath.Join(m.Root, "stuck")
	m.write(stuck, "")
	install()
	install()
	must(t, os.Remove(stuck))
	m.stand(m.does(m.made()), "plugin:missing")
	m.as(files)
	if left := m.made(); len(left) > 0 {
		t.Errorf("left to undo: %q", states(left))
	}
}

// Two directories can share their settings by a link. After the plugin is removed from one, it is still enabled
// in the other.
func TestUninstallSharedSettings(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	program := filepath.Join(dir, "claude")
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
	of := func(name string) *machine {
		root := filepath.Join(dir, name)
		must(t, os.Mkdir(root, 0o700))
		return &machine{&Setup{Root: root, Named: true, State: filepath.Join(dir, "state"), Path: dir, Program: "/a/teambridge"}, t}
	}
	a, b := of("a"), of("b")
	must(t, os.WriteFile(a.settings(), []byte("{}\n"), 0o600))
	must(t, os.Symlink(a.settings(), b.settings()))
	for _, m := range []*machine{a, b} {
		m.stand(m.does(m.Look(t.Context(), Plugin)), "plugin:done")
	}
	m := a.does(a.made())
	a.stand(m, "plugin:missing")
	a.changed(m, Plugin)
	b.stand(b.Look(t.Context(), Plugin), "plugin:done")
	b.stand(b.does(b.made()), "plugin:missing")
	if now := a.read(a.settings()); now != "{}\n" {
		t.Errorf("the settings are %s", now)
	}
}
