package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"teambridge/relay/wire"
)

// textLimit bounds a text, and an argument of a tool call, in bytes. Without it a program that writes
// a large file would make one envelope of many MB.
const textLimit = 256 << 10

// argsLimit bounds all arguments of a tool call, roughly.
const argsLimit = 2 * textLimit

// titleLimit bounds a title, in characters.
const titleLimit = 120

// described is what an envelope says of a tool call.
type described struct {
	title, description string
	args               wire.Object
	path               string // of the file that the tool writes
	size               float64
}

// describe says what the use of a tool does.
func describe(name string, input json.RawMessage) described {
	d := described{args: wire.Object{}}
	var all map[string]json.RawMessage
	if json.Unmarshal(input, &all) == nil {
		room := argsLimit
		for _, key := range slices.Sorted(maps.Keys(all)) {
			d.args[key] = argument(all[key], min(room, textLimit))
			room = max(0, room-len(d.args[key]))
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
	d.description = short(arg("description"), textLimit)
	quoted := func(verb string, keys ...string) string {
		if s := arg(keys...); s != "" {
			return verb + " `" + strings.ReplaceAll(line(s), "`", "'") + "`"
		}
		return ""
	}
	plain := func(verb string, keys ...string) string {
		if s := arg(keys...); s != "" {
			return verb + " " + line(s)
		}
		return ""
	}
	switch name {
	case "Bash", "PowerShell":
		d.title = quoted("ran", "command")
	case "Read":
		d.title = plain("read", "file_path")
	case "Write":
		d.title, d.path, d.size = plain("wrote", "file_path"), arg("file_path"), float64(len(arg("content")))
	case "Edit", "MultiEdit":
		d.title, d.path = plain("edited", "file_path"), arg("file_path")
	case "NotebookEdit":
		d.title, d.path = plain("edited", "notebook_path"), arg("notebook_path")
	case "Grep":
		d.title = quoted("searched for", "pattern")
	case "Glob":
		d.title = quoted("looked for", "pattern")
	case "WebFetch":
		d.title = plain("fetched", "url")
	case "WebSearch":
		d.title = quoted("searched the web for", "query")
	case "Task", "Agent":
		d.title = plain("ran agent:", "description", "name")
	case "SendMessage":
		d.title = plain("wrote to", "to", "recipient")
	}
	if d.title == "" {
		d.title = "used " + line(name)
	}
	return d
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

// line is s on one line, cut to the length of a title.
func line(s string) string {
	if len(s) > 16*titleLimit {
		s = s[:16*titleLimit]
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if runes := []rune(s); len(runes) > titleLimit {
		return string(runes[:titleLimit-1]) + "…"
	}
	return s
}

// base is the last element of a path of either kind.
func base(path string) string {
	if i := strings.LastIndexAny(path, `/\`); i >= 0 && i < len(path)-1 {
		return path[i+1:]
	}
	return path
}

// asTyped is a prompt as the user typed it: Claude Code keeps a command in tags.
func asTyped(text string) string {
	if !strings.HasPrefix(text, "<command-") {
		return strings.TrimSpace(text)
	}
	element := func(name string) string {
		_, rest, _ := strings.Cut(text, "<"+name+">")
		value, _, _ := strings.Cut(rest, "</"+name+">")
		return strings.TrimSpace(value)
	}
	return strings.TrimSpace(element("command-name") + " " + element("command-args"))
}
