package tmux

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Ref identifies one pane of one tmux server. It includes two process ids, because each server begins again
// with pane ids, and a pane can get a new program.
type Ref struct {
	Socket string // path of the server's socket
	Server int    // pid of the server
	ID     string // such as %12
	PID    int    // pid of the first process in the pane
}

// Pane is tmux's data about a pane.
type Pane struct {
	Ref
	Session, Window string // names
	WindowIndex     int
	Index           int // the pane's index in its window
	Title           string
	Command         string // the program in front
	Path            string // its working directory
	TTY             string // such as /dev/pts/3
	Dead            bool   // the program has ended, and tmux has kept the pane
	InputOff        bool
	Synchronized    bool
	Mode            string // copy-mode, clock-mode, …
	Width, Height   int
}

// Target returns the address of the pane: `session:window.pane`, with the numbers of window and pane.
func (p Pane) Target() string { return fmt.Sprintf("%s:%d.%d", p.Session, p.WindowIndex, p.Index) }

var (
	// ErrGone means that the pane, its first process, or the server is no longer that of the Ref.
	ErrGone = errors.New("the pane is gone")
	// ErrNoServer means that no tmux server answers at the socket.
	ErrNoServer = errors.New("no tmux server runs")
	// ErrNoTmux means that tmux is not installed.
	ErrNoTmux = errors.New("tmux is not installed")
)

// NotFoundError means that no pane has that target.
type NotFoundError struct {
	Target string
	Panes  []Pane // all panes of the server
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("tmux: there is no pane %q", e.Target)
}

// List returns all panes of a server. If socket is empty, it asks the server that a plain `tmux` would use.
func List(ctx context.Context, socket string) ([]Pane, error) {
	panes, _, err := list(ctx, socket, nil)
	return panes, err
}

// Resolve finds the pane of a target: `%12`, or `session:window.pane` with the name of the session, the
// number or name of the window, and the number of the pane. Unlike tmux, it accepts neither prefixes nor
// patterns.
func Resolve(ctx context.Context, socket, target string) (Pane, error) {
	panes, err := List(ctx, socket)
	if err != nil {
		return Pane{}, err
	}
	var found Pane
	for _, p := range panes {
		// A window that is linked into two sessions is listed twice.
		if !p.is(target) || p.ID == found.ID {
			continue
		}
		if found.ID != "" {
			return Pane{}, fmt.Errorf("tmux: %q is both %s and %s: use one of these", target, found.ID, p.ID)
		}
		found = p
	}
	if found.ID == "" {
		return Pane{}, &NotFoundError{target, panes}
	}
	return found, nil
}

// is reports whether a target names the pane. The name of a session never contains ":" or "."; the name of a
// window may.
func (p Pane) is(target string) bool {
	if strings.HasPrefix(target, "%") {
		return target == p.ID
	}
	session, rest, ok := strings.Cut(target, ":")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 0 {
		return false
	}
	window := rest[:dot]
	return session == p.Session && rest[dot+1:] == strconv.Itoa(p.Index) &&
		(window == p.Window || window == strconv.Itoa(p.WindowIndex))
}

// Look returns the current state of the pane, or [ErrGone].
func (r Ref) Look(ctx context.Context) (Pane, error) {
	p, _, err := r.look(ctx)
	return p, err
}

// read returns the pane and its composer at the same moment.
func (r Ref) read(ctx context.Context, p Profile) (Pane, Composer, error) {
	pane, screen, err := r.look(ctx, "capture-pane", "-p", "-e", "-t", r.ID)
	if err != nil {
		return Pane{}, Composer{}, err
	}
	c := p.Read(screen)
	c.Busy = c.Busy || c.Found && p.BusyTitle(pane.Title)
	return pane, c, nil
}

// rest is the time between two readings of a composer, and readings the limit of readings.
const (
	rest     = 200 * time.Millisecond
	readings = 6
)

// Composer reads the screen until two readings, 200 ms apart, are equal. If they never are, the state is
// [Unknown].
func (r Ref) Composer(ctx context.Context, p Profile) (Composer, error) {
	var last Composer
	for i := range readings {
		if i > 0 {
			if err := pause(ctx, rest); err != nil {
				return Composer{}, err
			}
		}
		_, now, err := r.read(ctx, p)
		if err != nil {
			return Composer{}, err
		}
		if i > 0 && now == last {
			return now, nil
		}
		last = now
	}
	return Composer{}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// look returns the pane, and the output of another command from the same moment.
func (r Ref) look(ctx context.Context, command ...string) (Pane, string, error) {
	if number, ok := strings.CutPrefix(r.ID, "%"); !ok || !digits(number) { // the id becomes part of a format, in which tmux can run commands
		return Pane{}, "", fmt.Errorf("tmux: %q is not a pane id", r.ID)
	}
	panes, printed, err := list(ctx, r.Socket, command, "-f", "#{==:#{pane_id},"+r.ID+"}")
	// For a missing pane, list-panes prints nothing and the other command fails.
	if errors.Is(err, ErrNoServer) || len(panes) == 0 && isMissing(err) {
		return Pane{}, "", fmt.Errorf("tmux: %s: %w", r.ID, ErrGone)
	}
	if err != nil {
		return Pane{}, "", err
	}
	if len(panes) == 0 || panes[0].Ref != r {
		return Pane{}, "", fmt.Errorf("tmux: %s: %w", r.ID, ErrGone)
	}
	return panes[0], printed, nil
}

// fields are the formats of tmux in the order in which parse reads them.
var fields = []string{
	"pid", "pane_id", "pane_pid", "socket_path", "session_name", "window_name", "window_index", "pane_index", "pane_title",
	"pane_current_command", "pane_current_path", "pane_tty", "pane_dead", "pane_input_off", "pane_synchronized", "pane_mode",
	"pane_width", "pane_height",
}

// list runs list-panes and another command. Names of windows, programs and directories may contain any
// character. So the separator of fields is random: no directory can have a name that reads as a pane.
func list(ctx context.Context, socket string, command []string, args ...string) ([]Pane, string, error) {
	separator := "\x1f" + rand.Text() + "\x1f"
	end := separator + "end"
	format := "#{" + strings.Join(fields, "}"+separator+"#{") + "}" + end
	args = append([]string{"list-panes", "-a", "-F", format}, args...)
	if len(command) > 0 {
		args = append(append(args, ";"), command...)
	}
	out, err := run(ctx, socket, nil, args...)
	rows := strings.Split(out, end+"\n")
	printed := rows[len(rows)-1]
	var panes []Pane
	for _, row := range rows[:len(rows)-1] {
		p, bad := parse(strings.Split(row, separator))
		if bad != nil {
			return nil, "", fmt.Errorf("tmux: tmux list-panes: %w", bad)
		}
		panes = append(panes, p)
	}
	return panes, printed, err
}

func parse(f []string) (Pane, error) {
	if len(f) != len(fields) {
		return Pane{}, fmt.Errorf("%d fields, want %d: tmux 3.2 or newer is needed", len(f), len(fields))
	}
	p := Pane{
		Ref:     Ref{ID: f[1], Socket: f[3]},
		Session: f[4], Window: f[5], Title: f[8], Command: f[9], Path: f[10], TTY: f[11],
		Dead: f[12] == "1", InputOff: f[13] == "1", Synchronized: f[14] == "1", Mode: f[15],
	}
	for i, n := range map[int]*int{0: &p.Server, 2: &p.PID, 6: &p.WindowIndex, 7: &p.Index, 16: &p.Width, 17: &p.Height} {
		var err error
		if *n, err = strconv.Atoi(f[i]); err != nil {
			return Pane{}, fmt.Errorf("%s: %w", fields[i], err)
		}
	}
	return p, nil
}

// callLimit limits one call of tmux. Most calls take 5 ms; a stopped server never answers.
var callLimit = 10 * time.Second // Relax changes it

// callError means that tmux exited with an error.
type callError struct {
	command, stderr string
	err             error
}

func (e *callError) Error() string {
	return fmt.Sprintf("tmux: tmux %s: %v: %s", e.command, e.err, e.stderr)
}

func (e *callError) Unwrap() error { return e.err }

// isMissing reports whether tmux did not find a target. A server without sessions has no current target.
func isMissing(err error) bool {
	var call *callError
	return err == nil || errors.As(err, &call) && (strings.Contains(call.stderr, "can't find") || strings.Contains(call.stderr, "no current target"))
}

// run calls tmux once. Without -u, tmux would print underscores for characters that are not ASCII.
func run(ctx context.Context, socket string, stdin io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callLimit, fmt.Errorf("no answer for %v", callLimit))
	defer cancel()
	argv := []string{"-u"}
	if socket != "" {
		argv = append(argv, "-S", socket)
	}
	cmd := exec.CommandContext(ctx, "tmux", append(argv, args...)...)
	var stdout, stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	cmd.WaitDelay = callLimit // a starved process reads the output late
	err := cmd.Run()
	if err == nil {
		return stdout.String(), nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("tmux: %w; install tmux 3.2 or newer", ErrNoTmux)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	message := strings.TrimSpace(stderr.String())
	if strings.HasPrefix(message, "no server running") || strings.HasPrefix(message, "server exited") || strings.HasPrefix(message, "lost server") || strings.HasPrefix(message, "error connecting") &&
		(strings.Contains(message, "No such file") || strings.Contains(message, "refused")) {
		return "", fmt.Errorf("tmux: %w: %s", ErrNoServer, message)
	}
	return stdout.String(), &callError{args[0], message, err}
}
