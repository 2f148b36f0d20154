// Package toolcall says what the use of a tool does, and what became of it: the envelopes of
// all runtimes have its titles, and whoever shows a tool call to people has its sentence from here.
package toolcall

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"teambridge/relay/wire"
	"teambridge/teams/excerpt"
)

// Limit bounds a text, and an argument of a tool call, in bytes. Without it a program that writes
// a large file would make one envelope of many MB.
const Limit = 256 << 10

// argsLimit bounds all arguments of a tool call, roughly.
const argsLimit = 2 * Limit

// TitleLimit bounds a title, in characters.
const TitleLimit = 120

// Description is what an envelope says of a tool call.
type Description struct {
	Title       string // in one line, as what is to be done: "run `ls`"; see [Sentence]
	Description string // in the words of the agent
	Args        wire.Object
	Path        string // of the file that the tool writes
	Size        float64
}

// Describe says what the use of a tool does. Claude Code's tools have names such as Bash,
// OpenCode's such as bash.
func Describe(name string, input json.RawMessage) Description {
	d := Description{Args: wire.Object{}}
	var all map[string]json.RawMessage
	if json.Unmarshal(input, &all) == nil {
		room := argsLimit
		for _, key := range slices.Sorted(maps.Keys(all)) {
			d.Args[key] = argument(all[key], min(room, Limit))
			room = max(0, room-len(d.Args[key]))
		}
	}
	arg := func(keys ...string) string {
		for _, key := range keys {
			var s string
			if json.Unmarshal(all[key], &s) == nil && strings.TrimSpace(s) != "" {
				return s
			}
		}
		return ""
	}
	d.Description = Cut(arg("description"))
	quoted := func(verb string, keys ...string) string {
		if s := arg(keys...); s != "" {
			return verb + " `" + strings.ReplaceAll(Line(s), "`", "'") + "`"
		}
		return ""
	}
	plain := func(verb string, keys ...string) string {
		if s := arg(keys...); s != "" {
			return verb + " " + Line(s)
		}
		return ""
	}
	switch name {
	case "Bash", "PowerShell", "bash":
		d.Title = quoted("run", "command")
	case "Read":
		d.Title = plain("read", "file_path")
	case "Write":
		d.Title, d.Path, d.Size = plain("write", "file_path"), arg("file_path"), float64(len(arg("content")))
	case "Edit", "MultiEdit":
		d.Title, d.Path = plain("edit", "file_path"), arg("file_path")
	case "NotebookEdit":
		d.Title, d.Path = plain("edit", "notebook_path"), arg("notebook_path")
	case "read":
		d.Title = plain("read", "path")
	case "write":
		d.Title, d.Path, d.Size = plain("write", "path"), arg("path"), float64(len(arg("content")))
	case "edit":
		d.Title, d.Path = plain("edit", "path"), arg("path")
	case "Grep", "grep":
		d.Title = quoted("search for", "pattern")
	case "Glob", "glob":
		d.Title = quoted("look for", "pattern")
	case "WebFetch", "webfetch":
		d.Title = plain("fetch", "url")
	case "WebSearch", "websearch":
		d.Title = quoted("search the web for", "query")
	case "Task", "Agent":
		d.Title = plain("run agent:", "description", "name")
	case "SendMessage":
		d.Title = plain("write to", "to", "recipient")
	}
	if d.Title == "" {
		d.Title = "use " + Line(name)
	}
	return d
}

// Running is said of a call that has not ended, next to the outcomes of [wire.Outcome].
const Running wire.Outcome = "running"

// verbs have the first words of titles: as [Describe] gives them, in the present and in the past.
// Titles that were recorded by earlier versions begin with the last.
var verbs = [][3]string{
	{"run", "runs", "ran"}, {"read", "reads", "read"}, {"write", "writes", "wrote"}, {"edit", "edits", "edited"},
	{"search", "searches", "searched"}, {"look", "looks", "looked"}, {"fetch", "fetches", "fetched"}, {"use", "uses", "used"},
}

// Sentence says of a tool call with a title what became of it: "ran `ls`", or "tried to run `ls` ·
// denied". Only what is done is said as done. The title without its verb is the part between head
// and tail. An empty outcome is one that nobody recorded.
func Sentence(title string, became wire.Outcome) (head, object, tail string) {
	verb, _, _ := strings.Cut(title, " ")
	object = title // of another program, which words it as it likes
	if i := slices.IndexFunc(verbs, func(v [3]string) bool { return verb == v[0] || verb == v[2] }); i >= 0 {
		object = title[len(verb):]
		switch v := verbs[i]; became {
		case Running:
			head = v[1]
		case wire.OutcomeDone:
			head = v[2]
		case wire.OutcomeStarted:
			head = "began to " + v[0]
		default:
			head = "tried to " + v[0]
		}
	}
	return head, object, map[wire.Outcome]string{
		wire.OutcomeStarted: " in the background", wire.OutcomeFailed: " · failed", wire.OutcomeDenied: " · denied", wire.OutcomeCut: " · cut off",
	}[became]
}

// Say is [Sentence] in one piece.
func Say(title string, became wire.Outcome) string {
	head, object, tail := Sentence(title, became)
	return head + object + tail
}

// argument is a value as it is passed on: a long one is cut, or left out if it is no text.
func argument(value json.RawMessage, limit int) json.RawMessage {
	if len(value) <= limit {
		return value
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		s = fmt.Sprintf("[%d bytes left out]", len(value))
	}
	cut, err := json.Marshal(short(s, limit))
	if err != nil {
		return json.RawMessage(`null`)
	}
	return cut
}

// Cut is a text, cut to [Limit] bytes if it is longer.
func Cut(s string) string { return short(s, Limit) }

// short is s, cut to a number of bytes if it is longer.
func short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s\n[%d bytes left out]", s[:end], len(s)-end)
}

// Line is s on one line, cut to the length of a title.
func Line(s string) string { return excerpt.Line(s, TitleLimit) }

// Base is the last element of a path of either kind.
func Base(path string) string {
	if i := strings.LastIndexAny(path, `/\`); i >= 0 && i < len(path)-1 {
		return path[i+1:]
	}
	return path
}
