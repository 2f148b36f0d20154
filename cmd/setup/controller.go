package setup

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"teambridge/relay/qwen"
)

// controllerStep makes teambridge a controller of Qwen Code.
type controllerStep struct{ *Setup }

func (r record) controller() string {
	if len(r.Command) == 0 {
		return ""
	}
	return r.Command[0]
}

func (s controllerStep) look(_ context.Context, st *Step) error {
	if s.Qwen == "" {
		return errors.New("the directory of Qwen Code is not known: set $HOME or $QWEN_HOME to an absolute path")
	}
	if c, ok := qwen.ControllerOf(s.State, s.Qwen); ok {
		st.State, st.Detail = Done, "what you send counts as your own words: teambridge is the controller "+c.ID
		return nil
	}
	st.State, st.Detail = Missing, "what you send comes without your authority"
	st.Plan = "make teambridge a controller of Qwen Code: what you send, and no agent, then counts as your own words there, and nobody is asked"
	return nil
}

var minted = regexp.MustCompile(`\((c_[0-9a-f]+)\)[^\x00]*?\b(qpc_[0-9a-f]{64})\b`)

func (s controllerStep) do(ctx context.Context, st *Step) error {
	if _, ok := qwen.ControllerOf(s.State, s.Qwen); ok { // it was added after the check
		return nil
	}
	c := qwen.Controller{Home: s.Qwen}
	if err := s.ran(st, nil, func() error {
		out, err := s.run(ctx, st, "sessions", "controllers", "add", "--label", "teambridge")
		if err != nil {
			return err
		}
		found := minted.FindSubmatch(out)
		if found == nil {
			return errors.New("qwen sessions controllers add has printed no token; see what it has added with: qwen sessions controllers list")
		}
		st.Changed = true
		c.ID, c.Token = string(found[1]), string(found[2])
		return nil
	}, qwen.ControllersFile(s.Qwen)); err != nil {
		return err
	}
	return s.ran(st, []string{c.ID}, func() error { return qwen.KeepController(s.State, c) })
}

func (s controllerStep) undo(ctx context.Context, st *Step) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	r, done := all.find(st)
	if !done {
		return nil
	}
	if qwen.HasController(s.Qwen, r.controller()) { // otherwise the person has revoked it
		if _, err := s.run(ctx, st, "sessions", "controllers", "remove", r.controller()); err != nil {
			return err
		}
		if qwen.HasController(s.Qwen, r.controller()) {
			return fmt.Errorf("qwen sessions controllers remove %s has not removed it", r.controller())
		}
	}
	if err := qwen.ForgetController(s.State); err != nil {
		return err
	}
	st.Changed = true
	return s.take(st, "", nil)
}
