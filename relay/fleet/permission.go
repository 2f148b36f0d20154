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

// Policy says what becomes of the questions of an agent whether it may use a
// tool: those that its permission mode and its own rules leave open. The zero
// value denies.
type Policy struct {
	Allow []string // names of tools that may be used; "*" is all
	Ask   bool     // a person decides
}

// ParsePolicy understands deny, ask, and allow=TOOL,TOOL. Empty is deny.
func ParsePolicy(s string) (Policy, error) {
	switch s {
	case "", "deny":
		return Policy{}, nil
	case "ask":
		return Policy{Ask: true}, nil
	}
	list, ok := strings.CutPrefix(s, "allow=")
	if !ok {
		return Policy{}, fmt.Errorf("fleet: permissions %q: there is deny, ask and allow=TOOL,TOOL", s)
	}
	tools := strings.Split(list, ",")
	if slices.ContainsFunc(tools, func(t string) bool { return t == "" || strings.ContainsAny(t, " \t\n()") }) {
		return Policy{}, fmt.Errorf("fleet: permissions %q: names of tools are wanted, such as allow=Read,Grep", s)
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

// Permission answers an agent by the policy. desk is where a person is asked; it
// may be nil for a policy that does not ask.
func (p Policy) Permission(desk *Desk) *claude.Permission {
	answers := &claude.Permission{
		Allow:  p.Allow,
		Reason: "This agent runs without a person who could allow it, and its permissions do not. Go on without it, or say what you would need.",
	}
	if p.Ask && desk != nil {
		answers.Reason = "The person who was asked did not allow it."
		answers.Ask = desk.ask
	}
	return answers
}

// A Question is one use of a tool that an agent asks for. All but ID and At is
// text of the agent.
type Question struct {
	ID    string          `json:"id"` // a UUID
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input,omitempty"`
	At    time.Time       `json:"at"`
}

// ErrNoQuestion means that no question of that id is open: it was answered, or
// withdrawn with the turn that it belonged to.
var ErrNoQuestion = errors.New("no such question is open")

// Desk is where the questions of one agent wait for a person. Make it with
// [NewDesk]; it may be used from several goroutines.
type Desk struct {
	changed func(asked Question, open bool)

	mu     sync.Mutex
	open   map[string]waiting
	closed bool
	reason string // what is told when it is closed
}

type waiting struct {
	Question
	answer chan claude.Decision
}

// NewDesk returns a desk. changed, if not nil, is called with each question that
// is asked, and again when it is not open any more.
func NewDesk(changed func(q Question, open bool)) *Desk {
	if changed == nil {
		changed = func(Question, bool) {}
	}
	return &Desk{changed: changed, open: map[string]waiting{}}
}

// ask waits for a person's decision.
func (d *Desk) ask(ctx context.Context, use claude.Use) claude.Decision {
	w := waiting{
		Question: Question{ID: uuid.NewString(), Tool: use.Tool, Input: slices.Clone(use.Input), At: time.Now().UTC()},
		answer:   make(chan claude.Decision, 1),
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return claude.Decision{Reason: d.reason}
	}
	d.open[w.ID] = w
	d.mu.Unlock()
	d.changed(w.Question, true)
	defer func() {
		d.mu.Lock()
		delete(d.open, w.ID)
		d.mu.Unlock()
		d.changed(w.Question, false)
	}()
	select {
	case decision := <-w.answer:
		return decision
	case <-ctx.Done():
		return claude.Decision{} // nobody is told of it any more
	}
}

// Answer decides a question. reason is what the agent is told where it is not
// allowed; empty is a sentence that says as much. [ErrNoQuestion].
func (d *Desk) Answer(id string, allow bool, reason string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.open[id]
	if !ok {
		return fmt.Errorf("fleet: answer question %s: %w", id, ErrNoQuestion)
	}
	delete(d.open, id) // the first answer counts
	w.answer <- claude.Decision{Allow: allow, Reason: reason}
	return nil
}

// Close says that nobody answers any more: what is open, and what is asked later,
// is not allowed. reason is what the agent is told.
func (d *Desk) Close(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.reason = true, reason
	for id, w := range d.open {
		delete(d.open, id)
		w.answer <- claude.Decision{Reason: reason}
	}
}

// Questions lists those that are open, the oldest first.
func (d *Desk) Questions() []Question {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]Question, 0, len(d.open))
	for _, w := range d.open {
		list = append(list, w.Question)
	}
	slices.SortFunc(list, func(a, b Question) int { return a.At.Compare(b.At) })
	return list
}
