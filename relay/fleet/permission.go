package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/runtimes"
)

// Policy decides about tool uses that an agent's permission mode and own rules leave open. The zero value
// denies them.
type Policy struct {
	Allow []string // names of tools that may be used; "*" is all
	Ask   bool     // ask a person about all others
}

// ParsePolicy parses deny, ask, or allow=TOOL,TOOL. Empty means deny. For anything else the error is a
// *[runtimes.SettingError].
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
		return Policy{}, &runtimes.SettingError{Setting: "permissions", Reason: fmt.Sprintf("%q is neither deny, ask, nor allow= with names of tools, such as allow=Read,Grep", s)}
	}
	return Policy{Allow: tools}, nil
}

// String returns the policy in the form that [ParsePolicy] reads.
func (p Policy) String() string {
	switch {
	case p.Ask:
		return "ask"
	case len(p.Allow) > 0:
		return "allow=" + strings.Join(p.Allow, ",")
	}
	return "deny"
}

// Permission returns the policy in the form that an agent uses. prompter asks a person; it may be nil if the
// policy does not ask.
func (p Policy) Permission(prompter *PermissionPrompter) *agent.Permission {
	answers := &agent.Permission{Allow: p.Allow, Reason: agent.Unattended}
	if p.Ask && prompter != nil {
		answers.Reason = agent.NotAllowed
		answers.Ask = prompter.ask
	}
	return answers
}

// A Question is an agent's request to use a tool. All fields but ID, Digest, Kind and At come from the agent.
type Question struct {
	ID     string          `json:"id"`     // a UUID
	Digest string          `json:"digest"` // the SHA-256 of Tool and Input, in hexadecimal digits
	Kind   string          `json:"kind"`   // [agent.AsksPermission] and so on
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input,omitempty"`
	At     time.Time       `json:"at"`

	Display     string            `json:"display,omitempty"`     // the tool's name for people
	Description string            `json:"description,omitempty"` // of this tool use
	Reason      string            `json:"reason,omitempty"`      // why the agent asks
	BlockedPath string            `json:"blockedPath,omitempty"`
	Subagent    string            `json:"subagent,omitempty"`    // which subagent asks; empty for the agent itself
	Plan        string            `json:"plan,omitempty"`        // the plan to approve
	Suggestions []json.RawMessage `json:"suggestions,omitempty"` // permission updates that the runtime suggests
	Session     []string          `json:"session,omitempty"`     // rules that a person can allow for the session
}

// An Answer is a person's answer to a [Question].
type Answer struct {
	Question string // its ID
	Digest   string // its Digest
	Allow    bool
	Session  string            // if allowed: one of the question's Session rules, allowed until the agent is restarted
	Answers  map[string]string // required to allow [agent.AsksPerson]: the answers, by question
	Reason   string            // the reason of a denial, for the agent; may be empty
}

// The errors of [PermissionPrompter.Answer].
var (
	// ErrNoQuestion means that no question has that id, or that the question is too old to be remembered.
	ErrNoQuestion = errors.New("there is no such question")
	// ErrAnswered means that the question was answered or withdrawn before.
	ErrAnswered = errors.New("no longer open")
	// ErrOtherInput means that the answer is for a different tool input.
	ErrOtherInput = errors.New("the answer is for another input")
	// ErrAnswer means that the answer does not fit the question.
	ErrAnswer = errors.New("the answer does not fit the question")
)

// A PermissionPrompter asks a person whether an agent may use a tool. Make it with [NewPermissionPrompter].
// It is safe for concurrent use.
type PermissionPrompter struct {
	changed func(asked Question, open bool)

	mu     sync.Mutex
	open   map[string]waiting
	ended  []endedQuestion // the latest ones
	closed bool
	reason string // of the denials after Close
}

type waiting struct {
	Question
	ctx    context.Context // ends when the agent withdraws the question
	use    agent.Use
	answer chan agent.Decision
}

// endedQuestion is the outcome of a question that is no longer open. It explains why a late answer is
// refused.
type endedQuestion struct{ id, outcome string }

const endedQuestions = 256

// minPrefix is the shortest prefix of an ended question's id that a person may type.
const minPrefix = 4

// NewPermissionPrompter returns a prompter. It calls changed when a question is asked, and again when it is
// no longer open.
func NewPermissionPrompter(changed func(q Question, open bool)) *PermissionPrompter {
	return &PermissionPrompter{changed: changed, open: map[string]waiting{}}
}

// NewQuestion returns the question for a person about a tool use.
func NewQuestion(use agent.Use) Question {
	input := slices.Clone(use.Input)
	digest := sha256.Sum256(slices.Concat([]byte(use.Tool), []byte("\n"), input))
	return Question{
		ID: uuid.NewString(), Digest: hex.EncodeToString(digest[:]), Kind: use.Kind, Tool: use.Tool, Input: input, At: time.Now().UTC(),
		Display: use.Display, Description: use.Description, Reason: use.Reason, BlockedPath: use.BlockedPath,
		Subagent: use.Subagent, Plan: use.Plan, Suggestions: use.Suggestions, Session: use.Session,
	}
}

// ask asks a person about a tool use, and waits for the decision.
func (p *PermissionPrompter) ask(ctx context.Context, use agent.Use) agent.Decision {
	w := waiting{Question: NewQuestion(use), ctx: ctx, use: use, answer: make(chan agent.Decision, 1)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return agent.Decision{Reason: p.reason}
	}
	p.open[w.ID] = w
	p.mu.Unlock()
	p.changed(w.Question, true)
	defer func() {
		p.mu.Lock()
		p.end(w.ID, withdrawn)
		p.mu.Unlock()
		p.changed(w.Question, false)
	}()
	select {
	case decision := <-w.answer:
		return decision
	case <-ctx.Done():
		return agent.Decision{} // the agent has withdrawn the question
	}
}

const withdrawn = "the agent withdrew it, or its turn has ended"

// end closes an open question. The caller holds p.mu.
func (p *PermissionPrompter) end(id, outcome string) {
	if _, ok := p.open[id]; !ok {
		return
	}
	delete(p.open, id)
	p.ended = append(p.ended[max(0, len(p.ended)-endedQuestions+1):], endedQuestion{id, outcome})
}

// Answer answers a question. The errors are [ErrNoQuestion], [ErrAnswered], [ErrOtherInput] and [ErrAnswer].
// After an error the question is unchanged.
func (p *PermissionPrompter) Answer(a Answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	fail := func(err error) error { return fmt.Errorf("question %s: %w", a.Question, err) }
	w, ok := p.open[a.Question]
	if !ok {
		for _, e := range p.ended {
			if e.id == a.Question || len(a.Question) >= minPrefix && strings.HasPrefix(e.id, a.Question) {
				return fail(fmt.Errorf("%w: %s", ErrAnswered, e.outcome))
			}
		}
		return fail(ErrNoQuestion)
	}
	if w.ctx.Err() != nil {
		return fail(fmt.Errorf("%w: %s", ErrAnswered, withdrawn))
	}
	if a.Digest != w.Digest {
		return fail(fmt.Errorf("%w: its digest is not that of the question", ErrOtherInput))
	}
	decision := agent.Decision{Allow: a.Allow, Reason: a.Reason, Session: a.Session, Answers: a.Answers}
	if err := w.use.Check(decision); err != nil {
		return fail(fmt.Errorf("%w: %w", ErrAnswer, err))
	}
	outcome := "it was denied"
	if a.Allow {
		outcome = "it was allowed"
	}
	p.end(a.Question, outcome)
	w.answer <- decision
	return nil
}

// Close denies all open and later questions, with a reason.
func (p *PermissionPrompter) Close(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.reason = true, reason
	for id, w := range p.open {
		p.end(id, "it was denied: "+reason)
		w.answer <- agent.Decision{Reason: reason}
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
