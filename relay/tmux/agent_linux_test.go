package tmux

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
)

// patience is how long a test waits for an expected event.
const patience = time.Minute // a passing test uses little of it

// server is a tmux server of a test.
type server struct {
	*standin.Tmux
	t testing.TB
}

func startServer(t testing.TB) *server {
	t.Helper()
	s := &server{standin.StartTmux(t), t}
	s.tmux("new-session", "-d", "-s", "main", "-x", "100", "-y", "60", "sleep", "100000")
	return s
}

// tmux is one call that must succeed.
func (s *server) tmux(args ...string) string {
	s.t.Helper()
	out, err := s.Run(context.WithoutCancel(s.t.Context()), nil, args...)
	must(s.t, err)
	return strings.TrimSuffix(out, "\n")
}

// agent is a pane with the program of these tests.
type agent struct {
	*server
	ref Ref

	conn    net.Conn
	mu      sync.Mutex
	events  []event
	changed chan struct{} // closed with the next event
}

// socket is short: a path of a socket may have some hundred bytes.
func (s *server) socket(name string) string { return filepath.Join(filepath.Dir(s.Socket), name) }

// start starts the program in a window, or by commands typed into its shell, or by a script that ends as a shell.
func (s *server) start(shell string, commands ...string) *agent {
	s.t.Helper()
	a := &agent{server: s, changed: make(chan struct{})}
	path := s.socket(fmt.Sprintf("p%d", time.Now().UnixNano()))
	listener, err := net.Listen("unix", path)
	must(s.t, err)
	defer listener.Close()
	run := []string{"env", envProgram + "=" + path, os.Args[0]}
	window := []string{"new-window", "-P", "-F", "#{pane_id}", "-t", "=main:"}
	var id string
	if script, ok := strings.CutPrefix(shell, "script of "); ok {
		// Without the files of a home, which may run programs while the shell starts.
		id = s.tmux(append(window, script, "-c", `"$@"; HOME=/nonexistent exec "$0" -i`, script, "env", envProgram+"="+path, os.Args[0])...)
	} else if shell == "" {
		id = s.tmux(append(window, run...)...)
	} else {
		id = s.tmux(append(window, "env", "-i", "PATH="+os.Getenv("PATH"), "TERM=xterm-256color", shell, "-i")...)
		s.tmux("send-keys", "-t", id, strings.Join(run, " "), "Enter")
	}
	if a.conn, err = listener.Accept(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = a.conn.Close() })
	go a.listen()
	a.wait("ready")
	p, err := Resolve(s.t.Context(), s.Socket, id)
	must(s.t, err)
	a.ref = p.Ref
	for _, c := range commands {
		a.do(c)
	}
	return a
}

func startAgent(t testing.TB, commands ...string) *agent {
	t.Helper()
	return startServer(t).start("", commands...)
}

func (a *agent) listen() {
	for lines := bufio.NewReader(a.conn); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var e event
		if json.Unmarshal(line, &e) == nil {
			a.mu.Lock()
			a.events = append(a.events, e)
			close(a.changed)
			a.changed = make(chan struct{})
			a.mu.Unlock()
		}
	}
}

// all returns the data of the events of a kind so far.
func (a *agent) all(what string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, e := range a.events {
		if e.What == what {
			all = append(all, string(e.Data))
		}
	}
	return all
}

// waitCount waits for the n-th event of a kind, and returns its data.
func (a *agent) waitCount(what string, n int) string {
	a.t.Helper()
	for limit := time.After(patience); ; {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if all := a.all(what); len(all) >= n {
			return all[n-1]
		}
		select {
		case <-changed:
		case <-limit:
			a.t.Fatalf("no %d events %q; there were %q; the screen:\n%s", n, what, a.events, a.tmux("capture-pane", "-p", "-t", a.ref.ID))
		}
	}
}

func (a *agent) wait(what string) string { a.t.Helper(); return a.waitCount(what, 1) }

// do runs a command in the program, and waits until tmux has the screen.
func (a *agent) do(command string) {
	a.t.Helper()
	n := len(a.all("did"))
	if _, err := io.WriteString(a.conn, command+"\n"); err != nil {
		a.t.Fatal(err)
	}
	if name, _, _ := strings.Cut(command, " "); name == "exit" {
		return
	}
	a.waitCount("did", n+1)
	// The program has drawn by then, but tmux may not have read it. The mark is drawn, and so read, last.
	mark := fmt.Sprintf("mark%d", n)
	if _, err := io.WriteString(a.conn, "title "+mark+"\n"); err != nil {
		a.t.Fatal(err)
	}
	a.until("the title "+mark, func() bool { return a.tmux("display-message", "-p", "-t", a.ref.ID, "#{pane_title}") == mark })
}

// drawn waits until tmux has all that the program has drawn.
func (a *agent) drawn() { a.t.Helper(); a.do("title") }

// until waits for a condition without an event.
func (s *server) until(what string, ok func() bool) {
	s.t.Helper()
	for limit := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			s.t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// waiting returns how many bytes the program has not read.
func (a *agent) waiting() int {
	a.t.Helper()
	p, err := a.ref.Look(a.t.Context())
	must(a.t, err)
	k, err := p.tty()
	must(a.t, err)
	return k.waiting
}

// untouched checks that the program got nothing, and tmux keeps nothing.
func (a *agent) untouched() {
	a.t.Helper()
	if got := a.all("read"); len(got) > 0 {
		a.t.Errorf("the program read %q", got)
	}
	a.noBuffers()
}

func (s *server) noBuffers() {
	s.t.Helper()
	if got := s.tmux("list-buffers"); got != "" {
		s.t.Errorf("tmux keeps %q", got)
	}
}

// submitted checks that the program got these messages in order, each with an Enter of its own, and no other keys.
func (a *agent) submitted(want ...Input) {
	a.t.Helper()
	var lines []string
	for _, m := range want {
		lines = append(lines, m.Line())
	}
	if len(want) > 0 {
		a.waitCount("submit", len(want)) // the screen can be known before the event
	}
	if got := a.all("submit"); !slices.Equal(got, lines) {
		a.t.Errorf("submitted %q, want %q", got, lines)
	}
	for _, bad := range []string{"merged", "escape", "ctrl-c", "answered", "unknown"} {
		if got := a.all(bad); len(got) > 0 {
			a.t.Errorf("%s: %q", bad, got)
		}
	}
}

var nonce = func() func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprintf("3f2a9c0d%04d", n)
	}
}()

func message(text string) Input { return Input{Nonce: nonce(), From: "worker", Text: text} }

// patient has the usual waits with longer deadlines: machines with tests are slow.
var patient = func() timing {
	t := usual
	t.drain, t.drainBusy, t.show, t.again, t.confirm, t.interrupt = patience, patience, patience, patience, patience, patience
	return t
}()

// hasty is for deliveries that fail after the paste: its deadlines pass.
var hasty = func() timing {
	t := patient
	t.confirm, t.interrupt, t.again, t.proof = time.Second, 300*time.Millisecond, 100*time.Millisecond, 0
	return t
}()

// unshown is for deliveries whose text is never shown as it should be.
var unshown = func() timing {
	t := hasty
	t.show = 300 * time.Millisecond
	return t
}()

func (a *agent) deliver(m Input, s Steps, t timing) (Outcome, error) {
	d := delivery{ref: a.ref, profile: Claude, message: m, steps: s, timing: t}
	return d.deliver(a.t.Context())
}

// resume is Continue for a delivery that did not reach Enter.
func (a *agent) resume(m Input, s Steps, t timing) (Outcome, error) {
	d := delivery{ref: a.ref, profile: Claude, message: m, steps: s, timing: t}
	return d.resume(a.t.Context())
}

// resumeEntered is Continue for one that did. A program that has got an Enter since may take as long as in t.
func (a *agent) resumeEntered(m Input, t timing) (Outcome, error) {
	d := delivery{ref: a.ref, profile: Claude, message: m, timing: t, entered: true}
	d.timing.again = hasty.again
	d.steps.Submitted = func(context.Context) (bool, error) {
		if d.out.Enters > 0 {
			d.timing.again = t.again
		}
		return false, nil
	}
	return d.resume(a.t.Context())
}

// deliverDrawn delivers a text that the program changes; the change is on the screen before that is read.
func (a *agent) deliverDrawn(m Input, t timing) (Outcome, error) {
	a.t.Helper()
	d := delivery{ref: a.ref, profile: Claude, message: m, timing: t}
	before, h, err := d.look(a.t.Context())
	if err == nil && h.reason == "" {
		h, err = d.paste(a.t.Context(), before)
	}
	if err != nil || h.reason != "" {
		a.t.Fatalf("not pasted: %+v, %v", h, err)
	}
	a.wait("pasted")
	a.drawn()
	d.out.State = Unconfirmed
	return d.submit(a.t.Context(), before)
}

// afterLost returns steps that wait, after the first Enter, until the program has lost it and tmux has the screen.
func (a *agent) afterLost() Steps {
	return Steps{Submitted: func(context.Context) (bool, error) {
		a.wait("lost")
		a.drawn()
		return false, nil
	}}
}

// againOnceLost presses Enter again once the program has lost all earlier ones: if read together, they are text.
func (d *delivery) againOnceLost(a *agent) {
	if d.timing.again = patience; len(a.all("lost")) >= d.out.Enters {
		d.timing.again = 0
	}
}

// confirmed delivers a message, which must succeed.
func (a *agent) confirmed(m Input, s Steps) {
	a.t.Helper()
	o, err := a.deliver(m, s, patient)
	if err != nil || o.State != Confirmed {
		a.t.Fatalf("Deliver: %+v, %v; want %s; events %q", o, err, Confirmed, a.events)
	}
}

// ends checks an unsuccessful outcome.
func ends(t testing.TB, o Outcome, err error, state Result, reason Reason) {
	t.Helper()
	if err != nil || o.State != state || o.Reason != reason || o.Detail == "" {
		t.Errorf("got %+v, %v; want %s, %s", o, err, state, reason)
	}
}

var errTest = errors.New("of the test")
