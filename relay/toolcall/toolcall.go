// Package toolcall describes tool calls and their outcomes. The envelopes of all runtimes have its titles, and every
// list of tool calls for people has its sentences.
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

// Limit is the longest text, or argument of a tool call, in bytes. Without a limit, a program that writes a large
// file would make an envelope of many MB.
const Limit = 256 << 10

// argsLimit is the approximate limit of all arguments of a tool call together.
const argsLimit = 2 * Limit

// TitleLimit is the longest title, in characters.
const TitleLimit = 120

// Description is the description of a tool call in an envelope.
type Description struct {
	Title       string // one line, in the imperative: "run `ls`"; see [Sentence]
	Description string // the agent's own description
	Args        wire.Object
	Path        string // of the file that the tool writes
	Size        float64
}

// Describe describes a tool call. Claude Code's tools have names such as Bash, OpenCode's such as bash.
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
	case "AskUserQuestion":
		if q := firstQuestion(all["questions"]); q != "" {
			d.Title = "ask `" + strings.ReplaceAll(Line(q), "`", "'") + "`"
		}
	case "ExitPlanMode":
		d.Title = "ask about its plan"
	}
	if d.Title == "" {
		d.Title = "use " + Line(name)
	}
	return d
}

// firstQuestion returns the first question in the input of AskUserQuestion, or "".
func firstQuestion(input json.RawMessage) string {
	var list []struct{ Question string }
	if json.Unmarshal(input, &list) != nil || len(list) == 0 {
		return ""
	}
	return list[0].Question
}

// Running is the outcome of a call that has not ended. It extends the outcomes of [wire.Outcome].
const Running wire.Outcome = "running"

// verbs has the first words of titles: the form that [Describe] uses, the present, and the past. Titles from earlier
// versions begin with the past form.
var verbs = [][3]string{
	{"run", "runs", "ran"}, {"read", "reads", "read"}, {"write", "writes", "wrote"}, {"edit", "edits", "edited"},
	{"ask", "asks", "asked"}, {"search", "searches", "searched"}, {"look", "looks", "looked"}, {"fetch", "fetches", "fetched"}, {"use", "uses", "used"},
}

// Sentence describes a tool call with a title by its outcome: "ran `ls`", or "tried to run `ls` · denied". It claims
// an action only if the call did it. object is the title without its verb, head replaces the verb, and tail follows.
// An empty outcome is unknown.
func Sentence(title string, became wire.Outcome) (head, object, tail string) {
	verb, _, _ := strings.Cut(title, " ")
	object = title // another program may use other words
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

// Say returns the parts of [Sentence] as one text.
func Say(title string, became wire.Outcome) string {
	head, object, tail := Sentence(title, became)
	return head + object + tail
}

// argument returns a value of about limit bytes at most. It cuts a longer text, and replaces other values by their
// size.
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

// Cut returns a text, cut to [Limit] bytes if it is longer.
func Cut(s string) string { return short(s, Limit) }

// short returns s, cut to limit bytes if it is longer.
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

// Line returns s on one line, cut to the length of a title.
func Line(s string) string { return excerpt.Line(s, TitleLimit) }

// Base returns the last element of a path with slashes or backslashes.
func Base(path string) string {
	if i := strings.LastIndexAny(path, `/\`); i >= 0 && i < len(path)-1 {
		return path[i+1:]
	}
	return path
}
