package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude"
	"teambridge/relay/process"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// headless is a user who runs a real headless agent as the lead of the team "mine". Its bridge is the process
// "teambridge run", which can be killed.
type headless struct {
	t       *testing.T
	ctx     context.Context // for all waits
	l       *ledger.Ledger
	version teams.Version
	home    *standin.Home
	state   string
	team    string
	command []string // the agent's command

	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when the bridge that runs has ended

	mu      sync.Mutex
	said    []saying
	stderr  bytes.Buffer
	changed chan struct{} // closed and replaced with each saying
}

// saying is a line of run --output events.
type saying struct {
	Run int // the number of the start whose bridge printed it, from 1

	Status   string
	Queue    int
	InFlight string
	PID      int
	Session  string
	Reason   string

	Frame, State string

	Result *string
	Text   string

	Permission *struct{ ID, Digest, Tool string }
	Open       bool

	// Lines of the agent itself, with --output raw.
	Type, Subtype, PermissionMode, Model string
}

// newHeadless makes a user whose model answers by respond, or by Script if that is nil.
func newHeadless(t *testing.T, v teams.Version, respond standin.Responder) *headless {
	t.Helper()
	// The default model depends on the version.
	command := append(standin.Require(t, v), "--dangerously-skip-permissions", "--model", "sonnet")
	h := newHeadlessIn(t, standin.NewHome(t, standin.StartAPI(t, respond)), command...)
	h.version = v
	return h
}

// newHeadlessIn does the same for any command, in an existing home.
func newHeadlessIn(t *testing.T, home *standin.Home, command ...string) *headless {
	t.Helper()
	h := &headless{t: t, ctx: deadline(t, patience), home: home, state: filepath.Join(home.Dir, "state"), team: "mine", command: command, changed: make(chan struct{})}
	var err error
	if h.l, err = ledger.Open(t.Context(), filepath.Join(h.state, "ledger.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.l.Close() })
	return h
}

// start starts teambridge run with these additional flags, and returns at once.
func (h *headless) start(flags ...string) {
	h.t.Helper()
	args := append([]string{"run", "--team", h.team, "--exit-on-eof", "--output", "events"}, flags...)
	if !slices.Contains(flags, "--team") && h.team == "mine" {
		args = append(args, "--create-team")
	}
	h.cmd = exec.Command("teambridge", append(append(args, "--"), h.command...)...)
	h.cmd.Dir = h.home.Work
	h.cmd.Env = append(h.home.Env(), "TEAMBRIDGE_STATE="+h.state, "GORACE=atexit_sleep_ms=0")
	stdin, err := h.cmd.StdinPipe()
	must(h.t, err)
	h.stdin = stdin
	stdout, err := h.cmd.StdoutPipe()
	must(h.t, err)
	h.cmd.Stderr = writing(func(b []byte) (int, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.stderr.Write(b)
	})
	h.cmd.WaitDelay = 5 * time.Second // other processes may have its stderr open
	must(h.t, h.cmd.Start())
	h.mu.Lock()
	run := 1
	if n := len(h.said); n > 0 {
		run = h.said[n-1].Run + 1
	}
	h.say(saying{Run: run}) // so that the output of each run can be told apart
	h.mu.Unlock()
	cmd, ended := h.cmd, make(chan struct{})
	h.ended = ended
	go func() {
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			s := saying{Run: run}
			// A line that a kill cut off does not count.
			if json.Unmarshal(lines.Bytes(), &s) == nil {
				h.mu.Lock()
				h.say(s)
				h.mu.Unlock()
			}
		}
		_ = cmd.Wait() // its status is in ProcessState
		close(ended)
	}()
	h.t.Cleanup(func() {
		select {
		case <-ended:
		default:
			_ = cmd.Process.Kill()
			<-ended
		}
		if h.t.Failed() && h.ended == ended {
			h.t.Logf("run %d: %s", run, h)
		}
	})
}

type writing func([]byte) (int, error)

func (f writing) Write(b []byte) (int, error) { return f(b) }

// say is called with the lock held.
func (h *headless) say(s saying) {
	h.said = append(h.said, s)
	close(h.changed)
	h.changed = make(chan struct{})
}

// String returns the last sayings, for failures.
func (h *headless) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	for _, s := range h.said[max(0, len(h.said)-12):] {
		if len(s.Text) > 100 {
			s.Text = s.Text[:100]
		}
		fmt.Fprintf(&b, "  %+v\n", s)
	}
	return b.String() + "stderr: " + h.stderr.String() + "\nAPI: " + h.home.API.String()
}

// sayings returns all sayings so far.
func (h *headless) sayings() []saying {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

// wait returns the first saying of the running bridge, past or future, that matches.
func (h *headless) wait(what string, match func(saying) bool) saying {
	h.t.Helper()
	for next, over := 0, false; ; {
		h.mu.Lock()
		fresh, changed, run := h.said[next:], h.changed, h.said[len(h.said)-1].Run
		h.mu.Unlock()
		next += len(fresh)
		for _, s := range fresh {
			if s.Run == run && match(s) {
				return s
			}
		}
		if over {
			h.t.Fatalf("the bridge ended before %s\n%s", what, h)
		}
		select {
		case <-changed:
		case <-h.ended:
			over = true
		case <-h.ctx.Done():
			h.t.Fatalf("never %s\n%s", what, h)
		}
	}
}

// typing types lines into the bridge's standard input.
func (h *headless) typing(lines ...string) {
	h.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(h.stdin, l+"\n"); err != nil {
			h.t.Fatalf("%v\n%s", err, h)
		}
	}
}

// finish ends standard input, and waits until the bridge has ended with success.
func (h *headless) finish() {
	h.t.Helper()
	_ = h.stdin.Close() // it may have ended
	select {
	case <-h.ended:
	case <-h.ctx.Done():
		h.t.Fatalf("run did not end\n%s", h)
	}
	if status := h.cmd.ProcessState.ExitCode(); status != 0 {
		h.t.Errorf("run ended with %d\n%s", status, h)
	}
}

// kill kills the bridge, as kill -9 does, and waits for its death.
func (h *headless) kill() {
	h.t.Helper()
	if err := h.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		h.t.Fatal(err)
	}
	<-h.ended
}

// run runs one command line, as the same user.
func (h *headless) run(args ...string) (status int, stdout, stderr string) {
	h.t.Helper()
	return outcome(h.t, program(h.home.Work, h.home.Dir, h.home.Root, args, "TEAMBRIDGE_STATE="+h.state))
}

func (h *headless) must(args ...string) string {
	h.t.Helper()
	status, out, errs := h.run(args...)
	for i := 0; i < 20 && status == api.ExitLocked; i++ { // as in send
		status, out, errs = h.run(args...)
	}
	if status != 0 {
		h.t.Fatalf("teambridge %s: exit status %d\n%s%s", strings.Join(args, " "), status, out, errs)
	}
	return out
}

// send sends messages to the lead.
func (h *headless) send(texts ...string) {
	h.t.Helper()
	for _, text := range texts {
		id := uuid.NewString()
		for {
			status, _, errs := h.run("send", "team-lead@"+h.team, text, "--id", id)
			if status == 0 {
				break
			}
			if status != api.ExitLocked { // a busy machine can cause it, and then nothing was written
				h.t.Fatalf("send %.40s: exit status %d\n%s", text, status, errs)
			}
		}
	}
}

// up waits until the agent runs and no message waits.
func (h *headless) up() saying {
	h.t.Helper()
	return h.wait("idle", func(s saying) bool { return s.Status == "idle" && s.PID != 0 })
}

// deliveries returns all deliveries of the team in the ledger, oldest first.
func (h *headless) deliveries() []ledger.Delivery {
	h.t.Helper()
	all, err := h.l.Deliveries.List(context.Background(), ledger.DeliveryQuery{Team: h.team})
	must(h.t, err)
	slices.Reverse(all)
	return all
}

// settled waits until n deliveries have ended, and returns all deliveries.
func (h *headless) settled(n int) []ledger.Delivery {
	h.t.Helper()
	return h.counted(n, "ended", ledger.DeliveryState.Ended)
}

// claimed waits until there are n deliveries, in any state.
func (h *headless) claimed(n int) {
	h.t.Helper()
	h.counted(n, "been claimed", func(ledger.DeliveryState) bool { return true })
}

func (h *headless) counted(n int, what string, is func(ledger.DeliveryState) bool) []ledger.Delivery {
	h.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		all := h.deliveries()
		found := 0
		for _, d := range all {
			if is(d.State) {
				found++
			}
		}
		if found >= n {
			return all
		}
		select {
		case <-tick.C:
		case <-h.ended:
			h.t.Fatalf("the bridge ended when %d of %d deliveries had %s\n%s", found, n, what, h)
		case <-h.ctx.Done():
			h.t.Fatalf("%d of %d deliveries have %s\n%s", found, n, what, h)
		}
	}
}

// agent returns the lead's session in the ledger, and its process.
func (h *headless) agent() (ledger.Session, process.Predecessor) {
	h.t.Helper()
	all, err := h.l.Sessions.List(context.Background(), "")
	must(h.t, err)
	for _, s := range all {
		if s.Team == h.team {
			return s, process.Predecessor{PID: s.PID, Group: s.Group, Start: s.Start}
		}
	}
	return ledger.Session{}, process.Predecessor{}
}

// killAgent kills the agent, if one runs, and waits for its death.
func (h *headless) killAgent() {
	h.t.Helper()
	_, p := h.agent()
	if alive, err := p.Alive(); err != nil || !alive {
		return
	}
	process, err := os.FindProcess(p.PID)
	if err == nil {
		err = process.Kill()
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		h.t.Fatal(err)
	}
	must(h.t, p.Wait(h.ctx))
}

// transcript returns the transcript of one of the agent's sessions.
func (h *headless) transcript(session string) claude.Transcript {
	return claude.Transcript{Root: h.home.Root, Dir: h.home.Work, Session: session}
}

// asked returns the calls of the model with new texts, except for those that belong to no turn of the conversation.
func (h *headless) asked() []standin.Request {
	return slices.DeleteFunc(h.home.API.Log(), func(r standin.Request) bool { return r.Side || len(r.Texts) == 0 })
}

// config returns the team's config.
func (h *headless) config() *teams.Config {
	h.t.Helper()
	root, err := teams.Open(h.home.Root)
	must(h.t, err)
	defer root.Close()
	team, err := root.Team(h.team)
	must(h.t, err)
	defer team.Close()
	c, err := team.Config(h.ctx)
	must(h.t, err)
	return c
}

// done waits until n messages have ended, and checks that their only outcome is done.
func (h *headless) done(n int) []ledger.Delivery {
	h.t.Helper()
	all := h.settled(n)
	for _, d := range all {
		if d.State != ledger.Done {
			h.t.Errorf("%s: %s (%s), want done\n%s", d.Raw, d.State, d.Reason, h)
		}
	}
	return all
}

// given waits until the model was given a text.
func (h *headless) given(text string) {
	h.t.Helper()
	given(h.t, h.ctx, h.home.API, standin.Any, text)
}

// holding returns a model that does not answer the calls that match held until release is closed.
func holding(held func(standin.Request) bool) (respond standin.Responder, release chan struct{}) {
	release = make(chan struct{})
	return func(ctx context.Context, r standin.Request) standin.Answer {
		if held(r) {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return standin.Script(ctx, r)
	}, release
}

// called waits until a call of the model matches.
func (h *headless) called(match func(standin.Request) bool) {
	h.t.Helper()
	if _, err := h.home.API.Wait(h.ctx, match); err != nil {
		h.t.Fatalf("%v\n%s", err, h)
	}
}
