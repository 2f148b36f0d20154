package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/fleet"
	"teambridge/relay/opencode"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
)

// checked is the level of what is as it should be.
const checked = "ok"

// environment reports what was found around the teams: versions of Claude Code, the switch
// for teams, the service and the databases.
func (x *examination) environment(ctx context.Context, root *teams.Root, listings []teams.Listing) error {
	x.claudeCode(ctx, root, listings)
	if path, err := x.app.lookPath(fleet.OpenCode); err == nil {
		x.openCode(path)
	}
	x.teamsEnabled(root)
	x.service(ctx, root)
	return x.databases(ctx, root)
}

// claudeCode reports the versions that are installed, and that agents run.
func (x *examination) claudeCode(ctx context.Context, root *teams.Root, listings []teams.Listing) {
	found := map[teams.Version][]string{}
	add := func(v teams.Version, where string) {
		if v.Known() {
			found[v] = append(found[v], where)
		}
	}
	if path, err := x.app.lookPath("claude"); err != nil {
		x.add(notice, "no_claude_code", "", "", "there is no claude in $PATH", `install Claude Code, or give "teambridge run" the path of one`)
	} else if v := installedVersion(path, "@anthropic-ai/claude-code"); v.Known() {
		add(v, path)
	} else {
		x.add(checked, "claude_code", "", path, "Claude Code of an unknown version", "claude --version tells it")
	}
	for _, l := range listings {
		if l.Orphan || l.Err != nil {
			continue
		}
		t, err := root.Team(l.Name)
		if err != nil {
			continue // the examination of the team says it
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
		x.add(checked, "claude_code", "", strings.Join(where, ", "), "Claude Code "+v.String(), knownOf(v))
	}
}

// knownOf says what is known of a version.
func knownOf(v teams.Version) string {
	var yes, no, unsure []string
	for _, t := range []teams.Trait{
		teams.TeamAtStart, teams.RemovesTaken, teams.MarksFirst, teams.RefusesUser, teams.HeadlessDeaf, teams.Lifecycle, teams.LeadProcessWritten,
	} {
		switch v.Has(t) {
		case teams.Yes:
			yes = append(yes, string(t))
		case teams.No:
			no = append(no, string(t))
		default:
			unsure = append(unsure, string(t))
		}
	}
	var parts []string
	for _, p := range []struct {
		is     string
		traits []string
	}{{"it ", yes}, {"not yet: ", no}, {"not measured: ", unsure}} {
		if len(p.traits) > 0 {
			parts = append(parts, p.is+strings.Join(p.traits, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// openCode reports the version of an OpenCode, and whether its agents can be relayed to.
func (x *examination) openCode(path string) {
	v := installedVersion(path, "opencode-")
	switch {
	case !v.Known():
		x.add(checked, "opencode", "", path, "OpenCode of an unknown version", "opencode --version tells it; run needs 1.18 or newer")
	case v.Compare(teams.Version{Major: 1, Minor: 18}) < 0:
		x.add(notice, "old_opencode", "", path, "OpenCode "+v.String()+" cannot be an agent", "install 1.18 or newer with: npm install -g opencode-ai")
	case opencode.Passed(x.app.state, v.String()):
		x.add(checked, "opencode", "", path, "OpenCode "+v.String(), "it has what agents need")
	default:
		x.add(checked, "opencode", "", path, "OpenCode "+v.String(), "whether it has what agents need is checked when the first one starts")
	}
}

// openCodeRelays reports agents of the service whose OpenCode is not installed.
func (x *examination) openCodeRelays(ctx context.Context, l *ledger.Ledger, root *teams.Root) error {
	list, err := l.Relays(ctx, root.Path())
	for _, r := range list {
		if r.Runtime != fleet.OpenCode || r.URL != "" {
			continue
		}
		program := append(r.Command, fleet.OpenCode)[0]
		find := x.app.lookPath
		if filepath.Base(program) != program {
			find = exec.LookPath
			if !filepath.IsAbs(program) {
				program = filepath.Join(r.Dir, program)
			}
		}
		if _, err := find(program); err != nil {
			x.add(problem, "no_opencode", r.Team, program, "the OpenCode of "+r.Member+"@"+r.Team+" is not installed",
				"npm install -g opencode-ai; the service needs it in its $PATH, or add the relay again with the command of one")
		}
	}
	return err
}

// installedVersion returns the version of the program at path, which is not run: an
// installer puts it into the name of the file, and npm into a package.json next to it,
// of a package whose name begins with prefix.
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
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// lookPath finds a program in $PATH.
func (a *app) lookPath(name string) (string, error) {
	path, _ := a.lookup("PATH")
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return found, nil
			}
		}
	}
	return "", exec.ErrNotFound
}

// teamsSwitch is the variable without which Claude Code makes no teams.
const teamsSwitch = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"

// teamsEnabled reports whether Claude Code makes teams when it is started here.
func (x *examination) teamsEnabled(root *teams.Root) {
	on := func(value string) bool {
		return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(strings.TrimSpace(value)))
	}
	if value, _ := x.app.lookup(teamsSwitch); on(value) {
		x.add(checked, "teams_enabled", "", "", "agent teams are enabled: "+teamsSwitch+" is set", "")
		return
	}
	settings := filepath.Join(root.Path(), "settings.json")
	paths := []string{settings}
	if cwd, err := x.app.cwd(); err == nil {
		paths = append(paths, filepath.Join(cwd, ".claude", "settings.json"), filepath.Join(cwd, ".claude", "settings.local.json"))
	}
	for _, path := range paths {
		var s struct{ Env map[string]any }
		err := readJSON(path, &s)
		switch {
		case err == nil && on(fmt.Sprint(s.Env[teamsSwitch])):
			x.add(checked, "teams_enabled", "", path, "agent teams are enabled: "+teamsSwitch+" is in the settings", "")
			return
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			x.add(notice, "settings", "", path, "the settings cannot be read: "+err.Error(), "")
		}
	}
	x.add(notice, "teams_disabled", "", settings, "agent teams are not enabled in this environment or in the settings",
		`set `+teamsSwitch+`=1, or add "env": {"`+teamsSwitch+`": "1"} to the settings, and start Claude Code again`)
}

// service reports whether the service runs and answers.
func (x *examination) service(ctx context.Context, root *teams.Root) {
	const start = "start it with: teambridge serve; or have systemd do it: teambridge service install"
	c, err := client.Find(x.app.state, root.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.add(notice, "no_service", "", "", "no service runs: messages of others are recorded only while a command such as watch runs", start)
		return
	case err != nil:
		x.add(problem, "service", "", "", view.Describe(err), "restart it with this teambridge")
		return
	}
	defer c.Close()
	card, strayed := x.app.strayed(root)
	if len(strayed) > 0 {
		x.add(problem, "service_files", "", x.app.state, wasWere(strayed)+" moved away or replaced while the service ran: what it records is not in the history here, and what it sent can be sent twice",
			fmt.Sprintf("end process %d; move the files that it has back, each with its -wal, unless you can do without what is in them; then %s", card.PID, start))
		return
	}
	asking, done := x.app.present(ctx, c)
	defer done()
	if err := c.Health(asking); err != nil {
		x.add(problem, "service", "", c.Where(), view.Describe(err), fmt.Sprintf("end process %d, and %s", card.PID, start))
		return
	}
	x.add(checked, "service", "", strings.Join(card.Listen, ", "), fmt.Sprintf("the service runs and records: process %d", card.PID), "")
}

// databases reports the size of the databases, and since when messages are recorded.
func (x *examination) databases(ctx context.Context, root *teams.Root) error {
	size := func(name string) (path, text string, there bool) {
		path = filepath.Join(x.app.state, name)
		var bytes int64
		for _, suffix := range []string{"", "-wal"} {
			if info, err := os.Stat(path + suffix); err == nil {
				bytes += info.Size()
				there = true
			}
		}
		return path, fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)), there
	}
	if path, text, there := size("ledger.db"); there {
		x.add(checked, "ledger_size", "", path, "the ledger has "+text, "")
	}
	path, text, there := size("journal.db")
	if !there {
		x.add(notice, "no_journal", "", path, "nothing is recorded yet", `"teambridge watch" and the service record messages`)
		return nil
	}
	j, err := x.app.journal(ctx)
	if ctx.Err() != nil {
		return err
	}
	since := "no messages have been recorded"
	if err == nil {
		for m, merr := range j.Messages(ctx, journal.Query{Root: root.Path(), Limit: 1}) {
			if err = merr; err == nil {
				since = "messages have been recorded since " + clock(m.FirstSeen)
			}
		}
	}
	switch {
	case errors.Is(err, journal.ErrBusy):
		x.add(notice, "journal", "", path, view.Describe(err), "look again later")
		return nil
	case err != nil:
		x.add(problem, "journal", "", path, view.Describe(err), x.goesOn(root, err, "messages can be sent, but what others write is not recorded, and there is no history"))
		return nil
	}
	x.add(checked, "journal_size", "", path, since+"; the journal has "+text, "teambridge gc deletes old ones")
	return nil
}
