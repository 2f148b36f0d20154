package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/relay/process"
	"teambridge/relay/relaytest/model"
	"teambridge/teams"
)

// Options configure a measurement.
type Options struct {
	// Command is the program and its first arguments.
	Command []string
	// Progress is called with the name of each step.
	Progress func(string)
	// Limit is the limit of the whole measurement. The default is [Limit].
	Limit time.Duration
	// Quiet is how long an event must be missing to count as absent. The default is [Quiet].
	Quiet time.Duration
	// Step is the limit of one step. The default is [Step].
	Step time.Duration
	// Hold is how long a lock is held that an agent must wait for. The default is [Hold].
	Hold time.Duration

	patience func(point string) time.Duration // if not nil, returns how long to wait for the event that decides a point
	grace    time.Duration                    // how long a program may take to end on request
	half     func(points []Point) bool        // if not nil, reports whether to measure these points, which share a home
}

// The defaults of [Options]. An agent reads its inbox every 0.5 or 1 s.
const (
	Limit = 110 * time.Second
	Quiet = 2500 * time.Millisecond
	Step  = 30 * time.Second
	Hold  = 300 * time.Millisecond
)

// Found is the result for a point.
type Found struct {
	Point
	Expected Answer
	Found    Answer // Unsure if it was not measured
	Why      string // why it was not measured
}

// Changed reports whether the result differs from the expected one.
func (f Found) Changed() bool {
	return f.Expected != Unsure && f.Found != Unsure && f.Expected != f.Found
}

// Unmeasured reports whether a result was expected and none was found.
func (f Found) Unmeasured() bool { return f.Expected != Unsure && f.Found == Unsure }

// Result is the result of a measurement.
type Result struct {
	Version teams.Version
	At      time.Time
	Took    time.Duration
	Points  []Found // in the order of [Points]
}

// Changed returns the points whose result differs from the expected one.
func (r Result) Changed() []Found {
	return slices.DeleteFunc(slices.Clone(r.Points), func(f Found) bool { return !f.Changed() })
}

// Unmeasured returns the points for which a result was expected and none was found.
func (r Result) Unmeasured() []Found {
	return slices.DeleteFunc(slices.Clone(r.Points), func(f Found) bool { return !f.Unmeasured() })
}

// Confirm returns the result without the changes that a second run did not find. On a busy machine, a program
// can seem to behave differently.
func (r Result) Confirm(again Result) Result {
	r.Took += again.Took
	r.Points = slices.Clone(r.Points)
	for i, f := range r.Points {
		if f.Changed() && again.Points[i].Found != f.Found {
			r.Points[i].Found, r.Points[i].Why = Unsure, "two runs did not find the same"
		}
	}
	return r
}

// ErrNothing means that nothing could be measured.
var ErrNothing = errors.New("nothing could be measured")

// Run measures a Claude Code. It reads nothing in the person's home directory, and writes only into a
// temporary directory, which it removes. All its processes have ended when it returns. The error is
// [ErrNothing] if nothing was found, a [*teams.OutdatedError] if teambridge does not support the program's
// version, or the error of ctx.
func Run(ctx context.Context, o Options) (r Result, err error) {
	if o.Limit == 0 {
		o.Limit = Limit
	}
	if o.Quiet == 0 {
		o.Quiet = Quiet
	}
	if o.Step == 0 {
		o.Step = Step
	}
	if o.Hold == 0 {
		o.Hold = Hold
	}
	if o.grace == 0 {
		o.grace = 3 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r.At = time.Now()
	dir, err := os.MkdirTemp("", "tb-probe-") // short, because it contains sockets
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, removeAll(dir)) }()
	limited, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("it has taken longer than %s", o.Limit))
	defer cancel()

	var halves []half
	for _, h := range []half{{"t", teamPoints(), withHook, (*bench).team, nil}, {"h", headlessPoints(), withoutHook, (*bench).headless, nil}} {
		if o.half != nil && !o.half(h.points) {
			continue
		}
		if h.bench, err = newBench(limited, filepath.Join(dir, h.name), h.settings, o); err != nil {
			return Result{}, err
		}
		defer h.close()
		halves = append(halves, h)
	}
	o.Progress("version")
	if r.Version, err = halves[0].version(); err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrNothing, err)
	}
	if err := r.Version.Check("the program"); err != nil {
		return Result{}, err
	}
	var all sync.WaitGroup
	for _, h := range halves {
		all.Go(func() { h.err = h.measure(h.bench) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	r.Took = time.Since(r.At)
	any := false
	var failed []error
	for _, h := range halves {
		failed = append(failed, h.err)
		for _, p := range h.points {
			f := Found{Point: p, Expected: p.Expected(r.Version)}
			got, ok := h.found[p.Name]
			if !ok {
				got.why = fmt.Sprint(cmp.Or(h.err, errUnseen))
			}
			f.Found, f.Why = got.is, got.why
			any = any || f.Found != Unsure
			r.Points = append(r.Points, f)
		}
	}
	if !any {
		return r, fmt.Errorf("%w: %w", ErrNothing, errors.Join(failed...))
	}
	return r, nil
}

var errUnseen = errors.New("nothing of it was seen")

// removeAll removes a directory. It retries, because a killed process may still be writing there.
func removeAll(dir string) (err error) {
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// half is the part of a measurement that uses one home.
type half struct {
	name     string
	points   []Point
	settings string
	measure  func(*bench) error
	*bench
}

// bench is a home in which Claude Code runs, with the results found there.
type bench struct {
	ctx  context.Context
	o    Options
	home *model.Home
	api  *model.API

	mu    sync.Mutex
	found map[string]outcome
	hooks []hook
	err   error // why no more results were found
}

type outcome struct {
	is  Answer
	why string
}

// The settings allow the tools that the measurements use. withHook also records the input of the Stop hook.
const (
	withoutHook = `{"permissions":{"allow":["SendMessage","Agent","Task"]}}`
	withHook    = `{"permissions":{"allow":["SendMessage","Agent","Task"]},
"hooks":{"Stop":[{"hooks":[{"type":"command","command":"cat >>\"$CLAUDE_CONFIG_DIR/stop.jsonl\"; echo >>\"$CLAUDE_CONFIG_DIR/stop.jsonl\""}]}]}}
`
)

func newBench(ctx context.Context, dir, settings string, o Options) (*bench, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	b := &bench{ctx: ctx, o: o, found: map[string]outcome{}}
	var err error
	if b.api, err = model.Start(b.respond); err != nil {
		return nil, err
	}
	if b.home, err = model.NewHome(dir, b.api); err == nil {
		err = os.WriteFile(filepath.Join(b.home.Root, "settings.json"), []byte(settings), 0o600)
	}
	if err != nil {
		b.api.Close()
		return nil, err
	}
	return b, nil
}

// close ends all processes that still run in the home.
func (b *bench) close() {
	b.api.Close()
	b.home.Sweep()
}

// version asks the program for its version.
func (b *bench) version() (teams.Version, error) {
	ctx, cancel := context.WithTimeoutCause(b.ctx, b.o.Step, errors.New("it did not say its version"))
	defer cancel()
	args := b.o.Command
	cmd := exec.CommandContext(ctx, args[0], append(slices.Clone(args[1:]), "--version")...)
	cmd.Dir, cmd.Env = b.home.Work, b.home.Env()
	process.OwnGroup(cmd)
	cmd.Cancel = func() error { return process.KillGroup(cmd.Process.Pid) }
	// To a file: a pipe would have to be read until all processes that have it end.
	out, err := os.Create(filepath.Join(b.home.Dir, "version"))
	if err != nil {
		return teams.Version{}, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	printed, readErr := os.ReadFile(out.Name())
	said, err := strings.TrimSpace(string(printed)), cmp.Or(err, readErr)
	if ctx.Err() != nil {
		return teams.Version{}, fmt.Errorf("%s --version: %w", args[0], context.Cause(ctx))
	} else if err != nil {
		return teams.Version{}, fmt.Errorf("%s --version: %w; it printed: %.300s", args[0], err, said)
	}
	v, err := teams.ParseVersion(said)
	if err != nil {
		return teams.Version{}, fmt.Errorf("%s --version printed no version: %.300s", args[0], said)
	}
	return v, nil
}

// is records the result for a point. Only the first result counts.
func (b *bench) is(point string, so bool) {
	a := No
	if so {
		a = Yes
	}
	b.note(point, outcome{is: a})
}

// cannot records why a point was not measured.
func (b *bench) cannot(err error, points ...string) {
	for _, p := range points {
		b.note(p, outcome{why: err.Error()})
	}
}

func (b *bench) note(point string, o outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, twice := b.found[point]; !twice {
		b.found[point] = o
	}
}

// wait polls until so reports true. The error names the missing event.
func (b *bench) wait(limit time.Duration, what string, so func() bool) error {
	ctx, cancel := context.WithTimeoutCause(b.ctx, limit, fmt.Errorf("%s did not come within %s", what, limit))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// hears reports whether the event that decides a point arrives. An expected event gets more time.
func (b *bench) hears(point string, expected bool, so func() bool) bool {
	limit := b.o.Quiet
	if expected {
		limit = max(b.o.Quiet, b.o.Step/3)
	}
	return b.wait(b.patience(point, limit), "it", so) == nil
}

// patience returns how long to wait for the event that decides a point.
func (b *bench) patience(point string, limit time.Duration) time.Duration {
	if b.o.patience != nil && point != "" {
		return b.o.patience(point)
	}
	return limit
}

// asked waits until an agent's model has received a marker and has answered.
func (b *bench) asked(limit time.Duration, agent, marker string) (model.Request, error) {
	ctx, cancel := context.WithTimeoutCause(b.ctx, limit, fmt.Errorf("it did not come within %s", limit))
	defer cancel()
	r, err := b.api.Wait(ctx, func(r model.Request) bool {
		return !r.Side && (agent == model.Any || r.Agent == agent) && !r.Answered.IsZero() && whole(r, marker)
	})
	if err != nil {
		return r, fmt.Errorf("the model of %s was not given %s: %w", agent, marker, context.Cause(ctx))
	}
	return r, nil
}

// whole reports whether the new part of a request contains a marker.
func whole(r model.Request, marker string) bool {
	return slices.ContainsFunc(r.Uncut, func(s string) bool { return strings.Contains(s, marker) })
}

// hook answers a request once, ahead of the script. If do returns nil, the script answers.
type hook struct {
	match func(model.Request) bool
	do    func(model.Request) *model.Answer
}

// before calls do before the model answers the request with the marker.
func (b *bench) before(marker string, do func()) {
	b.answer(func(r model.Request) bool { return r.Has(marker) }, func(model.Request) *model.Answer { do(); return nil })
}

// answer lets do answer the next matching request.
func (b *bench) answer(match func(model.Request) bool, do func(model.Request) *model.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hooks = append(b.hooks, hook{match, do})
}

func (b *bench) respond(ctx context.Context, r model.Request) model.Answer {
	if r.Side {
		return model.Script(ctx, r)
	}
	b.mu.Lock()
	i := slices.IndexFunc(b.hooks, func(h hook) bool { return h.match(r) })
	var do func(model.Request) *model.Answer
	if i >= 0 {
		do = b.hooks[i].do
		b.hooks = slices.Delete(b.hooks, i, i+1)
	}
	b.mu.Unlock()
	if do != nil {
		if a := do(r); a != nil {
			return *a
		}
	}
	return model.Script(ctx, r)
}
