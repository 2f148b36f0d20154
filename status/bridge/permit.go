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

// asked returns the questions of agents of the service in a team, or in all, and the questions of sessions at
// their terminals. The latter have no team yet: see [Control.placed].
func (l *Control) asked(ctx context.Context, team string) ([]api.Asked, error) {
	list := []api.Asked{}
	root, err := l.AnyRoot()
	if root == nil {
		return list, err
	}
	if f := l.carrying.Fleet; f != nil {
		for _, q := range f.Asked() {
			if team == "" || q.Relay.Team == team {
				member := root.MemberName(ctx, q.Relay.Team, q.Relay.Member)
				list = append(list, api.Asked{Relay: q.Relay.ID, Team: q.Relay.Team, Member: member, State: api.QuestionOpen, Question: api.Question(q.Question)})
			}
		}
	}
	if l.Opts.State == "" {
		return list, nil
	}
	dialogs, err := dialog.Open(l.Opts.State)
	for _, q := range dialogs {
		if q.Claude == root.Path() {
			list = append(list, api.Asked{Relay: api.Terminal, State: api.QuestionOpen, Question: api.Question(q.Question)})
		}
	}
	slices.SortStableFunc(list, func(x, y api.Asked) int { return x.At.Compare(y.At) })
	return list, err
}

// placed sets the team and member of the questions at terminals. It removes those without an attention item:
// they were asked or answered just now.
func (l *Control) placed(ctx context.Context, team string, list []api.Asked) ([]api.Asked, error) {
	if !slices.ContainsFunc(list, func(q api.Asked) bool { return q.Relay == api.Terminal }) {
		return list, nil
	}
	waits, err := l.Attention(ctx, team)
	if err != nil {
		return nil, err
	}
	known := []api.Asked{}
	for _, q := range list {
		if q.Relay == api.Terminal {
			i := slices.IndexFunc(waits, func(a api.Attention) bool { return a.Relay == api.Terminal && a.ID == q.ID })
			if i < 0 {
				continue
			}
			q.Team, q.Member = waits[i].Team, waits[i].Member
		}
		known = append(known, q)
	}
	return known, nil
}

// noneAsk is the error of a process that runs no agents, and so has no questions. It names an agent that waits
// for the person at its terminal, if there is one.
func (l *Control) noneAsk(ctx context.Context, team string) error {
	list, err := l.Attention(ctx, team)
	for _, w := range list {
		if err == nil && w.Kind == api.WaitsTerminal {
			return api.Decide(api.CodeNotFound, w.AtShell()+"; so that it can be answered here, too: teambridge setup questions", "no question can be answered here, since no service runs agents; %s %s", w.Member+"@"+w.Team, w.What)
		}
	}
	return api.Decide(api.CodeNotFound, `start a service with: teambridge serve; agents of "teambridge run" ask at its own terminal`, "no agent waits for an answer, since no service runs agents")
}

// Questions returns the open questions of agents; see [api.Bridge].
func (l *Control) Questions(ctx context.Context, team string) ([]api.Asked, error) {
	list, err := l.asked(ctx, team)
	if err == nil {
		list, err = l.placed(ctx, team, list)
	}
	if err == nil && len(list) == 0 && l.carrying.Fleet == nil {
		err = l.noneAsk(ctx, team)
	}
	return list, err
}

// Question returns an open question; see [api.Bridge].
func (l *Control) Question(ctx context.Context, team, id string) (q api.Asked, err error) {
	list, err := l.asked(ctx, team)
	was, ended := dialog.Became(l.Opts.State, id)
	if err != nil && !ended {
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
		i := slices.Index(ids, whole)
		if found, err := l.placed(ctx, team, list[i:i+1]); err != nil || len(found) > 0 {
			return append(found, q)[0], err
		}
	}
	f := l.carrying.Fleet
	switch {
	case ended:
		return q, notPermitted(id, fmt.Errorf("question %s: %w: %s", id, fleet.ErrAnswered, was))
	case f == nil && len(list) == 0:
		return q, l.noneAsk(ctx, team)
	case f != nil: // a fleet knows the outcome; an answer without a digest answers nothing
		if err := f.Answer(fleet.Answer{Question: id}); errors.Is(err, fleet.ErrAnswered) {
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
	if q.Relay == api.Terminal {
		err = dialog.Answer(ctx, l.Opts.State, fleet.Answer(p))
	} else {
		err = l.carrying.Fleet.Answer(fleet.Answer(p))
	}
	if err != nil {
		return q, notPermitted(q.ID, err)
	}
	q.State = api.QuestionDenied
	if p.Allow {
		q.State = api.QuestionAllowed
	}
	return q, nil
}

// notPermitted returns the error for an answer that changed nothing.
func notPermitted(question string, err error) error {
	switch {
	case errors.Is(err, fleet.ErrNoQuestion):
		return api.Decide(api.CodeNotFound, seeQuestions, "there is no question %s", question)
	case errors.Is(err, fleet.ErrAnswered), errors.Is(err, fleet.ErrOtherInput):
		return api.Decide(api.CodeConflict, seeQuestions, "%s", view.Describe(err))
	case errors.Is(err, fleet.ErrAnswer):
		return api.Decide(api.CodeInvalid, seeQuestions, "%s", view.Describe(err))
	}
	return err
}
