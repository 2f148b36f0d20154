package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/claude"
)

// Policy decides whether an agent may use a tool if its permission mode and its own rules
// leave that open. The zero value denies.
type Policy struct {
	Allow []string // names of tools that may be used; "*" is all
	Ask   bool     // a person decides
}

// ParsePolicy understands deny, ask, and allow=TOOL,TOOL. Empty is deny. Anything else
// is a *[SettingError].
func ParsePolicy(s string) (Policy, error) {
	switch s {
	case "", "deny":
		return Policy{}, nil
	case "ask":
		return Policy{Ask: true}, nil
	}
	list, ok := strings.CutPrefix(s, "allow=")
	tools := strings.Split(list, ",")
	if !ok || slices.ContainsFunc(tools, func(t string) bool { return t == "" || strings.ContainsAny(t, " \t\n()") }) {
		return Policy{}, &SettingError{"permissions", fmt.Sprintf("%q is neither deny, ask, nor allow= with names of tools, such as allow=Read,Grep", s)}
	}
	return Policy{Allow: tools}, nil
}

// String gives what [ParsePolicy] understands.
func (p Policy) String() string {
	switch {
	case p.Ask:
		return "ask"
	case len(p.Allow) > 0:
		return "allow=" + strings.Join(p.Allow, ",")
	}
	return "deny"
}

// Permission answers an agent by the policy. prompter asks a person; it may be nil for a
// policy that does not ask.
func (p Policy) Permission(prompter *PermissionPrompter) *claude.Permission {
	answers := &claude.Permission{
		Allow:  p.Allow,
		Reason: "This agent runs without a person who could allow it, and its permissions do not. Go on without it, or say what you would need.",
	}
	if p.Ask && prompter != nil {
		answers.Reason = "The person who was asked did not allow it."
		answers.Ask = prompter.ask
	}
	return answers
}

// A Question is one use of a tool that an agent asks for. Tool and Input come from the
// agent.
type Question struct {
	ID    string          `json:"id"` // a UUID
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input,omitempty"`
	At    time.Time       `json:"at"`
}

// ErrNoQuestion means that no question of that id is open: it was answered or withdrawn.
var ErrNoQuestion = errors.New("no such question is open")

// A PermissionPrompter asks a person whether an agent may use a tool. Make one with
// [NewPermissionPrompter]. It may be used from several goroutines.
type PermissionPrompter struct {
	changed func(asked Question, open bool)

	mu     sync.Mutex
	open   map[string]waiting
	closed bool
	reason string // what the agent is told after Close
}

type waiting struct {
	Question
	answer chan claude.Decision
}

// NewPermissionPrompter returns a prompter. changed is called when a question is asked,
// and again when it is no longer open.
func NewPermissionPrompter(changed func(q Question, open bool)) *PermissionPrompter {
	return &PermissionPrompter{changed: changed, open: map[string]waiting{}}
}

// ask waits for a person's decision.
func (p *PermissionPrompter) ask(ctx context.Context, use claude.Use) claude.Decision {
	w := waiting{
		Question: Question{ID: uuid.NewString(), Tool: use.Tool, Input: slices.Clone(use.Input), At: time.Now().UTC()},
		answer:   make(chan claude.Decision, 1),
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return claude.Decision{Reason: p.reason}
	}
	p.open[w.ID] = w
	p.mu.Unlock()
	p.changed(w.Question, true)
	defer func() {
		p.mu.Lock()
		delete(p.open, w.ID)
		p.mu.Unlock()
		p.changed(w.Question, false)
	}()
	select {
	case decision := <-w.answer:
		return decision
	case <-ctx.Done():
		return claude.Decision{} // nobody waits for it
	}
}

// Answer answers a question. reason, if not empty, is what the agent is told if it is not
// allowed. The error is [ErrNoQuestion].
func (p *PermissionPrompter) Answer(id string, allow bool, reason string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.open[id]
	if !ok {
		return fmt.Errorf("fleet: answer question %s: %w", id, ErrNoQuestion)
	}
	delete(p.open, id) // the first answer counts
	w.answer <- claude.Decision{Allow: allow, Reason: reason}
	return nil
}

// Close denies the open questions and all later ones for a reason.
func (p *PermissionPrompter) Close(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.reason = true, reason
	for id, w := range p.open {
		delete(p.open, id)
		w.answer <- claude.Decision{Reason: reason}
	}
}

// Questions returns the open questions, the oldest first.
func (p *PermissionPrompter) Questions() []Question {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Question, 0, len(p.open))
	for _, w := range p.open {
		list = append(list, w.Question)
	}
	slices.SortFunc(list, func(a, b Question) int { return a.At.Compare(b.At) })
	return list
}
