package terminal

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Ref is one pane of one tmux server. Pane ids begin again with each server, and a pane can be given a new program, so both
// process ids belong to it.
type Ref struct {
	Socket string // path of the server's socket
	Server int    // pid of the server
	ID     string // %12
	PID    int    // pid of the first process in the pane
}

// Pane is what tmux knows of a pane.
type Pane struct {
	Ref
	Session, Window string // names
	WindowIndex     int
	Index           int // of the pane, in its window
	Title           string
	Command         string // the program in front
	Path            string // its working directory
	TTY             string // /dev/pts/3
	Dead            bool   // the program has ended, and tmux kept the pane
	InputOff        bool
	Synchronized    bool
	Mode            string // copy-mode, clock-mode, …
	Width, Height   int
}

// Target is where the pane is: `session:window.pane`, with the numbers of window and pane.
func (p Pane) Target() string { return fmt.Sprintf("%s:%d.%d", p.Session, p.WindowIndex, p.Index) }

var (
	// ErrGone: the pane, its first process, or the server is not the one of the Ref any more.
	ErrGone = errors.New("the pane is gone")
	// ErrNoServer: no tmux server answers at the socket.
	ErrNoServer = errors.New("no tmux server runs")
	// ErrNoTmux: tmux is not installed.
	ErrNoTmux = errors.New("tmux is not installed")
)

// NotFoundError: no pane has that target.
type NotFoundError struct {
	Target string
	Panes  []Pane // what there is
}

func (e *NotFoundError) Error() string {
	var there []string
	for _, p := range e.Panes {
		there = append(there, p.ID+" ("+p.Target()+")")
	}
	return fmt.Sprintf("no pane %q; there are %s", e.Target, strings.Join(there, ", "))
}

// List returns all panes of a server. If socket is empty, it is the server that a plain `tmux` would use.
func List(ctx context.Context, socket string) ([]Pane, error) { return nil, errNotBuilt }

// Resolve finds the pane of a target: `%12`, or `session:window.pane` with the name of the session, number or name of the
// window, and number of the pane. Unlike tmux, it takes no prefixes and no patterns.
func Resolve(ctx context.Context, socket, target string) (Pane, error) { return Pane{}, errNotBuilt }

// Look returns the pane as it is now, or [ErrGone].
func (r Ref) Look(ctx context.Context) (Pane, error) { return Pane{}, errNotBuilt }

// Composer reads the screen, until two readings 200 ms apart are equal. A screen that does not come to rest is
// [StateUnknown].
func (r Ref) Composer(ctx context.Context, p Profile) (Composer, error) {
	return Composer{}, errNotBuilt
}

// Held says why a message of that policy would not be typed now, or is empty; see [Deliver].
func (r Ref) Held(ctx context.Context, p Profile, policy Policy) (Reason, string, error) {
	return "", "", errNotBuilt
}
