package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/login"
	"teambridge/status/systemd"
)

// supervisor is the part of the system that runs the service: a [systemd.Unit] or a [login.Item].
type supervisor interface {
	System() string // "systemd"
	File() string   // what describes the service to the system
	Read() (string, error)
	Text(command, env []string) (string, error)
	Install(ctx context.Context, text string, start bool) (api.Installed, error)
	Restart(ctx context.Context) error
	Uninstall(ctx context.Context) (_ api.Uninstalled, stopped bool, err error)
	State(ctx context.Context) (string, error)
	Notifies() bool // it has started only when it is ready
	Note(api.Installed) string
	NotStopped() string
	LogCommand(follow bool, lines int, json bool) ([]string, error)
}

var (
	_ supervisor = systemd.Unit{}
	_ supervisor = login.Item{}
)

// supervisor is that of this system.
func (a *app) supervisor() (supervisor, error) {
	if a.supervised != nil {
		return a.supervised(a)
	}
	return ownSupervisor(a)
}

// refuseSecond refuses to install what a service that runs would keep from running, where nobody would say so: a
// supervisor that waits until the service is ready says it.
func refuseSecond(a *app, u supervisor) error {
	root, err := a.root()
	if err != nil || u.Notifies() {
		return err
	}
	if _, err := u.Read(); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if c, err := client.Find(a.state, root.Path()); err == nil {
		return api.Decide(api.CodeError, "end it, and install again", "a service that %s did not start runs at %s", u.System(), c.Where())
	}
	return nil
}

// startWait is how long a service is waited for that the system has started.
const startWait = 20 * time.Second

// awaitService waits until the service answers that a supervisor has started which does not wait for that.
func awaitService(ctx context.Context, a *app, u supervisor, started bool) error {
	root, err := a.root()
	if err != nil || !started || u.Notifies() {
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
			return &api.Decided{Err: fmt.Errorf("%s has started it, but no service answers: %w", u.System(), asked), Code: api.CodeError, Hint: "see why with: teambridge service logs"}
		case <-time.After(100 * time.Millisecond):
		}
	}
}
