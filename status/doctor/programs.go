package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/plugin"
	"teambridge/relay/claude"
	"teambridge/relay/opencode"
	"teambridge/relay/pane"
	"teambridge/relay/runtimes"
	"teambridge/relay/shell"
	"teambridge/relay/stophook"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/sharedfile"
)

// environment reports on all that does not belong to one team: versions of Claude Code, whether teams are enabled, the
// service and the databases.
func (x *examination) environment(ctx context.Context, listings []teams.Listing) error {
	x.claudeCode(ctx, listings)
	if path, err := x.lookPath(runtimes.OpenCode); err == nil {
		x.openCode(path)
	}
	x.teamsEnabled()
	if path := claude.NobodyAsked(x.Root.Path(), x.Dir, nil); path != "" {
		x.add(api.LevelNote, "nobody_asked", "", path, "Claude Code asks nobody for permission: permissions.denyInsteadOfPrompting is in these settings",
			"calls that no rule allows are denied, even with --permissions ask; remove the setting, or add rules for the tools that agents need")
	}
	x.fileSystem(eventless(x.Root.Path()))
	x.tools()
	x.service(ctx)
	return x.databases(ctx)
}

// fileSystem reports that the Claude directory is on a file system without events. kind is "" if it is not.
func (x *examination) fileSystem(kind string) {
	if kind != "" {
		x.add(api.LevelNote, "no_events", "", x.Root.Path(), "the Claude directory is on "+kind+": changes may come without an event of the kernel, and are then found by polling, every 5 s at first",
			"nothing is lost; for less delay, keep it on a disk of this system: $CLAUDE_CONFIG_DIR")
	}
}

// claudeCode reports the versions of Claude Code that are installed or run an agent.
func (x *examination) claudeCode(ctx context.Context, listings []teams.Listing) {
	found := map[teams.Version][]string{}
	add := func(v teams.Version, where string) {
		if v.Known() {
			found[v] = append(found[v], where)
		}
	}
	if path, err := x.lookPath("claude"); err != nil {
		x.add(api.LevelNote, "no_claude_code", "", "", "there is no claude in $PATH", `install Claude Code, or give "teambridge run" the path of one`)
	} else if v := installedVersion(path, "@anthropic-ai/claude-code"); v.Known() {
		add(v, path)
	} else {
		x.add(api.LevelOK, "claude_code", "", path, "Claude Code of an unknown version", "see it with: claude --version")
	}
	for _, l := range listings {
		if l.Orphan || l.Err != nil {
			continue
		}
		t, err := x.Root.Team(l.Name)
		if err != nil {
			continue // the examination of the team reports it
		}
		if c, err := t.Config(ctx); err == nil {
			for _, m := range c.Members {
				add(t.Agent(c, m.Name).Version(), m.Name+"@"+l.Name)
			}
		}
		t.Close()
	}
	for _, v := range slices.SortedFunc(maps.Keys(found), teams.Version.Compare) {
		where := found[v]
		slices.Sort(where)
		if n := len(where); n > 5 {
			where = append(where[:5], fmt.Sprintf("%d more", n-5))
		}
		x.known(v, strings.Join(where, ", "))
	}
}

// known reports a version, and its measurements on this machine.
func (x *examination) known(v teams.Version, where string) {
	const probe = "teambridge-probe measures it"
	level, message, advice := api.LevelOK, "Claude Code "+v.String(), ""
	p, err := measured(x.State, v)
	switch {
	case v.Outdated():
		x.add(api.LevelProblem, "outdated", "", where, fmt.Sprintf("%s is too old: teambridge needs %s or newer", message, teams.Oldest),
			"update it with: claude update; until then, messages go into the inboxes of its agents, and their states are not proved")
		return
	case x.State == "", errors.Is(err, fs.ErrNotExist):
		if v.Newer() {
			level, message, advice = api.LevelNote, v.NewerNote(""), probe
		}
	case err != nil:
		x.add(api.LevelProblem, "bad_observation", "", where, err.Error(), probe+" again")
	default:
		message += ", measured here on " + p.At.Format(time.DateOnly)
		var changed []string
		for _, point := range p.Points {
			if point.Changed {
				changed = append(changed, point.Name)
			}
		}
		if len(changed) == 0 {
			message += ": as expected"
		} else {
			level, advice = api.LevelProblem, "teambridge relies on it; "+probe+" again"
			message += ", does not behave as teambridge expects: " + strings.Join(changed, ", ")
		}
	}
	x.add(level, "claude_code", "", where, message, advice)
}

// openCode reports the version of OpenCode, and whether its agents can have a relay.
func (x *examination) openCode(path string) {
	v := installedVersion(path, "opencode-")
	switch {
	case !v.Known():
		x.add(api.LevelOK, "opencode", "", path, "OpenCode of an unknown version", "see it with: opencode --version; run needs 1.18 or newer")
	case v.Compare(teams.Version{Major: 1, Minor: 18}) < 0:
		x.add(api.LevelNote, "old_opencode", "", path, "OpenCode "+v.String()+" cannot be an agent", "install 1.18 or newer with: npm install -g opencode-ai")
	case opencode.Passed(x.State, v.String()):
		x.add(api.LevelOK, "opencode", "", path, "OpenCode "+v.String(), "it has what agents need")
	default:
		x.add(api.LevelOK, "opencode", "", path, "OpenCode "+v.String(), "whether it has what agents need is checked when the first one starts")
	}
}

// installedVersion returns the version of the program at path without running it. Installers put the version into the
// name of the file, and npm into a package.json next to it, of a package whose name begins with prefix.
func installedVersion(path, prefix string) teams.Version {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return teams.Version{}
	}
	if v, err := teams.ParseVersion(filepath.Base(real)); err == nil {
		return v
	}
	dir := filepath.Dir(real)
	for range 3 {
		var p struct{ Name, Version string }
		if readJSON(filepath.Join(dir, "package.json"), &p) == nil && strings.HasPrefix(p.Name, prefix) {
			v, _ := teams.ParseVersion(p.Version)
			return v
		}
		dir = filepath.Dir(dir)
	}
	return teams.Version{}
}

func readJSON(path string, v any) error {
	data, err := sharedfile.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// lookPath finds a program in $PATH.
func (x *examination) lookPath(name string) (string, error) {
	path, _ := x.LookupEnv("PATH")
	return shell.LookPath(path, name)
}

// teamsEnabled reports whether agent teams are enabled in a Claude Code that is started here.
func (x *examination) teamsEnabled() {
	if value, _ := x.LookupEnv(teams.EnableVariable); teams.Enables(value) {
		x.add(api.LevelOK, "teams_enabled", "", "", "agent teams are enabled: "+teams.EnableVariable+" is set", "")
		return
	}
	files := stophook.Files(x.Root.Path(), x.Dir)
	for _, path := range files {
		var s struct{ Env map[string]any }
		err := readJSON(path, &s)
		switch {
		case err == nil && teams.Enables(fmt.Sprint(s.Env[teams.EnableVariable])):
			x.add(api.LevelOK, "teams_enabled", "", path, "agent teams are enabled: "+teams.EnableVariable+" is in the settings", "")
			return
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			x.add(api.LevelNote, "settings", "", path, "the settings cannot be read: "+err.Error(), "")
		}
	}
	x.add(api.LevelNote, "teams_disabled", "", files[0], "agent teams are not enabled in this environment or in the settings",
		`set `+teams.EnableVariable+`=1, or add "env": {"`+teams.EnableVariable+`": "1"} to the settings, as teambridge setup does; and start Claude Code again`)
}

// tools reports whether the programs in $PATH have the MCP server of teambridge, which "teambridge setup" installs.
func (x *examination) tools() {
	if _, err := x.lookPath("claude"); err == nil {
		settings := stophook.Files(x.Root.Path(), "")[0]
		program := plugin.Program(x.State, x.Root.Path())
		if on := stophook.PluginEnabled(x.Root.Path(), x.Dir); on && gone(program) {
			x.add(api.LevelProblem, "plugin_gone", "", settings, "the plugin runs a program that is gone, "+program+": sessions of Claude Code have neither the tools nor the hooks", "teambridge setup plugin; or remove it: teambridge setup plugin --undo")
		} else if on {
			x.add(api.LevelOK, "tools", "", settings, "sessions of Claude Code have the tools and the hooks: the plugin is enabled", "")
		} else {
			x.add(api.LevelNote, "no_tools", "", settings, "the plugin is not enabled, which gives each session of Claude Code the tools and the hooks", "teambridge setup installs it, if you agree")
		}
	}
	homes := pane.HomesOf(x.LookupEnv)
	for _, p := range []struct{ program, name, home, file, entry string }{ // as their commands "mcp add" write it
		{"codex", "Codex", homes.Codex, "config.toml", "[mcp_servers.teambridge]"},
		{"qwen", "Qwen Code", homes.Qwen, "settings.json", `"teambridge": {`},
	} {
		if _, err := x.lookPath(p.program); err != nil || p.home == "" {
			continue
		}
		config := filepath.Join(p.home, p.file)
		if data, _ := sharedfile.ReadFile(config); bytes.Contains(data, []byte(p.entry)) {
			x.add(api.LevelOK, "tools", "", config, "sessions of "+p.name+" have the tools", "")
		} else {
			x.add(api.LevelNote, "no_tools", "", config, "sessions of "+p.name+" have no tools to write to others", "teambridge setup adds them, if you agree")
		}
	}
}
