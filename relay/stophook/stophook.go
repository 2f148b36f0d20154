// Package stophook reads and writes the hooks of teambridge in settings files of Claude
// Code: the Stop hook, which reports the end of each turn of an agent in a terminal, and the waiting hook, which hands
// over messages: see package wake.
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

// hook is one of ours in the settings: for one event, and with one of our commands.
type hook struct {
	event string
	verb  string // of "teambridge hook VERB"
	guard string // the end of the command
	async bool
	// timeout is after how many seconds Claude Code ends the hook.
	timeout int
}

// stop takes a second at most. A Stop hook that exits with 2 keeps the agent from stopping, and an older teambridge
// would, as it knows no hooks.
var stop = hook{event: "Stop", verb: "stop", guard: " || exit 1", timeout: 5}

// waiting are the events that begin to wait: those after which a session is idle, and UserPromptSubmit, without which a
// second message would wait for the end of the turn with the first.
//
// The model is woken up by the status 2, which the shell alone returns: an older teambridge would end with it
// at each event, and wake the model again and again.
var waiting = func() (list []hook) {
	const most = 20 * 24 * 60 * 60 // in milliseconds it must fit 31 bits
	for _, event := range []string{"SessionStart", "UserPromptSubmit", "Stop"} {
		list = append(list, hook{event: event, verb: "wait", guard: fmt.Sprintf(` --pid "$PPID" || [ $? -ne %d ] || exit 2`, WakeStatus), async: true, timeout: most})
	}
	return list
}()

// WakeStatus is the exit status with which "teambridge hook wait" wakes the model.
const WakeStatus = 42

// all are our hooks, in the order in which they are installed.
var all = append([]hook{stop}, waiting...)

// Commands are the commands of our hooks.
type Commands struct {
	Stop string
	Wait string // "": the waiting hook is left as it is
}

// Unasked is the flag of the waiting hook for sessions that have a socket, too.
const Unasked = "--unasked"

// CommandsOf returns the commands of hooks that run program with flags: --state-dir or
// --claude-dir, each followed by its value, and [Unasked].
func CommandsOf(program string, flags ...string) Commands {
	others := slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == Unasked })
	return Commands{Stop: stop.command(program, others), Wait: waiting[0].command(program, flags)}
}

func (h hook) command(program string, flags []string) string {
	words := []string{shell.Quote(program), "hook", h.verb}
	for _, f := range flags {
		words = append(words, shell.Quote(f))
	}
	return strings.Join(words, " ") + h.guard
}

// ours matches our commands, and in them the program. Words are quoted by [shell.Quote]. A
// command that does more is somebody else's.
var ours = sync.OnceValue(func() map[string]*regexp.Regexp {
	byVerb := map[string]*regexp.Regexp{}
	for _, h := range all[:2] {
		byVerb[h.verb] = regexp.MustCompile(strings.ReplaceAll(`^(WORD) hook `+h.verb+`(?: --(?:state|claude)-dir WORD| `+Unasked+`)*(?:`+regexp.QuoteMeta(h.guard)+`)?$`,
			"WORD", `(?:'(?:[^']|'\\'')+'|[0-9A-Za-z@%+=:,./_-]+)`))
	}
	return byVerb
})

// programOf returns the program of a command of ours: teambridge, wherever it is, or the
// program own.
func (h hook) programOf(command, own string) (program string, known bool) {
	m := ours()[h.verb].FindStringSubmatch(command)
	if m == nil {
		return "", false
	}
	program = m[1]
	if in, ok := strings.CutPrefix(program, "'"); ok {
		program = strings.ReplaceAll(strings.TrimSuffix(in, "'"), `'\''`, "'")
	}
	base := strings.TrimSuffix(filepath.Base(program), ".exe")
	return program, base == "teambridge" || own != "" && shell.Same(program, own)
}

// made is what [File.Install] added to a settings file besides the hooks, and is removed with
// them. Without it, an empty object of the user's could not be told from one of ours.
type made struct {
	Directory bool   `json:"directory,omitempty"`
	File      bool   `json:"file,omitempty"`
	part             // with the Stop hook
	Wait      []part `json:"wait,omitempty"` // with each of the waiting ones

	Users []string `json:"users,omitempty"` // the paths of the file under which the hook was installed
}

// part is what was added with one hook.
type part struct {
	Hooks bool   `json:"hooks,omitempty"` // the object of all events
	Stop  bool   `json:"stop,omitempty"`  // the array of this event
	Blank string `json:"blank,omitempty"` // the white space in what was empty before
}

// of returns what was added with the hook all[i]. If it is not known, the array was.
func (m *made) of(i int) part {
	switch {
	case i == 0:
		return m.part
	case len(m.Wait) == 0:
		return part{Stop: true}
	}
	return m.Wait[i-1]
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
func (h hook) install(data []byte, own, command string, was part) (_ []byte, m part, err error) {
	s, err := parse(data, own, h)
	if err != nil {
		return nil, m, err
	}
	if found := s.hooks(); len(found) > 0 {
		if slices.ContainsFunc(found, func(f foundHook) bool { return f.command == command }) {
			return data, was, nil
		}
		text, err := encoded(command)
		return slices.Concat(data[:found[0].value.Start], text, data[found[0].value.End:]), was, err
	}
	entry := h.entry(command)
	blank := func(in rawjson.Span) string {
		inside := string(data[in.Start+1 : in.End-1])
		if strings.Trim(inside, " \t\r\n") != "" {
			return ""
		}
		return inside
	}
	var value []byte
	switch {
	case s.list != nil:
		if value, err = encoded(entry); err == nil {
			m.Blank = blank(s.list.Value)
			data, err = rawjson.AddElement(data, s.list.Value, value)
		}
	case s.events != nil:
		m.Stop = true
		if value, err = encoded([]any{entry}); err == nil {
			m.Blank = blank(s.events.Value)
			data, err = rawjson.AddField(data, s.events.Value, h.event, value)
		}
	default:
		m.Stop, m.Hooks = true, true
		if value, err = encoded(map[string]any{h.event: []any{entry}}); err == nil {
			m.Blank = blank(s.whole)
			data, err = rawjson.AddField(data, s.whole, hooksKey, value)
		}
	}
	return data, m, err
}

// object is a hook as Claude Code reads it.
type object struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Async   bool   `json:"asyncRewake,omitempty"`
	Timeout int    `json:"timeout"`
}

// entry is an element of the list of an event, with the hook alone.
func (h hook) entry(command string) map[string][]object {
	return map[string][]object{hooksKey: {{"command", command, h.async, h.timeout}}}
}

// InPlugin is the hooks/hooks.json of a plugin whose hooks run program with flags, and do nothing if it is gone.
func InPlugin(program string, flags ...string) ([]byte, error) {
	events := map[string][]map[string][]object{}
	for _, h := range all {
		command := "command -v " + shell.Quote(program) + " >/dev/null || exit 0; " + h.command(program, flags)
		events[h.event] = append(events[h.event], h.entry(command))
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(map[string]any{hooksKey: events})
	return buf.Bytes(), err
}

// uninstall returns the content without our hooks and what was made for them, and whether
// nothing is left of it.
func (h hook) uninstall(data []byte, own string, m part) (_ []byte, empty bool, err error) {
	for {
		s, err := parse(data, own, h)
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
func (s *settings) remove(h foundHook, m part) ([]byte, error) {
	if h.others > 0 || !h.bare {
		return rawjson.RemoveItem(s.data, h.list, h.at, "")
	}
	entries, err := rawjson.Elements(s.list.Value.Of(s.data))
	if err != nil {
		return nil, err
	}
	if len(entries) > 1 || !m.Stop {
		return rawjson.RemoveItem(s.data, s.list.Value, h.entry, m.Blank)
	}
	in, name := s.events.Value, s.event
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

// installAll is install for the hooks of all commands.
func installAll(data []byte, own string, commands Commands, was made) ([]byte, made, error) {
	m := was
	if s, err := parse(data, own, stop); err == nil && len(s.hooks()) == 0 {
		m = made{}
	}
	var err error
	if data, m.part, err = stop.install(data, own, commands.Stop, was.part); err != nil || commands.Wait == "" {
		return data, m, err
	}
	parts := make([]part, len(waiting))
	for i, h := range waiting {
		if data, parts[i], err = h.install(data, own, commands.Wait, m.of(1+i)); err != nil {
			return nil, was, err
		}
	}
	m.Wait = parts
	return data, m, nil
}

// uninstallAll is uninstall for all our hooks, the last one first.
func uninstallAll(data []byte, own string, m made) (_ []byte, empty bool, err error) {
	for i, h := range slices.Backward(all) {
		if data, empty, err = h.uninstall(data, own, m.of(i)); err != nil {
			return nil, false, err
		}
	}
	return data, empty, nil
}
