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
	"strconv"
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

// headless is a user who runs a real headless agent as the lead of the team
// "mine": teambridge run as a process of its own, which can be killed.
type headless struct {
	t       *testing.T
	version teams.Version
	home    *standin.Home
	state   string
	team    string
	command []string // of the agent

	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when the bridge that runs has ended

	mu      sync.Mutex
	said    []saying
	stderr  bytes.Buffer
	changed chan struct{} // closed and replaced with everything that is said
}

// saying is a line of run --output events.
type saying struct {
	Run int // which start of the bridge printed it, from 1

	Status   string
	Queue    int
	InFlight string
	PID      int
	Session  string
	Reason   string

	Frame, State string

	Result *string
	Text   string

	// Of the agent's own lines, with --output raw.
	Type, Subtype, PermissionMode, Model string
}

// newHeadless prepares a user whose model answers by respond, or by Script if
// that is nil.
func newHeadless(t *testing.T, v teams.Version, respond standin.Responder) *headless {
	t.Helper()
	// The default model depends on the version.
	command := append(standin.Require(t, v), "--dangerously-skip-permissions", "--model", "sonnet")
	home := standin.NewHome(t, standin.StartAPI(t, respond))
	return &headless{
		t: t, version: v, home: home, state: filepath.Join(home.Dir, "state"), team: "mine",
		command: command, changed: make(chan struct{}),
	}
}

// start starts teambridge run, with these flags besides, and returns at once.
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
	if err != nil {
		h.t.Fatal(err)
	}
	h.stdin = stdin
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	h.cmd.Stderr = writing(func(b []byte) (int, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.stderr.Write(b)
	})
	h.cmd.WaitDelay = 5 * time.Second // others may hold its stderr
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	run := 1
	if n := len(h.said); n > 0 {
		run = h.said[n-1].Run + 1
	}
	h.say(saying{Run: run}) // so that the runs are told apart
	h.mu.Unlock()
	cmd, ended := h.cmd, make(chan struct{})
	h.ended = ended
	go func() {
		lines := bufio.NewScanner(stdout)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			s := saying{Run: run}
			// What is torn by a kill is not said.
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

// String is what was said last, for failures.
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

// sayings are those so far.
func (h *headless) sayings() []saying {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

// wait returns the first of what the bridge that runs says, or has said, that
// matches.
func (h *headless) wait(ctx context.Context, what string, match func(saying) bool) saying {
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
		case <-ctx.Done():
			h.t.Fatalf("never %s\n%s", what, h)
		}
	}
}

// type types a line into the bridge's standard input.
func (h *headless) typing(lines ...string) {
	h.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(h.stdin, l+"\n"); err != nil {
			h.t.Fatalf("%v\n%s", err, h)
		}
	}
}

// finish ends standard input, waits until the bridge has ended, and returns its
// exit status.
func (h *headless) finish(ctx context.Context) int {
	h.t.Helper()
	_ = h.stdin.Close() // it may have ended
	select {
	case <-h.ended:
	case <-ctx.Done():
		h.t.Fatalf("run did not end\n%s", h)
	}
	return h.cmd.ProcessState.ExitCode()
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
			if status != api.ExitLocked { // which a machine without time for us can be, and then nothing was written
				h.t.Fatalf("send %.40s: exit status %d\n%s", text, status, errs)
			}
		}
	}
}

// up waits until the agent runs and nothing waits.
func (h *headless) up(ctx context.Context) saying {
	h.t.Helper()
	return h.wait(ctx, "idle", func(s saying) bool { return s.Status == "idle" && s.PID != 0 })
}

func (h *headless) ledger() *ledger.Ledger {
	h.t.Helper()
	l, err := ledger.Open(h.t.Context(), filepath.Join(h.state, "ledger.db"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
	return l
}

// deliveries are all that the ledger has of the team, oldest first.
func (h *headless) deliveries(l *ledger.Ledger) []ledger.Delivery {
	h.t.Helper()
	all, err := l.Deliveries(context.Background(), ledger.DeliveryQuery{Team: h.team})
	if err != nil {
		h.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// settled waits until n deliveries have ended, and returns all there are.
func (h *headless) settled(ctx context.Context, l *ledger.Ledger, n int) []ledger.Delivery {
	h.t.Helper()
	return h.counted(ctx, l, n, "ended", ledger.DeliveryState.Ended)
}

// claimed waits until there are n deliveries, whatever has become of them.
func (h *headless) claimed(ctx context.Context, l *ledger.Ledger, n int) {
	h.t.Helper()
	h.counted(ctx, l, n, "been claimed", func(ledger.DeliveryState) bool { return true })
}

func (h *headless) counted(ctx context.Context, l *ledger.Ledger, n int, what string, is func(ledger.DeliveryState) bool) []ledger.Delivery {
	h.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		all := h.deliveries(l)
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
		case <-ctx.Done():
			h.t.Fatalf("%d of %d deliveries have %s\n%s", found, n, what, h)
		}
	}
}

// agent is the process that the ledger knows as the lead's.
func (h *headless) agent(l *ledger.Ledger) (ledger.Session, process.Predecessor) {
	h.t.Helper()
	all, err := l.Sessions(context.Background(), "")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, s := range all {
		if s.Team == h.team {
			return s, process.Predecessor{PID: s.PID, Group: s.Group, Start: s.Start}
		}
	}
	return ledger.Session{}, process.Predecessor{}
}

// killAgent kills the agent, if one runs, and waits for its death.
func (h *headless) killAgent(ctx context.Context, l *ledger.Ledger) {
	h.t.Helper()
	_, p := h.agent(l)
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
	if err := p.Wait(ctx); err != nil {
		h.t.Fatal(err)
	}
}

// transcript is the agent's own memory of its session.
func (h *headless) transcript(session string) claude.Transcript {
	return claude.Transcript{Root: h.home.Root, Dir: h.home.Work, Session: session}
}

// asked are the calls of the model that hold something new, without those that
// are none of the conversation's turns.
func (h *headless) asked() []standin.Request {
	return slices.DeleteFunc(h.home.API.Log(), func(r standin.Request) bool { return r.Side || len(r.Texts) == 0 })
}

// rounds is how often a test repeats what it does: by default few times.
func rounds(t *testing.T, variable string, byDefault int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// config is that of the team.
func (h *headless) config(ctx context.Context) *teams.Config {
	h.t.Helper()
	root, err := teams.Open(h.home.Root)
	if err != nil {
		h.t.Fatal(err)
	}
	defer root.Close()
	team, err := root.Team(h.team)
	if err != nil {
		h.t.Fatal(err)
	}
	defer team.Close()
	c, err := team.Config(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}
