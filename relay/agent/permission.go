package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Permission answers an agent's requests to use tools. An agent requests only what its permission mode and its own
// rules do not decide. Tools in Allow may be used; Ask decides on others; without Ask they are denied.
type Permission struct {
	// Allow lists names of tools, such as "Read", or "*" for all. It allows every use of a tool, except uses
	// that only a person can decide on.
	Allow []string
	// Reason is the reason of denials, for the agent; if empty, a general sentence is used.
	Reason string
	// Ask decides on one use, in its own goroutine, while only the turn waits. It must return when ctx ends:
	// the agent has withdrawn the request or has ended.
	Ask func(ctx context.Context, use Use) Decision
}

// The kinds of uses.
const (
	AsksPermission = "permission" // whether a tool may be used
	AsksPlan       = "plan"       // whether a plan is approved, so that the agent leaves plan mode
	AsksPerson     = "question"   // something that the person answers
)

// Use is a request of an agent to use a tool. All fields but Kind, Mode and ForPerson are the agent's text.
type Use struct {
	Kind  string          // [AsksPermission] and so on
	Tool  string          // such as "Bash"
	ID    string          // of the tool call
	Input json.RawMessage // of the tool
	Mode  string          // the permission mode that the agent last reported; empty if none

	// ForPerson means that only a person can decide, even if Allow lists the tool.
	ForPerson bool

	// What a person needs to decide; each may be empty.
	Display     string            // the tool's name for people
	Description string            // of this use
	Reason      string            // why the agent asks
	BlockedPath string            // the path that the rules do not cover
	Subagent    string            // the id of the subagent that asks; empty for the agent itself
	Plan        string            // the plan to approve
	Asked       []string          // the questions of [AsksPerson]: each needs an answer
	Session     []string          // rules that can be allowed until the agent ends
	Suggestions []json.RawMessage // permission updates that the runtime suggests, in its own form
}

// Decision is the answer to a [Use]. The zero value denies.
type Decision struct {
	Allow   bool
	Reason  string            // the reason of a denial; empty means the Permission's
	Answers map[string]string // if allowed: answers to [AsksPerson], by question
	Session string            // if allowed: one of the Use's Session rules to allow as well; empty for none
}

// Check returns an error if a decision does not fit a use.
func (u Use) Check(d Decision) error {
	switch {
	case !d.Allow && (d.Session != "" || len(d.Answers) > 0):
		return errors.New("a denial has neither a rule for the session nor answers")
	case !d.Allow:
		return nil
	case d.Reason != "":
		return errors.New("only a denial has a reason")
	case d.Session != "" && !slices.Contains(u.Session, d.Session):
		return fmt.Errorf("%q is not one of the rules that can be allowed for the session: %q", d.Session, u.Session)
	case u.Kind == AsksPerson && len(u.Asked) == 0:
		return errors.New("the questions cannot be read")
	case u.Kind != AsksPerson && len(d.Answers) > 0:
		return fmt.Errorf("%s asks nothing that could be answered", u.Tool)
	}
	for _, q := range u.Asked {
		if strings.TrimSpace(d.Answers[q]) == "" {
			return fmt.Errorf("there is no answer to %q", q)
		}
	}
	for q := range d.Answers {
		if !slices.Contains(u.Asked, q) {
			return fmt.Errorf("%q is not asked", q)
		}
	}
	return nil
}

// Decide decides at once if no person is needed. A nil Permission denies.
func (p *Permission) Decide(u Use) (d Decision, decided bool) {
	switch {
	case p == nil:
		return Decision{}, true
	case !u.ForPerson && (slices.Contains(p.Allow, u.Tool) || slices.Contains(p.Allow, "*")):
		return Decision{Allow: true}, true
	}
	return Decision{}, p.Ask == nil
}

// Grants are the rules that a person has allowed one agent until it ends. An agent itself would keep them
// longer, and apply them more widely.
type Grants struct{ rules sync.Map }

// Decide decides on a use, and calls Ask if no rule decides. An answer that does not fit the use denies it. A result
// after the end of ctx does not count.
func (g *Grants) Decide(ctx context.Context, p *Permission, u Use) Decision {
	for _, rule := range u.Session {
		if _, granted := g.rules.Load(rule); granted {
			return Decision{Allow: true}
		}
	}
	d, decided := p.Decide(u)
	if decided {
		return d
	}
	d = p.Ask(ctx, u)
	if err := u.Check(d); err != nil {
		return Decision{Reason: "The answer could not be used: " + err.Error()}
	}
	if d.Session != "" && ctx.Err() == nil {
		g.rules.Store(d.Session, true)
	}
	return d
}

// Denial returns the reason of a denial, for the agent.
func (p *Permission) Denial(d Decision) string {
	reason := d.Reason
	if p != nil {
		reason = cmp.Or(reason, p.Reason)
	}
	return cmp.Or(reason, Nobody)
}

// The text of a denial without a reason. Versions of Claude Code that do not mark denials in their
// transcripts keep only this text.
const (
	Nobody     = "Nobody is there to allow this."
	Unattended = "This agent runs without a person who could allow it, and its permissions do not. Go on without it, or say what you would need."
	NotAllowed = "The person who was asked did not allow it."
)

// IsDenial reports whether a text denies a tool use to an agent. After [Nobody], a later use may be allowed.
func IsDenial(text string) bool {
	return strings.HasPrefix(text, Nobody) || text == Unattended || text == NotAllowed
}
