package view

import (
	"regexp"
	"strings"
)

// commands maps commands to the operations with the same effect. If a command has two words, its key has both.
var commands = map[string]string{
	"members": "GET /v1/teams/{team}/members", "teams": "GET /v1/teams", "sessions": "GET /v1/sessions", "status": "GET /v1/teams/{team}/status",
	"send": "POST /v1/teams/{team}/members/{member}/messages", "ask": "POST /v1/teams/{team}/members/{member}/ask", "broadcast": "POST /v1/teams/{team}/broadcast",
	"read": "GET /v1/teams/{team}/inboxes", "inbox": "GET /v1/inbox", "history": "GET /v1/history", "search": "GET /v1/history",
	"join": "POST /v1/teams/{team}/join", "leave": "POST /v1/teams/{team}/leave", "name": "PUT /v1/teams/{team}/members/{member}/name",
	"switch": "POST /v1/teams/{team}/members/{member}/place", "permit": "GET /v1/questions", "doctor": "GET /v1/doctor",
	"relay list": "GET /v1/deliveries", "relay list --relays": "GET /v1/relays", "relay retry": "POST /v1/deliveries/{delivery}/retry", "relay drop": "POST /v1/deliveries/{delivery}/drop",
	"relay add": "POST /v1/relays", "relay remove": "DELETE /v1/relays/{relay}", "relay hold": "POST /v1/teams/{team}/members/{member}/hold", "relay release": "POST /v1/teams/{team}/members/{member}/release",
	"tasks": "GET /v1/tasks", "transcript": "GET /v1/teams/{team}/members/{member}/transcript", "wait": "GET /v1/teams/{team}/wait",
	"pane add": "POST /v1/panes", "pane list": "GET /v1/panes", "pane test": "GET /v1/panes/{pane}/test", "pane remove": "DELETE /v1/panes/{pane}",
	"link list": "GET /v1/links", "link add": "POST /v1/machines",
}

var (
	command     = regexp.MustCompile(`"teambridge ([^"]*)"|teambridge ([a-z][^;,)]*)`)
	commandFlag = regexp.MustCompile(`--[a-z]`)
)

// Operations translates a hint of the command line for programs: it replaces each command by the operation with the
// same effect, and drops other advice about the command line.
func Operations(hint string) string {
	if !command.MatchString(hint) {
		return hint
	}
	var parts []string
	for part := range strings.SplitSeq(hint, "; ") {
		known := true
		part = command.ReplaceAllStringFunc(part, func(found string) string {
			words := strings.Fields(strings.Trim(found, `"`))[1:]
			for n := min(len(words), 3); n > 0; n-- {
				if op, ok := commands[strings.Join(words[:n], " ")]; ok && words[len(words)-1] != "--help" {
					return op
				}
			}
			known = false
			return ""
		})
		if known && !commandFlag.MatchString(part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}
