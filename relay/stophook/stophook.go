// Package stophook finds, adds and removes the hooks of teambridge in the text of a settings file of Claude Code: the
// Stop hook, which reports the end of each turn of an agent in a terminal; the waiting hook, which hands over
// messages (see package wake); and the permission hook, through which a person can answer dialogs from elsewhere (see
// package dialog). "teambridge setup" reads and writes the files.
//
// A settings file belongs to the user. Everything else in it stays the same, byte for byte, and a file of
// unexpected form is an error.
package stophook

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"teambridge/relay/shell"
	"teambridge/teams/rawjson"
)

// hook is one of our hooks in the settings: one command for one event.
type hook struct {
	event string
	verb  string // of "teambridge hook VERB"
	guard string // the end of the command, which maps its exit status
	async bool
	// timeout is the number of seconds after which Claude Code ends the hook.
	timeout int
}

// stop takes a second at most. A Stop hook that exits with 2 keeps the agent from stopping, and that is how
// an older teambridge, which knows no hooks, exits.
var stop = hook{event: "Stop", verb: "stop", guard: " || exit 1", timeout: 5}

// waiting are the hooks that wait for messages. They run after the events that leave a session idle, and at
// UserPromptSubmit, without which a second message would wait for the end of the first one's turn.
//
// Exit status 2 wakes the model. Only the shell returns it: an older teambridge exits with 2 at every event,
// and would wake the model again and again.
var waiting = func() (list []hook) {
	const most = 20 * 24 * 60 * 60 // in milliseconds it must fit 31 bits
	for _, event := range []string{"SessionStart", "UserPromptSubmit", "Stop"} {
		list = append(list, hook{event: event, verb: "wait", guard: fmt.Sprintf(` --pid "$PPID" || [ $? -ne %d ] || exit 2`, WakeStatus), async: true, timeout: most})
	}
	return list
}()

// WakeStatus is the exit status with which "teambridge hook wait" wakes the model.
const WakeStatus = 42

// permit waits for a person's answer to a dialog: see package dialog. Status 2 would be no answer, either.
var permit = hook{event: "PermissionRequest", verb: "permit", guard: ` --pid "$PPID" || exit 1`, timeout: 24 * 60 * 60}

// all are our hooks, in the order in which they are installed.
var all = append(append([]hook{stop}, waiting...), permit)

// Unasked is the flag of the waiting hook for sessions that also have a socket.
const Unasked = "--unasked"

// command returns the command of a hook that runs program with flags: --state-dir with its value, and
// [Unasked], which only the waiting hook gets.
func (h hook) command(program string, flags []string) string {
	words := []string{shell.Quote(program), "hook", h.verb}
	for _, f := range flags {
		if f == Unasked && h.verb != waiting[0].verb {
			continue
		}
		words = append(words, shell.Quote(f))
	}
	return strings.Join(words, " ") + h.guard
}

// ours matches our commands and captures the program. Words are quoted by [shell.Quote]. A command with anything more
// is not ours.
var ours = sync.OnceValue(func() map[string]*regexp.Regexp {
	byVerb := map[string]*regexp.Regexp{}
	for _, h := range []hook{stop, waiting[0], permit} {
		byVerb[h.verb] = regexp.MustCompile(strings.ReplaceAll(`^(WORD) hook `+h.verb+`(?: --(?:state|claude)-dir WORD| `+Unasked+`)*(?:`+regexp.QuoteMeta(h.guard)+`)?$`,
			"WORD", `(?:'(?:[^']|'\\'')+'|[0-9A-Za-z@%+=:,./_-]+)`))
	}
	return byVerb
})

// programOf returns the program of a command of ours: a teambridge in any directory, or the program own.
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

// path returns the path of the event's hooks in a settings file.
func (h hook) path() []string { return []string{hooksKey, h.event} }

// Add returns the content of a settings file with our hooks, which run program with flags, and a record of
// what was added for each. was is the record of an earlier call. wait includes the waiting hooks. A hook that
// runs own is one of ours, whatever its name.
func Add(data []byte, own, program string, flags []string, wait bool, was []rawjson.Made) (_ []byte, made []rawjson.Made, err error) {
	for i, h := range all {
		if h.verb != stop.verb && !wait {
			break
		}
		m := h.made(i, was)
		found, err := h.in(data, own)
		if err != nil {
			return nil, nil, err
		}
		command := h.command(program, flags)
		if len(found) == 0 {
			entry, err := rawjson.Encode(h.entry(command))
			if err != nil {
				return nil, nil, err
			}
			if data, m, err = rawjson.PutElement(data, h.path(), entry); err != nil {
				return nil, nil, err
			}
		} else if !slices.ContainsFunc(found, func(f foundHook) bool { return f.command == command }) {
			at := found[0].value
			data = slices.Concat(data[:at.Start], rawjson.AppendText(nil, command), data[at.End:])
		}
		made = append(made, m)
	}
	return data, made, nil
}

// Remove returns the content without our hooks and the structure that was added for them.
func Remove(data []byte, own string, made []rawjson.Made) ([]byte, error) {
	for i, h := range slices.Backward(all) {
		for {
			found, err := h.in(data, own)
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				break
			}
			if f := found[0]; f.others > 0 || !f.bare {
				data, err = rawjson.RemoveItem(data, f.list, f.at, "")
			} else {
				data, err = rawjson.TakeElement(data, h.path(), f.entry, h.made(i, made))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return data, nil
}

// made returns the record of the i-th hook. If it is missing, because the hook was copied here or the state
// directory is another, made returns what Add usually adds.
func (h hook) made(i int, made []rawjson.Made) rawjson.Made {
	switch {
	case i < len(made):
		return made[i]
	case h.verb == stop.verb:
		return rawjson.Made{Members: 2}
	}
	return rawjson.Made{Members: 1}
}

// object is a hook in Claude Code's format.
type object struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Async   bool   `json:"asyncRewake,omitempty"`
	Timeout int    `json:"timeout"`
}

// entry returns an element of an event's list that contains only the hook.
func (h hook) entry(command string) map[string][]object {
	return map[string][]object{hooksKey: {{"command", command, h.async, h.timeout}}}
}

// InPlugin returns the content of a plugin's hooks/hooks.json. The hooks run program with flags, and do
// nothing if it is gone.
func InPlugin(program string, flags ...string) map[string]any {
	events := map[string][]map[string][]object{}
	for _, h := range all {
		command := "command -v " + shell.Quote(program) + " >/dev/null || exit 0; " + h.command(program, flags)
		events[h.event] = append(events[h.event], h.entry(command))
	}
	return map[string]any{hooksKey: events}
}
