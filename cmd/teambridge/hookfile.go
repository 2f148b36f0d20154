package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"teambridge/status/api"
	"teambridge/teams/rawjson"
)

// In a settings file, hooks are objects in lists of lists, by event:
//
//	{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "…"}]}]}}
const (
	hooksKey   = "hooks"
	stopEvent  = "Stop"
	commandKey = "command"
)

// hookTimeout is how many seconds Claude Code waits for the hook. It takes one at most.
const hookTimeout = 5

// made is what was added to a settings file besides the hook itself, and is removed with
// it. Without it, an empty object of the user's could not be told from one of ours.
type made struct {
	Directory bool   `json:"directory,omitempty"`
	File      bool   `json:"file,omitempty"`
	Hooks     bool   `json:"hooks,omitempty"` // the object of all events
	Stop      bool   `json:"stop,omitempty"`  // the array of this event
	Blank     string `json:"blank,omitempty"` // the white space in what was empty before
}

// hookCommand matches our command, and in it the program. Words are quoted by shellQuote. A
// command that does more is somebody else's.
var hookCommand = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(`^(WORD) hook stop(?: --(?:state|claude)-dir WORD)*(?: \|\| exit 1)?$`,
		"WORD", `(?:'(?:[^']|'\\'')+'|[0-9A-Za-z@%+=:,./_-]+)`))
})

// hookProgram returns the program of a command of ours: teambridge, wherever it is, or the
// program own.
func hookProgram(command, own string) (program string, ours bool) {
	m := hookCommand().FindStringSubmatch(command)
	if m == nil {
		return "", false
	}
	program = m[1]
	if in, ok := strings.CutPrefix(program, "'"); ok {
		program = strings.ReplaceAll(strings.TrimSuffix(in, "'"), `'\''`, "'")
	}
	base := strings.TrimSuffix(filepath.Base(program), ".exe")
	return program, base == "teambridge" || program == own
}

// settings is the content of a settings file, and where in it the hooks are.
type settings struct {
	data  []byte
	own   string         // this program
	whole rawjson.Span   // the object that it is
	hooks *rawjson.Field // of whole; nil: none
	stop  *rawjson.Field // of hooks; nil: none
}

// parseSettings finds the hooks in a settings file. What is not as expected is an error.
func parseSettings(data []byte, own string) (*settings, error) {
	const space = " \t\r\n"
	s := &settings{data: data, own: own,
		whole: rawjson.Span{Start: len(data) - len(bytes.TrimLeft(data, space)), End: len(bytes.TrimRight(data, space))}}
	if s.whole.Start > s.whole.End {
		return nil, notSettings("the file is empty")
	}
	var err error
	if s.hooks, err = s.member(s.whole, hooksKey, "", '{'); err != nil || s.hooks == nil {
		return s, err
	}
	s.stop, err = s.member(s.hooks.Value, stopEvent, hooksKey+".", '[')
	return s, err
}

// notSettings is the error for a file that is not changed, because it is not what is
// expected.
func notSettings(format string, args ...any) error {
	return api.Decide(api.CodeCorrupt, "nothing was changed; repair the file by hand, or choose another with --file", format, args...)
}

// member returns the member of the object at in that has a name; nil if it has none.
func (s *settings) member(in rawjson.Span, name, path string, kind byte) (*rawjson.Field, error) {
	fields, err := rawjson.Fields(in.Of(s.data))
	if err != nil {
		return nil, notSettings("%w", err)
	}
	var found *rawjson.Field
	for i, f := range fields {
		if f.Name != name {
			continue
		}
		if found != nil {
			return nil, notSettings("%s%s is in it twice", path, name)
		}
		found = &fields[i]
		found.Key, found.Value = f.Key.Within(in), f.Value.Within(in)
		if rawjson.Kind(found.Value.Of(s.data)) != kind {
			return nil, notSettings("%s%s is not %s", path, name, map[byte]string{'{': "an object", '[': "an array"}[kind])
		}
	}
	return found, nil
}

// stopHook is one hook of ours.
type stopHook struct {
	entry, at int          // its entry in the array, and its place in that
	list      rawjson.Span // the hooks of the entry
	others    int          // other hooks in the list
	bare      bool         // the entry has nothing but the list
	command   string
	value     rawjson.Span // of the command
}

// ours returns the hooks that run teambridge. What has another form belongs to others.
func (s *settings) ours() (found []stopHook) {
	if s.stop == nil {
		return nil
	}
	entries, _ := rawjson.Elements(s.stop.Value.Of(s.data))
	for i, e := range entries {
		e = e.Within(s.stop.Value)
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
					if _, ok := hookProgram(command, s.own); ok {
						found = append(found, stopHook{i, n, list, len(hooks) - 1, len(fields) == 1, command, value})
					}
				}
			}
		}
	}
	return found
}

// installHook returns the content of a settings file with a hook that runs command. was is
// what an earlier call made. An unchanged result has the bytes of data.
func installHook(data []byte, own, command string, was made) (_ []byte, m made, err error) {
	s, err := parseSettings(data, own)
	if err != nil {
		return nil, m, err
	}
	if found := s.ours(); len(found) > 0 {
		if slices.ContainsFunc(found, func(h stopHook) bool { return h.command == command }) {
			return data, was, nil
		}
		text, err := encoded(command)
		return slices.Concat(data[:found[0].value.Start], text, data[found[0].value.End:]), was, err
	}
	type hook struct {
		Type    string `json:"type"`
		Command string `json:"command"`
		Timeout int    `json:"timeout"`
	}
	entry := map[string][]hook{hooksKey: {{"command", command, hookTimeout}}}
	blank := func(in rawjson.Span) string {
		inside := string(data[in.Start+1 : in.End-1])
		if strings.Trim(inside, " \t\r\n") != "" {
			return ""
		}
		return inside
	}
	var value []byte
	switch {
	case s.stop != nil:
		if value, err = encoded(entry); err == nil {
			m.Blank = blank(s.stop.Value)
			data, err = rawjson.AddElement(data, s.stop.Value, value)
		}
	case s.hooks != nil:
		m.Stop = true
		if value, err = encoded([]any{entry}); err == nil {
			m.Blank = blank(s.hooks.Value)
			data, err = rawjson.AddField(data, s.hooks.Value, stopEvent, value)
		}
	default:
		m.Stop, m.Hooks = true, true
		if value, err = encoded(map[string]any{stopEvent: []any{entry}}); err == nil {
			m.Blank = blank(s.whole)
			data, err = rawjson.AddField(data, s.whole, hooksKey, value)
		}
	}
	return data, m, err
}

// uninstallHook returns the content without our hooks and what was made for them, and
// whether nothing is left of it.
func uninstallHook(data []byte, own string, m made) (_ []byte, empty bool, err error) {
	for {
		s, err := parseSettings(data, own)
		if err != nil {
			return nil, false, err
		}
		found := s.ours()
		if len(found) == 0 {
			return data, len(bytes.TrimSpace(s.whole.Of(data))) == 2, nil
		}
		if data, err = s.remove(found[0], m); err != nil {
			return nil, false, err
		}
	}
}

// remove returns the content without h, and without what is empty then.
func (s *settings) remove(h stopHook, m made) ([]byte, error) {
	if h.others > 0 || !h.bare {
		return rawjson.RemoveItem(s.data, h.list, h.at, "")
	}
	entries, err := rawjson.Elements(s.stop.Value.Of(s.data))
	if err != nil {
		return nil, err
	}
	if len(entries) > 1 || !m.Stop {
		return rawjson.RemoveItem(s.data, s.stop.Value, h.entry, m.Blank)
	}
	in, name := s.hooks.Value, stopEvent
	events, err := rawjson.Fields(in.Of(s.data))
	if err != nil {
		return nil, err
	}
	if len(events) == 1 && m.Hooks {
		in, name = s.whole, hooksKey
		if events, err = rawjson.Fields(in.Of(s.data)); err != nil {
			return nil, err
		}
	}
	i := slices.IndexFunc(events, func(f rawjson.Field) bool { return f.Name == name })
	return rawjson.RemoveItem(s.data, in, i, m.Blank)
}

// encoded is v as compact JSON.
func encoded(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the hook: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
