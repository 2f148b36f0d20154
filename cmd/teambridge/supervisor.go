package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/supervisor"
)

// job returns the service as a job of this system's supervisor.
func (a *app) job() (supervisor.Job, error) {
	of := ownJob
	if a.supervised != nil {
		of = a.supervised
	}
	j, err := of(a)
	j.Debug = a.debug
	return j, err
}

// serviceLog returns the log file of the service, for systems that keep no log.
func serviceLog(a *app) string { return filepath.Join(a.state, "service.log") }

// refuseSecond refuses to install the service while another one runs, which would keep it from starting. It
// does nothing with supervisors that wait until the service is ready, since they report the failure.
func refuseSecond(a *app, u supervisor.Job) error {
	root, err := a.root()
	if err != nil || u.Notifies {
		return err
	}
	if _, err := u.Read(); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if c, err := client.Find(a.state, root.Path()); err == nil {
		return api.Decide(api.CodeError, "end it, and install again", "a service that %s did not start runs at %s", u.System, c.Where())
	}
	return nil
}

// startWait limits the wait for a service that the system has started.
const startWait = 20 * time.Second

// awaitService waits until a started service answers, if its supervisor does not wait itself.
func awaitService(ctx context.Context, a *app, u supervisor.Job, started bool) error {
	root, err := a.root()
	if err != nil || !started || u.Notifies {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, startWait))
	defer cancel()
	for {
		var s serviceState
		asked := askVersion(ctx, a, root.Path(), &s)
		if asked == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return &api.Decided{Err: fmt.Errorf("%s has started it, but no service answers: %w", u.System, asked), Code: api.CodeError, Hint: "see why with: teambridge service logs"}
		case <-time.After(100 * time.Millisecond):
		}
	}
}
