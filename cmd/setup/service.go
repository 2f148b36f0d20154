package setup

import (
	"context"
	"errors"
)

// serviceStep makes the system run the service.
type serviceStep struct{ *Setup }

// System runs the service from login on: systemd, launchd or the Task Scheduler.
type System interface {
	// Installed reports whether the file that describes the service exists. It fails if teambridge did not
	// write the file.
	Installed() (bool, error)
	File() string
	Install(context.Context) (changed bool, err error)
	Uninstall(context.Context) (removed bool, err error)
}

var errNoSystem = errors.New("nothing here runs a service from login on: set $HOME to an absolute path")

func (s serviceStep) look(_ context.Context, st *Step) error {
	if s.System == nil {
		return errNoSystem
	}
	is, err := s.System.Installed()
	switch {
	case err != nil:
		st.State, st.Detail = Other, err.Error()
	case is:
		st.State, st.Detail = Done, "the system runs the service from login on: "+s.System.File()
	default:
		st.State, st.Detail = Missing, "the system does not run the service"
		st.Plan = "have the system run the service from login on: " + s.System.File()
	}
	return nil
}

func (s serviceStep) do(ctx context.Context, st *Step) error {
	if is, err := s.System.Installed(); is || err != nil {
		return err
	}
	return s.ran(st, nil, func() (err error) {
		st.Changed, err = s.System.Install(ctx)
		return err
	})
}

func (s serviceStep) undo(ctx context.Context, st *Step) (err error) {
	if s.System == nil {
		return errNoSystem
	}
	if st.Changed, err = s.System.Uninstall(ctx); err != nil {
		return err
	}
	return s.take(st, "", nil)
}

// there reports whether the system runs the service.
func (s serviceStep) there(context.Context, *Step) bool {
	if s.System == nil {
		return false
	}
	is, err := s.System.Installed()
	return is && err == nil
}
