package setup

import (
	"context"

	"teambridge/relay/dialog"
)

func (s *Setup) lookQuestions(_ context.Context, st *Step) error {
	if dialog.IsOn(s.State) {
		st.State, st.Detail = Done, "what sessions ask at their terminals can be answered with teambridge permit and on the page, too"
		return nil
	}
	st.State, st.Detail = Missing, "what sessions ask at their terminals can only be answered there"
	st.Plan = "let what sessions with the plugin or the hooks ask at their terminals be answered with teambridge permit and on the page, too"
	return nil
}

func (s *Setup) answerQuestions(_ context.Context, st *Step) error {
	return s.ran(st, nil, func() error {
		st.Changed = true
		return dialog.Turn(s.State, true)
	})
}

func (s *Setup) leaveQuestions(_ context.Context, st *Step) error {
	if err := dialog.Turn(s.State, false); err != nil {
		return err
	}
	st.Changed = true
	return s.take(st, "", nil)
}
