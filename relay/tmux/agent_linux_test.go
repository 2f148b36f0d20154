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

	"teambridge/relay/sim/standin"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute // of which a test that works uses little

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

// tmux is one call that has to work.
func (s *server) tmux(args ...string) string {
	s.t.Helper()
	out, err := s.Run(context.WithoutCancel(s.t.Context()), nil, args...)
	if err != nil {
		s.t.Fatal(err)
	}
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

// start starts the program in a window, or by what is typed into a shell in one, or by a script that ends as a shell.
func (s *server) start(shell string, commands ...string) *agent {
	s.t.Helper()
	a := &agent{server: s, changed: make(chan struct{})}
	path := s.socket(fmt.Sprintf("p%d", time.Now().UnixNano()))
	listener, err := net.Listen("unix", path)
	if err != nil {
		s.t.Fatal(err)
	}
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
	if err != nil {
		s.t.Fatal(err)
	}
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

// all are the data of the events of a kind so far.
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

// do has the program do something, and waits until tmux has the screen.
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
	// The program has drawn by then, but tmux may not have read it. What is drawn last here, it has read last.
	mark := fmt.Sprintf("mark%d", n)
	if _, err := io.WriteString(a.conn, "title "+mark+"\n"); err != nil {
		a.t.Fatal(err)
	}
	a.until("the title "+mark, func() bool { return a.tmux("display-message", "-p", "-t", a.ref.ID, "#{pane_title}") == mark })
}

// until waits for what nothing tells of.
func (s *server) until(what string, ok func() bool) {
	s.t.Helper()
	for limit := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			s.t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// queued is how many bytes the program has not read.
func (a *agent) waiting() int {
	a.t.Helper()
	p, err := a.ref.Look(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	k, err := p.tty()
	if err != nil {
		a.t.Fatal(err)
	}
	return k.waiting
}

// untouched checks that the program was given nothing, and tmux keeps nothing.
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

// submitted checks what the program was given, in order, with an Enter of its own behind each, and that nothing else was pressed.
func (a *agent) submitted(want ...Input) {
	a.t.Helper()
	var lines []string
	for _, m := range want {
		lines = append(lines, m.Line())
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

// patient are the waits of use with longer deadlines: machines with tests are slow.
var patient = func() timing {
	t := usual
	t.drain, t.drainBusy, t.show, t.confirm, t.interrupt = patience, patience, patience, patience, patience
	return t
}()

// hasty are for deliveries that fail: these deadlines pass.
var hasty = func() timing {
	t := patient
	t.show, t.confirm, t.interrupt, t.again, t.proof = 300*time.Millisecond, time.Second, 300*time.Millisecond, 100*time.Millisecond, 0
	return t
}()

func (a *agent) deliver(m Input, s Steps, t timing) (Outcome, error) {
	d := delivery{ref: a.ref, profile: Claude, message: m, steps: s, timing: t}
	return d.deliver(a.t.Context())
}

// resume is Continue, of a delivery that did not come to Enter.
func (a *agent) resume(m Input, s Steps, t timing) (Outcome, error) {
	d := delivery{ref: a.ref, profile: Claude, message: m, steps: s, timing: t}
	return d.resume(a.t.Context())
}

// resumeEntered is Continue, of one that did.
func (a *agent) resumeEntered(m Input, s Steps, t timing) (Outcome, error) {
	d := delivery{ref: a.ref, profile: Claude, message: m, steps: s, timing: t, entered: true}
	return d.resume(a.t.Context())
}

// confirmed delivers a message, which has to work.
func (a *agent) confirmed(m Input, s Steps) {
	a.t.Helper()
	o, err := a.deliver(m, s, patient)
	if err != nil || o.State != Confirmed {
		a.t.Fatalf("Deliver: %+v, %v; want %s; events %q", o, err, Confirmed, a.events)
	}
}

// ends checks an outcome that is not a success.
func ends(t testing.TB, o Outcome, err error, state Result, reason Reason) {
	t.Helper()
	if err != nil || o.State != state || o.Reason != reason || o.Detail == "" {
		t.Errorf("got %+v, %v; want %s, %s", o, err, state, reason)
	}
}

var errTest = errors.New("of the test")
