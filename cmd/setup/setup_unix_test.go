//go:build unix

package setup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"teambridge/relay/qwen"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// machine is a machine whose programs are scripts.
type machine struct {
	*Setup
	t *testing.T
}

// The original settings and configuration of a user.
const (
	settingsBefore = "{\"model\": \"opus\",\n\n\t\"env\" : {\"X\":\"y\" }}"
	configBefore   = "# mine\nmodel = \"x\"   # kept\n"
)

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	m := &machine{&Setup{
		Root: filepath.Join(dir, "claude"), Codex: filepath.Join(dir, "codex"), Qwen: filepath.Join(dir, "qwen"), State: filepath.Join(dir, "state"), Path: filepath.Join(dir, "bin"),
		Program: "/it's here/teambridge", Flags: []string{"--state-dir", "/x y"},
	}, t}
	m.write(m.settings(), settingsBefore)
	m.write(m.config(), configBefore)
	// It rewrites the settings, and leaves an empty object in them.
	m.write(filepath.Join(m.Path, "claude"), `#!/bin/sh
cd '`+m.Root+`' || exit
edit() { [ ! -e settings.json ] || { sed "$1" settings.json >new && cat new >settings.json && rm new; }; }
[ ! -e broken ] || { echo "it is broken" >&2; exit 3; }
case "$*" in
"plugin list --json") if [ -e version ]; then printf '[{"id":"teambridge@teambridge","version":"%s","enabled":true}]' "$(cat version)"; else echo '[]'; fi ;;
"plugin marketplace list --json") if [ -e market ]; then printf '[{"name":"teambridge","path":"%s"}]' "$(cat market)"; else echo '[]'; fi ;;
"plugin marketplace add "*) printf %s "$4" >market ;;
"plugin marketplace remove teambridge") rm market ;;
"plugin install teambridge@teambridge" | "plugin update teambridge@teambridge")
	[ ! -e full ] || { echo "no space is left" >&2; exit 1; }
	sed -n 's/.*"version": "\(.*\)".*/\1/p' "$(cat market)/teambridge/.claude-plugin/plugin.json" >version
	edit '1s/^{/{"enabledPlugins":{"teambridge@teambridge":true},/' ;;
"plugin uninstall teambridge@teambridge") rm version; edit '1s/"teambridge@teambridge":true//' ;;
"plugin marketplace update teambridge") ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
`)
	// Its entries are comments. It adds a comment when it writes.
	m.write(filepath.Join(m.Path, "codex"), `#!/bin/sh
cd '`+m.Codex+`' || exit
[ ! -e broken ] || { echo "it is broken" >&2; exit 3; }
case "$*" in
"mcp list --json") printf '[{"name":"other","enabled":true,"transport":{"type":"stdio","command":"true","args":[]}}'; sed -n 's/^#teambridge/,/p' config.toml; echo ']' ;;
"mcp add teambridge -- "*)
	[ ! -e lazy ] || exit 0
	[ ! -e full ] || { printf 'WARNING: it is late\nError: no space is left\n' >&2; exit 1; }
	shift 4
	command=$1 args=
	shift
	for a; do args="$args,\"$a\""; done
	printf '# written by codex\n#teambridge{"name":"teambridge","enabled":true,"transport":{"type":"stdio","command":"%s","args":[%s]}}\n' "$command" "${args#,}" >>config.toml ;;
"mcp remove teambridge") grep -v '^#teambridge' config.toml >new; mv new config.toml ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
`)
	return m
}

func (m *machine) config() string { return filepath.Join(m.Codex, agents[Codex].config) }

func (m *machine) write(path, text string) {
	m.t.Helper()
	must(m.t, os.MkdirAll(filepath.Dir(path), 0o700))
	standin.WriteProgram(m.t, path, text)
}

func (m *machine) read(path string) string {
	m.t.Helper()
	data, err := os.ReadFile(path)
	must(m.t, err)
	return string(data)
}

// states returns a list of steps as text, such as "plugin:done".
func states(list []*Step) (all []string) {
	for _, st := range list {
		all = append(all, st.Name+":"+string(st.State))
	}
	return all
}

// stand checks the states of the steps.
func (m *machine) stand(list []*Step, want ...string) {
	m.t.Helper()
	if got := states(list); !slices.Equal(got, want) {
		for _, st := range list {
			m.t.Logf("%+v", *st)
		}
		m.t.Fatalf("the steps are %q, want %q", got, want)
	}
}

// does carries out the plans of the steps, or only those of the named steps, and returns all steps.
func (m *machine) does(list []*Step, names ...string) []*Step {
	m.t.Helper()
	for _, st := range list {
		if st.Plan != "" && (len(names) == 0 || slices.Contains(names, st.Name)) {
			m.Do(m.t.Context(), st)
		}
	}
	return list
}

func (m *machine) made() []*Step {
	m.t.Helper()
	list, err := m.Made(m.t.Context())
	must(m.t, err)
	return list
}

// changed checks which steps have changed something.
func (m *machine) changed(list []*Step, want ...string) {
	m.t.Helper()
	var got []string
	for _, st := range list {
		if st.Changed {
			got = append(got, st.Name)
		}
	}
	if !slices.Equal(got, want) {
		m.t.Errorf("%q has changed, want %q", got, want)
	}
}

// files returns the text of all files of the machine except locks.
func (m *machine) files() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(filepath.Dir(m.State), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Base(filepath.Dir(path)) != "locks" {
			all[path] = m.read(path)
		}
		return err
	}); err != nil {
		m.t.Fatal(err)
	}
	return all
}

// as checks that all files are as they were.
func (m *machine) as(before map[string]string) {
	m.t.Helper()
	now := m.files()
	for path, text := range before {
		if now[path] != text {
			m.t.Errorf("%s is %q, and was %q", path, now[path], text)
		}
	}
	for path, text := range now {
		if _, ok := before[path]; !ok {
			m.t.Errorf("%s is left: %s", path, text)
		}
	}
}

// Neither looking nor a second setup changes anything, and undo in any order restores every byte.
func TestSetUpAndUndo(t *testing.T) {
	t.Parallel()
	for kind, order := range map[string][]string{"usual": {Plugin, Teams, Tools}, "fresh": {Teams, Tools, Plugin}, "latin": {Teams, Plugin, Tools}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			fresh := kind == "fresh"
			if kind == "latin" { // a text that is no UTF-8, which Claude Code accepts
				m.write(m.settings(), strings.Replace(settingsBefore, "opus", "caf\xe9", 1))
			}
			if fresh {
				for _, path := range []string{m.settings(), m.config()} {
					must(t, os.Remove(path))
				}
			}
			before := m.files()
			m.stand(m.Look(t.Context()), "plugin:missing", "teams:missing", "tools:missing")
			m.as(before)
			for _, name := range order {
				m.changed(m.does(m.Look(t.Context()), name), name)
			}
			if text := m.read(m.settings()); !strings.Contains(text, `"`+teams.EnableVariable+`"`) {
				t.Errorf("the settings are %s", text)
			}
			done := m.files()
			list := m.does(m.Look(t.Context()))
			m.stand(list, "plugin:done", "teams:done", "tools:done")
			m.changed(list)
			m.as(done)
			if copies, _ := filepath.Glob(filepath.Join(m.dir(), "*-"+agents[Codex].config)); fresh != (len(copies) == 0) || !fresh && m.read(copies[0]) != configBefore {
				t.Errorf("the copies are %q", copies)
			}
			slices.Reverse(order)
			made := m.made()
			if got := []string{made[0].Name, made[1].Name, made[2].Name}; !slices.Equal(got, order) {
				t.Errorf("it is undone in the order %q, want %q", got, order)
			}
			m.changed(m.does(made), order...)
			m.stand(made, order[0]+":missing", order[1]+":missing", order[2]+":missing")
			m.as(before)
			if left := m.made(); len(left) > 0 {
				t.Errorf("left to undo: %q", states(left))
			}
		})
	}
}

// Two setups that have looked at the same time do each step once.
func TestSetUpTwice(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	before := m.files()
	one, two := m.Look(t.Context()), m.Look(t.Context())
	m.changed(m.does(one), Plugin, Teams, Tools)
	done := m.files()
	m.stand(m.does(two), "plugin:done", "teams:done", "tools:done")
	m.changed(two)
	m.as(done)
	m.does(m.made())
	m.as(before)
}

// Later changes by others stay, and only our entries are removed.
func TestChangedSince(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.does(m.Look(t.Context()), Teams, Tools)
	m.write(m.settings(), strings.Replace(m.read(m.settings()), "opus", "sonnet", 1))
	m.write(m.config(), m.read(m.config())+"# theirs\n")
	m.changed(m.does(m.made()), Tools, Teams)
	if got, want := m.read(m.settings()), strings.Replace(settingsBefore, "opus", "sonnet", 1); got != want {
		t.Errorf("the settings are %q, want %q", got, want)
	}
	if got, want := m.read(m.config()), configBefore+"# written by codex\n# theirs\n"; got != want {
		t.Errorf("the configuration is %q, want %q", got, want)
	}
}

// Changes by others before a step was repeated stay, too, even if the file has not changed since.
func TestDoneAgain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.does(m.Look(t.Context(), Teams, Tools))
	const theirs = "# theirs\n" + configBefore
	m.write(m.config(), theirs)
	m.write(m.settings(), `{"theirs": 1}`)
	m.changed(m.does(m.Look(t.Context(), Teams, Tools)), Teams, Tools)
	m.changed(m.does(m.made()), Tools, Teams)
	if got, want := m.read(m.config()), theirs+"# written by codex\n"; got != want {
		t.Errorf("the configuration is %q, want %q", got, want)
	}
	if got := m.read(m.settings()); got != `{"theirs": 1}` {
		t.Errorf("the settings are %q", got)
	}
}

// A change that existed before setup counts as done, and is not undone. A change that another program made in its own
// way is not touched.
func TestThereBefore(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	another := *m.Setup
	another.Program, another.Flags = "/another/teambridge", nil
	m.stand((&machine{&another, t}).does(another.Look(t.Context(), Plugin)), "plugin:done")
	if err := os.Remove(m.doneFile()); err != nil { // so it is not recorded by this setup
		t.Fatal(err)
	}
	m.write(m.settings(), `{"env": {"`+teams.EnableVariable+`": "true"}}`)
	m.write(m.config(), `#teambridge{"name":"teambridge","enabled":true,"transport":{"command":"/another/teambridge","args":["mcp"]}}`)
	list := m.Look(t.Context())
	m.stand(list, "plugin:missing", "teams:done", "tools:other")
	if st := list[2]; st.Plan != "" || !strings.Contains(st.Detail, "runs /another/teambridge mcp") {
		t.Errorf("the tools: %+v", st)
	}
	m.stand(m.does(list), "plugin:done", "teams:done", "tools:other") // the plugin is updated
	before := m.files()
	if made := m.does(m.made()); len(made) > 0 {
		t.Errorf("undone: %q", states(made))
	}
	m.as(before)

	m.write(m.settings(), `{"env": {"`+teams.EnableVariable+`": "0"}}`)
	m.write(m.config(), `#teambridge{"name":"teambridge","enabled":false,"transport":{"command":"/it's here/teambridge","args":["mcp","--state-dir","/x y"]}}`)
	m.write(filepath.Join(m.Root, "market"), "/elsewhere")
	before = m.files()
	m.stand(m.does(m.Look(t.Context())), "plugin:other", "teams:other", "tools:other")
	m.as(before)
}

// An entry of Codex that another program has replaced since stays.
func TestReplacedSince(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.does(m.Look(t.Context()), Teams, Tools)
	m.write(m.settings(), strings.Replace(m.read(m.settings()), `"1"`, `"0"`, 1))
	m.write(m.config(), strings.Replace(m.read(m.config()), "it's here", "opt", 1))
	before := []string{m.read(m.settings()), m.read(m.config())}
	made := m.does(m.made())
	m.stand(made, "tools:other", "teams:other")
	m.changed(made)
	if now := []string{m.read(m.settings()), m.read(m.config())}; !slices.Equal(now, before) {
		t.Errorf("it is %q, and was %q", now, before)
	}
}

// A step that fails reports the reason, changes nothing, and does not prevent other steps.
func TestStepFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken func(m *machine)
		want   []string
		detail string
	}{
		"claude":       {func(m *machine) { m.write(filepath.Join(m.Root, "broken"), "") }, []string{"plugin:failed", "teams:done", "tools:done"}, "exit status 3: it is broken"},
		"codex":        {func(m *machine) { m.write(filepath.Join(m.Codex, "broken"), "") }, []string{"plugin:done", "teams:done", "tools:failed"}, "codex mcp list --json: exit status 3: it is broken"},
		"add":          {func(m *machine) { m.write(filepath.Join(m.Codex, "full"), "") }, []string{"plugin:done", "teams:done", "tools:failed"}, ": exit status 1: no space is left"},
		"nothing":      {func(m *machine) { m.write(filepath.Join(m.Codex, "lazy"), "") }, []string{"plugin:done", "teams:done", "tools:failed"}, "it was done, but Codex has no MCP server called teambridge"},
		"install":      {func(m *machine) { m.write(filepath.Join(m.Root, "full"), "") }, []string{"plugin:failed", "teams:done", "tools:done"}, "claude plugin install teambridge@teambridge: exit status 1: no space is left"},
		"no directory": {func(m *machine) { m.Codex = "" }, []string{"plugin:done", "teams:done", "tools:failed"}, "set $HOME or $CODEX_HOME"},
		"settings":     {func(m *machine) { m.write(m.settings(), "{\"env\": 1,\n}") }, []string{"plugin:failed", "teams:failed", "tools:done"}, "repair the file by hand"},
		"a pipe": {func(m *machine) {
			must(m.t, os.Remove(m.settings()))
			must(m.t, syscall.Mkfifo(m.settings(), 0o600))
			m.write(filepath.Join(m.Root, "broken"), "") // it would otherwise wait for the pipe
		}, []string{"plugin:failed", "teams:failed", "tools:done"}, "is not a regular file"},
		"a link": {func(m *machine) {
			must(m.t, os.Remove(m.settings()))
			must(m.t, os.Symlink("nowhere", m.settings()))
			m.write(filepath.Join(m.Root, "broken"), "")
		}, []string{"plugin:failed", "teams:failed", "tools:done"}, "is a symbolic link that leads nowhere; put a file in its place"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			c.broken(m)
			list := m.Look(t.Context())
			m.stand(m.does(list), c.want...)
			found := false
			for _, st := range list {
				found = found || st.State == Failed && strings.Contains(st.Detail, c.detail)
				if st.State == Failed && st.Changed {
					t.Errorf("%s has changed something", st.Name)
				}
			}
			if !found {
				t.Errorf("no step says %q", c.detail)
			}
			if left, _ := filepath.Glob(filepath.Join(m.State, "plugins", "*")); (len(left) > 0) != slices.Contains(c.want, "plugin:done") {
				t.Errorf("in the folder of plugins: %q", left)
			}
			for _, st := range m.made() {
				if slices.Contains(c.want, st.Name+":failed") {
					t.Errorf("%s is to be undone", st.Name)
				}
			}
		})
	}
}

// A step is undone without its program if the file has not changed since. Otherwise it can be undone later.
func TestUndoWithoutPrograms(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.does(m.Look(t.Context()))
	path := m.Path
	m.Path = ""
	m.stand(m.Look(t.Context()))
	made := m.does(m.made())
	m.stand(made, "tools:missing", "teams:missing", "plugin:failed")
	if !strings.Contains(made[2].Detail, "claude is not in $PATH") {
		t.Errorf("the plugin: %s", made[2].Detail)
	}
	m.Path = path
	m.stand(m.does(m.made()), "plugin:missing")
	if now := m.read(m.settings()); now != settingsBefore {
		t.Errorf("the settings are %s", now)
	}
}

// If setup is killed between a record and the change, nothing is undone that was not done.
func TestKilledBeforeTheChange(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	before := m.files()
	all, err := m.records()
	must(t, err)
	for _, r := range []record{
		{Step: Plugin, Target: m.Root, Files: map[string]string{m.settings(): m.settings()}},
		{Step: Teams, Target: m.Root, Files: map[string]string{m.settings(): m.settings()}},
		{Step: Hooks, Target: m.Root, Files: map[string]string{m.settings(): m.settings()}},
		{Step: Tools, Target: m.Codex, Files: map[string]string{m.config(): m.config()}, Command: m.command()},
	} {
		must(t, errors.Join(m.begin(all, r), m.Setup.write(all)))
	}
	m.stand(m.Look(t.Context()), "plugin:missing", "teams:missing", "tools:missing")
	made := m.does(m.made())
	m.stand(made, "tools:missing", "hooks:missing", "teams:missing", "plugin:missing")
	m.changed(made)
	m.as(before)
}

// A link to the settings stays a link, and a directory that was made for them is removed.
func TestPlaceOfTheSettings(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	real := filepath.Join(m.State, "dotfiles.json")
	m.write(real, settingsBefore)
	must(t, os.Remove(m.settings()))
	must(t, os.Symlink(real, m.settings()))
	m.does(m.Look(t.Context()), Teams)
	if text := m.read(real); !strings.Contains(text, teams.EnableVariable) {
		t.Errorf("the file that the link leads to is %s", text)
	}
	m.does(m.made())
	if to, err := os.Readlink(m.settings()); err != nil || to != real || m.read(real) != settingsBefore {
		t.Errorf("the link leads to %q (%v), with %s", to, err, m.read(real))
	}

	other := *m.Setup
	other.Root = filepath.Join(filepath.Dir(m.Root), "none")
	st := other.Look(t.Context(), Teams)[0]
	other.Do(t.Context(), st)
	if data, err := os.ReadFile(other.settings()); st.State != Done || err != nil || !bytes.Contains(data, []byte(teams.EnableVariable)) {
		t.Fatalf("%+v: %s (%v)", st, data, err)
	}
	if made := m.made(); len(made) > 0 {
		t.Errorf("what was done in another directory is to be undone: %q", states(made))
	}
	made, err := other.Made(t.Context())
	if err != nil || len(made) != 1 {
		t.Fatalf("%q, %v", states(made), err)
	}
	other.Do(t.Context(), made[0])
	if _, err := os.Stat(other.Root); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v; %+v", err, made[0])
	}
}

// Two directories can share their settings by a link. The undo of one leaves the entry for the other.
func TestSharedSettings(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"the file", "the link"} {
		m := newMachine(t)
		setup := *m.Setup
		o := &machine{&setup, t}
		o.Root = filepath.Join(filepath.Dir(m.Root), "work")
		must(t, os.Mkdir(o.Root, 0o700))
		must(t, os.Symlink(m.settings(), o.settings()))
		a, b := m, o
		if first == "the link" {
			a, b = o, m
		}
		a.does(a.Look(t.Context()), Teams)
		b.does(b.Look(t.Context()), Teams)
		for _, one := range []*machine{a, b} {
			for _, st := range one.Look(t.Context()) {
				if st.Name == Teams && st.State != Done {
					t.Errorf("%s first: the step is %+v", first, st)
				}
			}
		}
		a.does(a.made())
		if text := m.read(m.settings()); !strings.Contains(text, teams.EnableVariable) {
			t.Errorf("%s first: when it was undone, the settings of the other are %s", first, text)
		}
		b.does(b.made())
		if to, err := os.Readlink(o.settings()); err != nil || to != m.settings() || m.read(m.settings()) != settingsBefore {
			t.Errorf("%s first: the link leads to %q (%v), with %s", first, to, err, m.read(m.settings()))
		}
		if len(a.made())+len(b.made()) > 0 {
			t.Errorf("%s first: something is left to undo", first)
		}
	}
}

// qwen installs a script in place of Qwen Code.
func (m *machine) qwen() {
	m.t.Helper()
	m.write(filepath.Join(m.Path, "qwen"), `#!/bin/sh
cd '`+m.Qwen+`' || exit
case "$*" in
"mcp add --scope user teambridge "*)
	shift 5
	command=$1 args=
	shift
	for a; do args="$args,\"$a\""; done
	printf '{"mine":1,"mcpServers":{"teambridge":{"command":"%s","args":[%s]}}}' "$command" "${args#,}" >settings.json ;;
"mcp remove --scope user teambridge") printf '{"mine":1,"mcpServers":{},"$version":4}' >settings.json ;;
"sessions controllers add --label teambridge")
	[ ! -e full ] || { echo "no space is left" >&2; exit 1; }
	printf '{"controllers":[{"id":"c_4f226c69"}]}' >peer-controllers.json
	printf 'Controller "teambridge" added (c_4f226c69).\n\nToken:\n  qpc_`+strings.Repeat("0a", 32)+`\n' ;;
"sessions controllers remove c_4f226c69") printf '{"controllers":[]}' >peer-controllers.json ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
`)
}

// Qwen Code rewrites its settings at each start, so the undo can only remove our entry from them.
func TestQwenHasTheTools(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	settings := filepath.Join(m.Qwen, "settings.json")
	const before = "{\"mine\": 1}\n"
	m.write(settings, before)
	m.qwen()
	step := func() *Step {
		t.Helper()
		list := m.Look(t.Context())
		st := list[len(list)-2]
		if st.Program != Qwen || st.Name != Tools {
			t.Fatalf("the last step is %+v", st)
		}
		return st
	}
	undo := func() *Step {
		t.Helper()
		made, err := m.Made(t.Context())
		if err != nil || len(made) != 1 || made[0].Program != Qwen {
			t.Fatalf("done is %+v, %v", made, err)
		}
		m.Do(t.Context(), made[0])
		return made[0]
	}
	for _, started := range []bool{false, true} {
		st := step()
		if st.State != Missing || !strings.Contains(st.Plan, "qwen mcp add --scope user teambridge '/it'") || !strings.Contains(st.Plan, "without asking you") {
			t.Fatalf("before: %+v", st)
		}
		if m.Do(t.Context(), st); st.State != Done || !st.Changed {
			t.Fatalf("done: %+v", st)
		}
		want := before
		if started {
			m.write(settings, strings.Replace(m.read(settings), "{", `{"$version":4,`, 1))
			want = `{"mine":1,"mcpServers":{},"$version":4}`
		}
		if st := undo(); st.State != Missing || !st.Changed || m.read(settings) != want {
			t.Errorf("undone: %+v, %s", st, m.read(settings))
		}
		m.write(settings, before)
	}
	for text, want := range map[string]State{
		"":           Missing,
		"{} // mine": Failed,
		`{"mcpServers":{"teambridge":{"command":"x"}}}`:        Other,
		`{"mcpServers":{"teambridge":{"httpUrl":"http://x"}}}`: Other,
		`{"mcpServers":{"teambridge":{"command":"` + m.Program + `","args":["mcp","--state-dir","/x y"]}},"mcp":{"excluded":["teambridge"]}}`: Other,
		`{"mcpServers":{"teambridge":{"command":"` + m.Program + `","args":["mcp","--state-dir","/x y"]}}}`:                                   Done,
	} {
		m.write(settings, text)
		if st := step(); st.State != want || m.read(settings) != text {
			t.Errorf("%s: %+v", text, st)
		}
	}
}

// Only a controller that the person has approved, and has not revoked, is used.
func TestControllerOfQwen(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write(filepath.Join(m.Qwen, "settings.json"), "{}")
	m.qwen()
	step := func() *Step {
		list := m.Look(t.Context())
		st := list[len(list)-1]
		if st.Program != Qwen || st.Name != Rights || !st.Grants {
			t.Fatalf("the last step is %+v", st)
		}
		return st
	}
	m.write(filepath.Join(m.Qwen, "full"), "")
	st := step()
	if m.Do(t.Context(), st); st.State != Failed || st.Changed || !strings.Contains(st.Detail, "no space is left") {
		t.Errorf("without space: %+v", st)
	}
	must(t, os.Remove(filepath.Join(m.Qwen, "full")))
	for _, revoked := range []bool{false, true} {
		if st = step(); st.State != Missing {
			t.Fatalf("before: %+v", st)
		}
		if m.Do(t.Context(), st); st.State != Done || !st.Changed {
			t.Fatalf("done: %+v", st)
		}
		if c, ok := qwen.ControllerOf(m.State, m.Qwen); !ok || c.Token != "qpc_"+strings.Repeat("0a", 32) {
			t.Errorf("the controller is %+v, %t", c, ok)
		}
		if _, ok := qwen.ControllerOf(m.State, filepath.Join(m.Qwen, "other")); ok {
			t.Error("it is one in another directory, too")
		}
		if revoked {
			m.write(qwen.ControllersFile(m.Qwen), `{"controllers":[]}`)
			if st = step(); st.State != Missing {
				t.Errorf("revoked: %+v", st)
			}
		}
		made, err := m.Made(t.Context())
		if err != nil || len(made) != 1 || made[0].Grants || !strings.Contains(made[0].Plan, "c_4f226c69") {
			t.Fatalf("done is %+v, %v", made, err)
		}
		if m.Do(t.Context(), made[0]); made[0].State != Missing || !made[0].Changed {
			t.Errorf("undone: %+v", made[0])
		}
		if got := m.read(qwen.ControllersFile(m.Qwen)); got != `{"controllers":[]}` {
			t.Errorf("the controllers are %s", got)
		}
		if left, err := os.ReadDir(filepath.Join(m.State, "qwen")); err != nil || len(left) != 0 {
			t.Errorf("left is %v, %v", left, err)
		}
	}
}
