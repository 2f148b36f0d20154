//go:build unix

package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/teams"
	"teambridge/teams/rawjson"
)

// Whatever the settings are, undoing the steps in any order restores their bytes, or the steps change nothing.
func TestSettingsAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text    string
		refused bool
	}{
		"usual":               {settingsBefore, false},
		"CRLF":                {"{\r\n  \"model\": \"opus\"\r\n}\r\n", false},
		"CRLF and hooks":      {"{\r\n\t\"hooks\": {\r\n\t\t\"Stop\": []\r\n\t}\r\n}", false},
		"no final newline":    {"{\n  \"env\": {\n    \"A\": \"b\"\n  }\n}", false},
		"duplicate keys":      {`{"a": 1, "a": 2, "model": "opus"}` + "\n", false},
		"no UTF-8":            {"{\"name\": \"caf\xe9\"}\n", false},
		"a surrogate":         {`{"name": "\ud800", "n": 1e3, "z": -0.0}`, false},
		"empty objects":       {`{"env": { }, "hooks" : {"Stop":[ ]} }`, false},
		"hooks of others":     {`{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}`, false},
		"no object":           {`[]`, true},
		"nothing":             {``, true},
		"cut off":             {`{"env": {`, true},
		"comments":            {"{\n  // mine\n  \"model\": \"opus\"\n}\n", true},
		"a comma too many":    {`{"model": "opus",}`, true},
		"duplicate objects":   {`{"env": {}, "env": {}, "hooks": {}, "hooks": {}}`, true},
		"a byte order mark":   {"\xef\xbb\xbf{\"model\": \"opus\"}\n", true},
		"other kinds":         {`{"env": 1, "hooks": 2}`, true},
		"two texts":           {`{} {}`, true},
		"hooks that are none": {`{"env": [], "hooks": {"Stop": {}}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			for _, mode := range []os.FileMode{0o600, 0o440} {
				for _, order := range [][]string{{Teams, Hooks}, {Hooks, Teams}} {
					must(t, os.WriteFile(m.settings(), []byte(c.text), 0o600))
					must(t, os.Chmod(m.settings(), mode))
					m.does(m.Look(t.Context(), Teams, Hooks), order[0])
					m.does(m.Look(t.Context(), Teams, Hooks), order[1])
					text := m.read(m.settings())
					if c.refused != (text == c.text) || !c.refused && (!strings.Contains(text, teams.EnableVariable) || !strings.Contains(text, "hook stop")) {
						t.Errorf("it is %q", text)
					}
					for _, step := range []string{Teams, Hooks} { // in the order in which they were done, and in the other one
						made, err := m.Made(t.Context(), step)
						if err != nil || (len(made) == 0) != c.refused {
							t.Fatalf("%s: made %q, %v", step, states(made), err)
						}
						m.does(made)
					}
					if text := m.read(m.settings()); text != c.text {
						t.Errorf("undone, it is %q, and was %q", text, c.text)
					}
					if info, err := os.Stat(m.settings()); err != nil || info.Mode().Perm() != mode {
						t.Errorf("its mode is %v (%v), and was %v", info.Mode(), err, mode)
					}
					if _, err := os.Stat(m.dir()); !os.IsNotExist(err) {
						t.Errorf("the folder of setup is left: %v", err)
					}
					must(t, os.Remove(m.settings()))
				}
			}
		})
	}
}

// A file that setup has made is removed with the last step that uses it, whichever that is.
func TestFileThatWasMade(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{Plugin, Teams, Hooks}, {Hooks, Plugin, Teams}, {Teams, Hooks, Plugin}} {
		m := newMachine(t)
		must(t, os.Remove(m.settings()))
		before := m.files()
		m.does(m.Look(t.Context(), Plugin, Teams, Hooks))
		for _, step := range order {
			made, err := m.Made(t.Context(), step)
			if err != nil || len(made) != 1 {
				t.Fatalf("%s: made %q, %v", step, states(made), err)
			}
			m.does(made)
		}
		m.as(before)
	}
}

// A change by another program between reading and writing is not overwritten, and the step leaves no file.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const theirs = `{"theirs": true}`
	st := m.Look(t.Context(), Teams)[0]
	change := func(data []byte, was []rawjson.Made) ([]byte, []rawjson.Made, error) {
		m.write(m.settings(), theirs)
		return addVariable(data, was)
	}
	if err := m.add(st, m.settings(), false, change); err == nil || !strings.Contains(err.Error(), "another program has just changed ") || st.Changed {
		t.Errorf("the error is %v; changed %t", err, st.Changed)
	}
	if text := m.read(m.settings()); text != theirs {
		t.Errorf("it is %s", text)
	}
	if _, err := os.Stat(m.dir()); !os.IsNotExist(err) {
		t.Errorf("the folder of setup is left: %v", err)
	}
	m.does(m.Look(t.Context(), Teams))
	st = m.made()[0]
	err := m.take(st, m.settings(), edit(func(data []byte, was []rawjson.Made) ([]byte, error) {
		m.write(m.settings(), theirs)
		return removeVariable(data, was)
	}))
	if err != nil { // unchanged by others, so no entry had to be removed
		t.Fatal(err)
	}
	m.does(m.Look(t.Context(), Teams))
	m.write(m.settings(), m.read(m.settings())+"\n")
	with := m.read(m.settings())
	err = m.take(m.made()[0], m.settings(), edit(func(data []byte, was []rawjson.Made) ([]byte, error) {
		m.write(m.settings(), with+"\n")
		return removeVariable(data, was)
	}))
	if text := m.read(m.settings()); err == nil || text != with+"\n" || len(m.made()) != 1 {
		t.Errorf("it is %q (%v); %q is to be undone", text, err, states(m.made()))
	}
	m.stand(m.does(m.made()), "teams:missing")
	if text := m.read(m.settings()); text != theirs+"\n\n" {
		t.Errorf("undone, it is %q", text)
	}
}

// An editor may put a file in place of the link. Then our entries are removed from both files.
func TestLinkReplaced(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	real := filepath.Join(m.State, "dotfiles.json")
	m.write(real, settingsBefore)
	link := func() {
		must(t, os.Remove(m.settings()))
		must(t, os.Symlink(real, m.settings()))
	}
	link()
	m.does(m.Look(t.Context(), Teams, Hooks))
	text := m.read(real)
	must(t, os.Remove(m.settings()))
	m.write(m.settings(), text)
	m.does(m.made())
	for _, path := range []string{real, m.settings()} {
		if text := m.read(path); text != settingsBefore {
			t.Errorf("%s is %q", path, text)
		}
	}
	// The link may also lead to another file when setup is run again.
	link()
	m.does(m.Look(t.Context(), Teams))
	another := filepath.Join(m.State, "another.json")
	m.write(another, `{"another": 1}`)
	must(t, errors.Join(os.Remove(m.settings()), os.Symlink(another, m.settings())))
	m.stand(m.does(m.Look(t.Context(), Teams)), "teams:done")
	m.does(m.made())
	if text := m.read(another); text != `{"another": 1}` || m.read(real) != settingsBefore {
		t.Errorf("the files are %s and %s", text, m.read(real))
	}
	if _, err := os.Stat(m.dir()); !os.IsNotExist(err) {
		t.Errorf("the folder of setup is left: %v", err)
	}
	link()
	m.does(m.Look(t.Context(), Teams))
	m.does(m.made())
	if to, err := os.Readlink(m.settings()); err != nil || to != real || m.read(real) != settingsBefore {
		t.Errorf("the link leads to %q (%v), with %q", to, err, m.read(real))
	}
	// Or the file is moved, and replaced by a link to it.
	must(t, os.Rename(real, m.settings()))
	m.does(m.Look(t.Context(), Plugin, Teams, Hooks))
	must(t, errors.Join(os.Rename(m.settings(), real), os.Symlink(real, m.settings())))
	m.does(m.made())
	to, err := os.Readlink(m.settings())
	if text := m.read(real); err != nil || to != real || strings.Contains(text, teams.EnableVariable) || strings.Contains(text, "hook stop") {
		t.Errorf("the link leads to %q (%v), with %q", to, err, text)
	}
}

// If two directories share one settings file, both have the hooks, until the last of them is undone.
func TestSharedHooks(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	other := *m.Setup
	o := &machine{&other, t}
	o.Root = filepath.Join(filepath.Dir(m.Root), "work")
	must(t, os.Mkdir(o.Root, 0o700))
	must(t, os.Symlink(m.settings(), o.settings()))
	for _, order := range [][]*machine{{m, o}, {o, m}} {
		for _, one := range order {
			one.does(one.Look(t.Context(), Teams, Hooks))
		}
		order[0].does(order[0].made())
		if text := m.read(m.settings()); !strings.Contains(text, "hook stop") || !strings.Contains(text, teams.EnableVariable) {
			t.Errorf("when it was undone, the settings of the other are %s", text)
		}
		order[1].does(order[1].made())
		if to, err := os.Readlink(o.settings()); err != nil || to != m.settings() || m.read(m.settings()) != settingsBefore {
			t.Errorf("the link leads to %q (%v), with %q", to, err, m.read(m.settings()))
		}
	}
}

// The hooks do not name a Claude directory, since they have the environment of the session. The tools of other
// programs do not have it, and name one.
func TestDirectoryOfTheSession(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.Named = true
	m.does(m.Look(t.Context(), Plugin, Hooks, Tools))
	for path, text := range m.files() {
		if named := strings.Contains(text, "--claude-dir"); named && (path == m.settings() || strings.HasPrefix(path, filepath.Join(m.State, "plugins"))) || !named && path == m.config() {
			t.Errorf("%s names a directory: %t: %s", path, named, text)
		}
	}
}
