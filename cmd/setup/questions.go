package setup

import (
	"context"

	"teambridge/relay/dialog"
	"teambridge/relay/wake"
)

// switchStep is a permission that the person gives, kept as a file in the state directory.
type switchStep struct{ *Setup }

// switches are the steps that switch something on by a file in the state directory, by name.
var switches = map[string]struct {
	isOn            func(state string) bool
	turn            func(state string, on bool) error
	done, off, plan string
}{
	Asks: {dialog.IsOn, dialog.Turn,
		"what sessions ask at their terminals can be answered with teambridge permit and on the page, too",
		"what sessions ask at their terminals can only be answered there",
		"let what sessions with the plugin or the hooks ask at their terminals be answered with teambridge permit and on the page, too"},
	Respawn: {wake.MayRespawn, wake.AllowRespawn,
		"a message starts a session again that was stopped in the background",
		"messages to a session that was stopped in the background wait until it is started again",
		"let messages start sessions again that were stopped in the background, with claude respawn"},
}

func (s switchStep) look(_ context.Context, st *Step) error {
	w := switches[st.Name]
	if st.State, st.Detail = Done, w.done; !w.isOn(s.State) {
		st.State, st.Detail, st.Plan = Missing, w.off, w.plan
	}
	return nil
}

func (s switchStep) do(_ context.Context, st *Step) error {
	return s.ran(st, nil, func() error {
		st.Changed = true
		return switches[st.Name].turn(s.State, true)
	})
}

func (s switchStep) undo(_ context.Context, st *Step) error {
	if err := switches[st.Name].turn(s.State, false); err != nil {
		return err
	}
	st.Changed = true
	return s.take(st, "", nil)
}
