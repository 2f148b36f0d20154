// Package stophook reads and writes the Stop hook of teambridge in settings files of Claude
// Code. The hook reports the end of each turn of an agent in a terminal.
//
// A settings file belongs to the user. All that is in it stays as it is, byte for byte, and a
// file that is not as expected is not changed: see [FormatError].
package stophook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"teambridge/relay/shell"
	"teambridge/teams/rawjson"
)

// timeout is how many seconds Claude Code waits for the hook. It takes one at most.
const timeout = 5

// guard is the end of the command. A Stop hook that exits with 2 keeps the agent from
// stopping, and an older teambridge would, as it knows no hooks.
const guard = " || exit 1"

// Command returns the command of a hook that runs program with flags: --state-dir or
// --claude-dir, each followed by its value.
func Command(program string, flags ...string) string {
	words := []string{shell.Quote(program), "hook", "stop"}
	for _, f := range flags {
		words = append(words, shell.Quote(f))
	}
	return strings.Join(words, " ") + guard
}

// ours matches our command, and in it the program. Words are quoted by [shell.Quote]. A
// command that does more is somebody else's.
var ours = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(`^(WORD) hook stop(?: --(?:state|claude)-dir WORD)*(?: \|\| exit 1)?$`,
		"WORD", `(?:'(?:[^']|'\\'')+'|[0-9A-Za-z@%+=:,./_-]+)`))
})

// programOf returns the program of a command of ours: teambridge, wherever it is, or the
// program own.
func programOf(command, own string) (program string, known bool) {
	m := ours().FindStringSubmatch(command)
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

// made is what [File.Install] added to a settings file besides the hook itself, and is removed with
// it. Without it, an empty object of the user's could not be told from one of ours.
type made struct {
	Directory bool   `json:"directory,omitempty"`
	File      bool   `json:"file,omitempty"`
	Hooks     bool   `json:"hooks,omitempty"` // the object of all events
	Stop      bool   `json:"stop,omitempty"`  // the array of this event
	Blank     string `json:"blank,omitempty"` // the white space in what was empty before
}

// record is what teambridge keeps, in its state directory, of a settings file that has its
// hook.
type record struct {
	File string `json:"file"`
	Made made   `json:"made"`
}

// recordPath returns the path of the record of a settings file.
func recordPath(state, file string) string {
	sum := sha256.Sum256([]byte(file))
	return filepath.Join(state, "hooks", hex.EncodeToString(sum[:8])+".json")
}

// readRecord reads a record. The error is [fs.ErrNotExist] if there is none.
func readRecord(path string) (r record, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// Recorded returns the settings files of which there is a record.
func Recorded(state string) (files []string) {
	paths, _ := filepath.Glob(filepath.Join(state, "hooks", "*.json"))
	for _, path := range paths {
		if r, err := readRecord(path); err == nil {
			files = append(files, r.File)
		}
	}
	return files
}

// install returns the content of a settings file with a hook that runs command. was is
// what an earlier call made. own is the program that asks: a hook that runs it is one of ours,
// whatever its name. An unchanged result has the bytes of data.
func install(data []byte, own, command string, was made) (_ []byte, m made, err error) {
	s, err := parse(data, own)
	if err != nil {
		return nil, m, err
	}
	if found := s.hooks(); len(found) > 0 {
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
	entry := map[string][]hook{hooksKey: {{"command", command, timeout}}}
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
	case s.events != nil:
		m.Stop = true
		if value, err = encoded([]any{entry}); err == nil {
			m.Blank = blank(s.events.Value)
			data, err = rawjson.AddField(data, s.events.Value, stopEvent, value)
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

// uninstall returns the content without our hooks and what was made for them, and whether
// nothing is left of it.
func uninstall(data []byte, own string, m made) (_ []byte, empty bool, err error) {
	for {
		s, err := parse(data, own)
		if err != nil {
			return nil, false, err
		}
		found := s.hooks()
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
	in, name := s.events.Value, stopEvent
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
