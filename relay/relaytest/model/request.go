package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Main is the Agent of a request that the started session itself made: the lead, or a session without a team.
const Main = "main"

// Teammate is the Agent of a teammate whose name is not known. Claude Code sends the names of those that run in
// the lead's process, but not in the outdated versions of lane taken: there a name is known only if this API answered the call that spawned
// the teammate, and only until the conversation is compacted. A process of its own, started with --agent-id, sends no name; its
// calls are known by its session if [Team.StartMember] started it.
const Teammate = "teammate"

// Any stands for every agent in API.Count and API.Counts.
const Any = "*"

// Request is one call of POST /v1/messages, POST /v1/chat/completions or POST /v1/responses, parsed. Every call carries the whole conversation again; the fields here
// are about its newest part, what came after the last answer, unless they say otherwise.
type Request struct {
	// Seq numbers the calls from 1 in the order they arrived, over all agents.
	Seq int
	// Time is when the call arrived, UTC.
	Time time.Time
	// Answered is when the answer had been written whole, UTC; zero while it has not been, and for good if the client
	// went away before.
	Answered time.Time

	// Session is the session id, Agent who asked: Main, a teammate's name, or Teammate.
	Session, Agent string
	// Model and System are as sent, System joined with newlines if it came in parts.
	Model, System string
	// Tools are the names of the tools that were offered.
	Tools []string
	// Streamed says that the answer was wanted as server-sent events.
	Streamed bool
	// Retry says that the client marked the call as a repetition of one that failed.
	Retry bool
	// Side says that the call is none of the conversation's turns: it offers no tools (titles, summaries of tool use),
	// or asks for a compaction or for a suggestion of what to type next. It is answered and never counted.
	Side bool

	// Texts are the newest texts in the user's role, in order, without what Claude Code added as a <system-reminder>, or
	// OpenCode as a <system-update>.
	// Messages that were sent while the agent worked are here too, though Claude Code puts them into a reminder inside a tool's
	// result, or into the system's role.
	Texts []string
	// Results are the newest results of tools, as text.
	Results []string
	// Uncut holds the newest texts and results with nothing taken out, those in the system's role too, for tests about
	// reminders themselves.
	Uncut []string

	// unnamed says that the headers name neither session nor agent: then only their first text distinguishes
	// conversations.
	unnamed bool
	// added and removed are the texts by which the whole history differs from that of the conversation's previous
	// call. See API.Count.
	added, removed []string
}

// Text is the newest texts in one string, joined with newlines.
func (r Request) Text() string { return strings.Join(r.Texts, "\n") }

// Has reports whether the newest texts hold the marker.
func (r Request) Has(marker string) bool {
	return slices.ContainsFunc(r.Texts, func(text string) bool { return strings.Contains(text, marker) })
}

// Delivery is one teammate's message as a model sees it:
// <teammate-message teammate_id="NAME" color="blue" summary="…">, newline, body, newline, </teammate-message>.
// Attributes are as they stand, nothing unescaped; an attribute that is not there is empty.
type Delivery struct {
	From, Color, Summary string
	// Verified is "false" where Claude Code does not vouch for the sender, else empty.
	Verified string
	Body     string
}

// Deliveries are the teammates' messages among the newest texts, in order.
func (r Request) Deliveries() []Delivery {
	var all []Delivery
	for _, text := range r.Texts {
		all = append(all, deliveries(text)...)
	}
	return all
}

// Compiled at the first use: only one command needs them.
var (
	wrapper   = lazily(`(?s)<teammate-message ([^>]*)>\n?(.*?)\n?</teammate-message>`)
	attribute = lazily(`([a-z_]+)="([^"]*)"`)
	reminder  = lazily(`(?s)<system-(?:reminder|update)>(.*?)</system-(?:reminder|update)>\n*`)
)

func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

func deliveries(text string) []Delivery {
	var all []Delivery
	for _, m := range wrapper().FindAllStringSubmatch(text, -1) {
		d := Delivery{Body: m[2]}
		for _, a := range attribute().FindAllStringSubmatch(m[1], -1) {
			switch a[1] {
			case "teammate_id":
				d.From = a[2]
			case "color":
				d.Color = a[2]
			case "summary":
				d.Summary = a[2]
			case "verified":
				d.Verified = a[2]
			}
		}
		all = append(all, d)
	}
	return all
}

// The marks that distinguish Claude Code's own texts from those of a person or a teammate.
const (
	midTurn       = "The user sent a new message while you were working:"
	compaction    = "Respond with TEXT ONLY. Do NOT call any tools."
	suggestion    = "[SUGGESTION MODE:"
	teammateRules = "You are running as an agent in a team."
	// Its text in place of an answer in the history of a resumed session whose last prompt has none.
	noAnswer = "No response requested."
)

// said returns a text in the user's role without Claude Code's reminders. A reminder with a message, such as one that
// arrived during a turn, is kept without its tags.
func said(text string) string {
	kept := reminder().ReplaceAllStringFunc(text, func(whole string) string {
		inner := reminder().FindStringSubmatch(whole)[1]
		if carries(inner) {
			return inner
		}
		return ""
	})
	return strings.TrimSpace(kept)
}

// carried returns only the messages in reminders inside a tool's result; the result itself is no message.
func carried(result string) []string {
	var texts []string
	for _, m := range reminder().FindAllStringSubmatch(result, -1) {
		if carries(m[1]) {
			texts = append(texts, strings.TrimSpace(m[1]))
		}
	}
	return texts
}

func carries(reminder string) bool {
	return strings.Contains(reminder, midTurn) || strings.Contains(reminder, "<teammate-message ") || strings.Contains(reminder, "<teambridge-message ") || strings.Contains(reminder, "<cross-session-message ")
}

// The used fields of the body of POST /v1/messages.
type (
	body struct {
		Model    string    `json:"model"`
		System   Content   `json:"system"`
		Messages []message `json:"messages"`
		Tools    []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Stream   bool `json:"stream"`
		Metadata struct {
			UserID string `json:"user_id"`
		} `json:"metadata"`
	}
	message struct {
		Role    string  `json:"role"`
		Content Content `json:"content"`
	}
	block struct {
		Type    string  `json:"type"`
		Text    string  `json:"text"`
		Content Content `json:"content"`
	}
	// Content is a string or a list of blocks; both spellings mean the same.
	Content []block
)

func (c *Content) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		var blocks []block
		if err := json.Unmarshal(data, &blocks); err != nil {
			return err
		}
		*c = blocks
		return nil
	}
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("content is neither a string nor a list: %w", err)
	}
	if text != nil {
		*c = Content{{Type: "text", Text: *text}}
	}
	return nil
}

// Text returns the text of the text blocks.
func (c Content) Text() string {
	var texts []string
	for _, b := range c {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// parse reads a call into a Request and the texts of its whole history, of which the first `old` stand before the last
// answer. Messages in the system's role, between the others, are Claude Code's own and left out, except those that pass on
// what was typed in mid-turn.
func parse(data []byte, header http.Header) (r Request, history []string, old int, err error) {
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		return Request{}, nil, 0, err
	}
	r = Request{Model: b.Model, System: b.System.Text(), Streamed: b.Stream}
	for _, tool := range b.Tools {
		r.Tools = append(r.Tools, tool.Name)
	}
	count := header.Get("X-Stainless-Retry-Count")
	r.Retry = count != "" && count != "0"

	if history, old, err = r.read(b.Messages); err != nil {
		return Request{}, nil, 0, err
	}
	var user struct {
		Session string `json:"session_id"`
	}
	// Not JSON in other programs than Claude Code; then there is no session to tell.
	_ = json.Unmarshal([]byte(b.Metadata.UserID), &user)
	r.Session = user.Session
	if id := header.Get("X-Claude-Code-Session-Id"); id != "" {
		r.Session = id
	} else {
		r.unnamed = true
	}
	switch id := header.Get("X-Claude-Code-Agent-Id"); {
	case id != "":
		r.Agent, _, _ = strings.Cut(id, "@")
	case strings.Contains(r.System, teammateRules):
		r.Agent = Teammate
	default:
		r.Agent = Main
	}
	return r, history, old, nil
}

// read takes the newest parts of the messages, and returns the texts of the whole history, of which the first `old`
// precede the last answer.
func (r *Request) read(messages []message) (history []string, old int, err error) {
	if len(messages) == 0 {
		return nil, 0, errors.New("no messages")
	}
	last, answered := -1, -1
	for i, m := range messages {
		if m.Role == "assistant" {
			last = i
			if m.Content.Text() != noAnswer {
				answered = i
			}
		}
	}
	for i, m := range messages {
		if i == answered {
			old = len(history)
		}
		if m.Role != "user" && m.Role != "system" {
			continue
		}
		for _, block := range m.Content {
			if m.Role == "system" && !strings.HasPrefix(block.Text, midTurn) {
				if i > last {
					r.Uncut = append(r.Uncut, block.Text)
				}
				continue
			}
			var texts []string
			switch block.Type {
			case "text":
				if text := said(block.Text); text != "" {
					texts = []string{text}
				}
				if i > last {
					r.Uncut = append(r.Uncut, block.Text)
				}
			case "tool_result":
				result := block.Content.Text()
				texts = carried(result)
				if i > last {
					r.Results = append(r.Results, result)
					r.Uncut = append(r.Uncut, result)
				}
			}
			history = append(history, texts...)
			if i > last {
				r.Texts = append(r.Texts, texts...)
			}
		}
	}
	text := r.Text()
	r.Side = len(r.Tools) == 0 || strings.HasPrefix(text, suggestion) ||
		strings.Contains(text, compaction)
	return history, old, nil
}
