package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"teambridge/relay/dialog"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/view"
)

const seeQuestions = "list the open questions with: teambridge permit"

// asking returns the agents that can ask.
func (l *Control) asking() (*fleet.Fleet, error) {
	if f := l.carrying.fleet(); f != nil {
		return f, nil
	}
	return nil, api.Decide(api.CodeNotFound, `agents of "teambridge run" ask at the terminal that it runs in`, "no service runs agents, and so none waits for an answer")
}

// atTerminals is err, of there being no agent that can be answered here, or names those that wait for the person elsewhere.
func (l *Control) atTerminals(ctx context.Context, team string, err error) error {
	list, aerr := l.Attention(ctx, team)
	for _, w := range list {
		if aerr == nil && w.Kind == api.WaitsTerminal {
			return api.Decide(api.CodeNotFound, w.Do+"; so that it can be answered here, too: teambridge setup questions", "no service runs agents, so none can be answered here; %s %s", w.Member+"@"+w.Team, w.What)
		}
	}
	return err
}

// dialogs returns what sessions ask at their terminals and can be answered elsewhere, too.
func (l *Control) dialogs(ctx context.Context, team string) (list []api.Asked, err error) {
	if l.Opts.State == "" {
		return nil, nil
	}
	open, err := dialog.Open(l.Opts.State)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	waits, err := l.Attention(ctx, team)
	for _, q := range open {
		i := slices.IndexFunc(waits, func(a api.Attention) bool { return a.Relay == api.Terminal && a.ID == q.ID })
		if i >= 0 { // else it has just been asked or answered
			list = append(list, api.Asked{Relay: api.Terminal, Team: waits[i].Team, Member: waits[i].Member, State: api.QuestionOpen, Question: api.Question(q.Question)})
		}
	}
	return list, err
}

// Questions returns what agents ask; see [api.Bridge].
func (l *Control) Questions(ctx context.Context, team string) ([]api.Asked, error) {
	list, err := l.dialogs(ctx, team)
	if err != nil {
		return nil, err
	}
	if _, err := l.asking(); err != nil {
		if len(list) > 0 {
			return list, nil
		}
		return nil, l.atTerminals(ctx, team, err)
	}
	relays, err := l.Relays(ctx, team)
	list = append([]api.Asked{}, list...)
	for _, e := range relays {
		for _, q := range e.Questions {
			list = append(list, api.Asked{Relay: e.ID, Team: e.Team, Member: e.Member, State: api.QuestionOpen, Question: q})
		}
	}
	slices.SortStableFunc(list, func(x, y api.Asked) int { return x.At.Compare(y.At) })
	return list, err
}

// Question returns an open question; see [api.Bridge].
func (l *Control) Question(ctx context.Context, team, id string) (q api.Asked, err error) {
	list, err := l.Questions(ctx, team)
	was, known := dialog.Became(l.Opts.State, id)
	if err != nil && !known {
		return q, err
	}
	ids := make([]string, len(list))
	for i, q := range list {
		ids[i] = q.ID
	}
	whole, err := view.WholeID(id, ids)
	if err != nil {
		return q, err
	}
	if whole != "" {
		return list[slices.Index(ids, whole)], nil
	}
	if known {
		return q, notPermitted(id, fmt.Errorf("question %s: %w: %s", id, fleet.ErrAnswered, was))
	}
	if l.carrying.fleet() == nil {
		return q, notPermitted(id, fleet.ErrNoQuestion)
	}
	// A relay remembers what became of it. An answer without a digest answers nothing.
	relays, err := l.Relays(ctx, team)
	if err != nil {
		return q, err
	}
	for _, e := range relays {
		if err := l.carrying.fleet().Answer(e.ID, fleet.Answer{Question: id}); errors.Is(err, fleet.ErrAnswered) {
			return q, notPermitted(id, err)
		}
	}
	return q, notPermitted(id, fleet.ErrNoQuestion)
}

// Answer answers a question by its id; see [api.Bridge].
func (l *Control) Answer(ctx context.Context, id string, p api.Permit) (q api.Asked, err error) {
	if q, err = l.Question(ctx, "", id); err != nil {
		return q, err
	}
	p.Question = q.ID
	if _, err := l.Permit(ctx, q.Relay, p); err != nil {
		return q, err
	}
	q.State = api.QuestionDenied
	if p.Allow {
		q.State = api.QuestionAllowed
	}
	return q, nil
}

// Permit answers a question of a relay's agent, or of a session at its terminal; see [api.Bridge].
func (l *Control) Permit(ctx context.Context, relay string, p api.Permit) (api.RelayEntry, error) {
	if relay == api.Terminal {
		if err := dialog.Answer(ctx, l.Opts.State, fleet.Answer(p)); err != nil {
			return api.RelayEntry{}, notPermitted(p.Question, err)
		}
		return api.RelayEntry{ID: api.Terminal}, nil
	}
	f, err := l.asking()
	if err != nil {
		return api.RelayEntry{}, err
	}
	e, r, err := l.added(ctx, relay)
	if err != nil {
		return e, err
	}
	if err := f.Answer(r.ID, fleet.Answer(p)); err != nil {
		return e, notPermitted(p.Question, err)
	}
	return l.Relay(ctx, "", r.ID)
}

// notPermitted is the error for an answer that changed nothing.
func notPermitted(question string, err error) error {
	switch {
	case errors.Is(err, fleet.ErrNoQuestion), errors.Is(err, fleet.ErrUnknown):
		return api.Decide(api.CodeNotFound, seeQuestions, "there is no question %s", question)
	case errors.Is(err, fleet.ErrAnswered), errors.Is(err, fleet.ErrOtherInput):
		return api.Decide(api.CodeConflict, seeQuestions, "%s", view.Describe(err))
	case errors.Is(err, fleet.ErrAnswer):
		return api.Decide(api.CodeInvalid, seeQuestions, "%s", view.Describe(err))
	}
	return err
}
