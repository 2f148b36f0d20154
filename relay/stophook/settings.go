package stophook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"teambridge/teams/rawjson"
	"teambridge/teams/sharedfile"
)

// Files returns the paths of the settings files that apply in a directory: the user's, in the
// Claude directory, and those of the project. Without a directory, the user's alone.
func Files(claudeDir, dir string) []string {
	files := []string{filepath.Join(claudeDir, "settings.json")}
	if dir != "" {
		files = append(files, filepath.Join(dir, ".claude", "settings.json"), filepath.Join(dir, ".claude", "settings.local.json"))
	}
	return files
}

// Plugin is the name of our plugin in settings files, which has all our hooks.
const Plugin = "teambridge@teambridge"

// Installed reports whether one of the settings files that apply in a directory has our Stop hook, or our plugin.
func Installed(claudeDir, dir string) bool { return installed(claudeDir, dir, stop) }

// Waiting reports whether one of the settings files that apply in a directory has the waiting hook, or our plugin.
func Waiting(claudeDir, dir string) bool { return installed(claudeDir, dir, waiting[0]) }

func installed(claudeDir, dir string, h hook) bool {
	for _, path := range Files(claudeDir, dir) {
		if len(programs(path, h)) > 0 {
			return true
		}
	}
	return PluginEnabled(claudeDir, dir)
}

// PluginEnabled reports whether our plugin is on by the settings files that apply in a directory, of which the last one that names it says so.
func PluginEnabled(claudeDir, dir string) (on bool) {
	for _, path := range Files(claudeDir, dir) {
		var s struct {
			EnabledPlugins map[string]any `json:"enabledPlugins"`
		}
		if data, err := sharedfile.ReadFile(path); err != nil || json.Unmarshal(data, &s) != nil {
			continue
		}
		if v, ok := s.EnabledPlugins[Plugin]; ok {
			on = v == true
		}
	}
	return on
}

// Programs returns the program of each of our hooks in a settings file. One that cannot be
// read has none.
func Programs(path string) []string { return programs(path, all...) }

func programs(path string, of ...hook) (programs []string) {
	data, err := sharedfile.ReadFile(path)
	if err != nil {
		return nil
	}
	own, _ := os.Executable() // else the hook is known by its name
	for _, h := range of {
		s, err := parse(data, own, h)
		if err != nil {
			return nil
		}
		for _, f := range s.hooks() {
			program, _ := h.programOf(f.command, own)
			programs = append(programs, program)
		}
	}
	return programs
}

// In a settings file, hooks are objects in lists of lists, by event:
//
//	{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "…"}]}]}}
const (
	hooksKey   = "hooks"
	commandKey = "command"
)

// settings is the content of a settings file, and where in it the hooks of one kind are.
type settings struct {
	hook
	data   []byte
	own    string         // this program
	whole  rawjson.Span   // the object that it is
	events *rawjson.Field // of whole; nil: none
	list   *rawjson.Field // of events, for the event; nil: none
}

// parse finds the hooks in a settings file. What is not as expected is an error.
func parse(data []byte, own string, h hook) (*settings, error) {
	const space = " \t\r\n"
	s := &settings{hook: h, data: data, own: own,
		whole: rawjson.Span{Start: len(data) - len(bytes.TrimLeft(data, space)), End: len(bytes.TrimRight(data, space))}}
	if s.whole.Start > s.whole.End {
		return nil, invalid("the file is empty")
	}
	var err error
	if s.events, err = s.member(s.whole, hooksKey, "", '{'); err != nil || s.events == nil {
		return s, err
	}
	s.list, err = s.member(s.events.Value, h.event, hooksKey+".", '[')
	return s, err
}

// FormatError means that a settings file is not as expected, so that it is not changed.
type FormatError struct{ Err error }

func (e *FormatError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *FormatError) Unwrap() error { return e.Err }

func invalid(format string, args ...any) error {
	return &FormatError{fmt.Errorf(format, args...)}
}

// member returns the member of the object at in that has a name; nil if it has none.
func (s *settings) member(in rawjson.Span, name, path string, kind byte) (*rawjson.Field, error) {
	fields, err := rawjson.Fields(in.Of(s.data))
	if err != nil {
		return nil, invalid("%w", err)
	}
	var found *rawjson.Field
	for i, f := range fields {
		if f.Name != name {
			continue
		}
		if found != nil {
			return nil, invalid("%s%s is in it twice", path, name)
		}
		found = &fields[i]
		found.Key, found.Value = f.Key.Within(in), f.Value.Within(in)
		if rawjson.Kind(found.Value.Of(s.data)) != kind {
			return nil, invalid("%s%s is not %s", path, name, map[byte]string{'{': "an object", '[': "an array"}[kind])
		}
	}
	return found, nil
}

// foundHook is one hook of ours.
type foundHook struct {
	entry, at int          // its entry in the array, and its place in that
	list      rawjson.Span // the hooks of the entry
	others    int          // other hooks in the list
	bare      bool         // the entry has nothing but the list
	command   string
	value     rawjson.Span // of the command
}

// hooks returns the hooks that run teambridge. What has another form belongs to others.
func (s *settings) hooks() (found []foundHook) {
	if s.list == nil {
		return nil
	}
	entries, _ := rawjson.Elements(s.list.Value.Of(s.data))
	for i, e := range entries {
		e = e.Within(s.list.Value)
		fields, err := rawjson.Fields(e.Of(s.data))
		if err != nil {
			continue
		}
		for _, f := range fields {
			list := f.Value.Within(e)
			hooks, err := rawjson.Elements(list.Of(s.data))
			if f.Name != hooksKey || err != nil {
				continue
			}
			for n, h := range hooks {
				h = h.Within(list)
				fields2, err := rawjson.Fields(h.Of(s.data))
				if err != nil {
					continue
				}
				for _, f := range fields2 {
					value := f.Value.Within(h)
					command, err := rawjson.Text(value.Of(s.data))
					if f.Name != commandKey || err != nil {
						continue
					}
					if _, ok := s.programOf(command, s.own); ok {
						found = append(found, foundHook{i, n, list, len(hooks) - 1, len(fields) == 1, command, value})
					}
				}
			}
		}
	}
	return found
}
