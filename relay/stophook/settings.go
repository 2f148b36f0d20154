package stophook

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"

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

// Plugin is the name of our plugin in settings files. The plugin contains all our hooks.
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

// PluginEnabled reports whether our plugin is enabled in a directory. The last settings file that names it
// decides.
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

// DoneFile is the file in the state directory that records the changes made by setup.
func DoneFile(state string) string { return filepath.Join(state, "setup", "done.json") }

// Recorded returns the settings files to which setup has added our hooks.
func Recorded(state string) (files []string) {
	var done struct {
		Steps []struct {
			Step  string
			Files map[string]string
		}
	}
	if data, err := sharedfile.ReadFile(DoneFile(state)); err != nil || json.Unmarshal(data, &done) != nil {
		return nil
	}
	for _, r := range done.Steps {
		if r.Step == Step {
			files = slices.AppendSeq(files, maps.Keys(r.Files))
		}
	}
	return files
}

// Step is the setup step that adds the hooks.
const Step = "hooks"

// Programs returns the programs of our hooks in a settings file; none if it cannot be read.
func Programs(path string) []string { return programs(path, all...) }

func programs(path string, of ...hook) (programs []string) {
	data, err := sharedfile.ReadFile(path)
	if err != nil {
		return nil
	}
	own, _ := os.Executable() // without it, the hook is recognized by name only
	for _, h := range of {
		found, err := h.in(data, own)
		if err != nil {
			return nil
		}
		for _, f := range found {
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

// foundHook is one of our hooks in a settings file.
type foundHook struct {
	entry, at int          // the index of its entry, and its index in the entry
	list      rawjson.Span // the hooks of the entry
	others    int          // other hooks in the list
	bare      bool         // the entry contains only the list
	command   string
	value     rawjson.Span // of the command
}

// in returns our hooks in the content of a settings file. Entries of any other form belong to others.
func (h hook) in(data []byte, own string) (found []foundHook, err error) {
	path := h.path()
	spans, err := rawjson.FollowToArray(data, path...)
	if err != nil || len(spans) <= len(path) {
		return nil, err
	}
	whole := spans[len(path)]
	entries, _ := rawjson.Elements(whole.Of(data))
	for i, e := range entries {
		e = e.Within(whole)
		at, err := rawjson.FollowToArray(e.Of(data), hooksKey)
		if err != nil || len(at) < 2 {
			continue
		}
		fields, _ := rawjson.Fields(e.Of(data))
		list := at[1].Within(e)
		hooks, _ := rawjson.Elements(list.Of(data))
		for n, one := range hooks {
			one = one.Within(list)
			at, err := rawjson.Follow(one.Of(data), commandKey)
			if err != nil || len(at) < 2 {
				continue
			}
			value := at[1].Within(one)
			command, err := rawjson.Text(value.Of(data))
			if err != nil {
				continue
			}
			if _, ok := h.programOf(command, own); ok {
				found = append(found, foundHook{i, n, list, len(hooks) - 1, len(fields) == 1, command, value})
			}
		}
	}
	return found, nil
}
