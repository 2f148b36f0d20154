package tmux

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestResolveTakesExactNames(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.tmux("new-session", "-d", "-s", "worker-12", "-n", "a.b:c", "sleep", "100000")
	s.tmux("new-session", "-d", "-s", "wörker", "sleep", "100000")
	s.tmux("new-window", "-t", "=wörker:", "-n", "twice", "sleep", "100000")
	s.tmux("new-window", "-t", "=wörker:", "-n", "twice", "sleep", "100000")
	s.tmux("split-window", "-t", "=wörker:2.", "sleep", "100000")
	s.until("the programs", func() bool {
		panes, err := List(t.Context(), s.Socket)
		if err != nil || len(panes) != 6 {
			t.Fatalf("List: %d panes, %v", len(panes), err)
		}
		return !slices.ContainsFunc(panes, func(p Pane) bool { return p.Command != "sleep" })
	})
	for target, want := range map[string]string{
		"%1":                "worker-12:0.0",
		"worker-12:0.0":     "worker-12:0.0",
		"worker-12:a.b:c.0": "worker-12:0.0",
		"wörker:0.0":        "wörker:0.0",
		"wörker:2.1":        "wörker:2.1",
	} {
		p, err := Resolve(t.Context(), s.Socket, target)
		if err != nil || p.Target() != want {
			t.Errorf("%s: got %s, %v; want %s", target, p.Target(), err, want)
		}
		if p.Socket != s.Socket || p.Server == 0 || p.PID == 0 || p.TTY == "" || p.Command != "sleep" {
			t.Errorf("%s: got %+v", target, p)
		}
	}
	// tmux would take most of these for worker-12 or the pane that was used last.
	for _, target := range []string{"", "%", "%99", "%01", "worker-1:0.0", "worker-1", "worker-12", "worker-12:", "=worker-12:0.0", "work*:0.0", "worker-12:a.0", "worker-12:0.9", "wörker:twice", "{last}", "!", "0.0", "."} {
		_, err := Resolve(t.Context(), s.Socket, target)
		var missing *NotFoundError
		if !errors.As(err, &missing) || len(missing.Panes) != 6 || !slices.ContainsFunc(missing.Panes, func(p Pane) bool { return p.Target() == "worker-12:0.0" }) {
			t.Errorf("%q: %v; want what there is", target, err)
		}
	}
	if _, err := Resolve(t.Context(), s.Socket, "wörker:twice.0"); err == nil || !strings.Contains(err.Error(), "both") {
		t.Errorf("a name of two windows: %v", err)
	}
	if _, err := List(t.Context(), s.socket("none")); !errors.Is(err, ErrNoServer) {
		t.Errorf("without a server: %v", err)
	}
}

// The names of directories, windows and programs are data.
func TestListReadsHostileNames(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	dir := filepath.Join(t.TempDir(), "x\x1f\n%99\x1f1\x1f#{pid} #(touch canary)")
	program := filepath.Join(t.TempDir(), "#(touch\tcanary),}[*]?\n%99\x1f#{pid}") // tmux takes the part before a space
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.Symlink("/bin/sleep", program))
	if _, err := s.Run(t.Context(), nil, "new-window", "-t", "=main:", "sh", "-c", `cd "$0" && exec "$1" 100000`, dir, program); err != nil {
		t.Fatal(err)
	}
	var panes []Pane
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%+v", panes)
		}
	})
	s.until("the program", func() bool {
		var err error
		panes, err = List(t.Context(), s.Socket)
		if err != nil || len(panes) != 2 {
			t.Fatalf("List: %+v, %v", panes, err)
		}
		return panes[1].Command == filepath.Base(program) && panes[1].Path == dir
	})
	// The guard compares the name, without running it.
	d := delivery{ref: panes[1].Ref, message: message("hello")}
	if ok, err := d.call(t.Context(), snapshot{pane: panes[1]}, nil, "1", "display-message -p x", ""); err == nil || ok {
		t.Errorf("two answers: %t, %v", ok, err)
	}
	if ok, err := d.call(t.Context(), snapshot{pane: panes[1]}, nil, "1", "refresh-client -S", ""); ok || err == nil {
		t.Errorf("a command that fails: %t, %v", ok, err)
	}
	if ok, err := d.call(t.Context(), snapshot{pane: panes[1]}, nil, "1", "set-buffer -b b x ; delete-buffer -b b", ""); !ok || err != nil {
		t.Errorf("the guard of %q: %t, %v", panes[1].Command, ok, err)
	}
	other := panes[1]
	other.Command = "vi"
	if ok, err := d.call(t.Context(), snapshot{pane: other}, nil, "1", "set-buffer -b b x", ""); ok || err != nil {
		t.Errorf("the guard of another program: %t, %v", ok, err)
	}
	s.noBuffers()
	for _, dir := range []string{dir, "."} { // the second is the server's
		if _, err := os.Stat(filepath.Join(dir, "canary")); err == nil {
			t.Error("tmux ran a name")
		}
	}
}

// A pane is told apart from one with the same id of a later server, and from one with another program.
func TestLookKnowsThePaneFromAnother(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p, err := Resolve(t.Context(), s.Socket, "main:0.0")
	must(t, err)
	if got, err := p.Look(t.Context()); err != nil || got.Ref != p.Ref {
		t.Errorf("got %+v, %v", got, err)
	}
	for what, change := range map[string]func(r *Ref){
		"another server":  func(r *Ref) { r.Server++ },
		"another program": func(r *Ref) { r.PID++ },
		"no pane":         func(r *Ref) { r.ID = "%99" },
		"no server":       func(r *Ref) { r.Socket += "x" },
	} {
		r := p.Ref
		change(&r)
		if _, err := r.Look(t.Context()); !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := r.Composer(t.Context(), Claude); !errors.Is(err, ErrGone) {
			t.Errorf("%s, Composer: %v", what, err)
		}
	}
	r := p.Ref
	r.ID = "#(touch x)"
	if _, err := r.Look(t.Context()); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("no pane id: %v", err)
	}
}

func TestComposerComesToRest(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "busy", "draft my own")
	want := Composer{Found: true, Draft: "my own", Busy: true}
	if got, err := a.ref.Composer(t.Context(), Claude); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	a.do("title ⠂ thinking")
	a.do("idle")
	// do has set a title of its own; that of a busy Claude Code shows it if the screen does not.
	if _, err := a.Run(t.Context(), nil, "select-pane", "-t", a.ref.ID, "-T", "⠂ thinking"); err != nil {
		t.Fatal(err)
	}
	if got, err := a.ref.Composer(t.Context(), Claude); err != nil || !got.Busy {
		t.Errorf("got %+v, %v; want busy by the title", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.ref.Composer(ctx, Claude); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of ctx: %v", err)
	}
}

// A call that tmux does not answer ends with its context.
func TestCallThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	s.tmux("set-hook", "-g", "after-list-panes", "set-option -g @asked 1 ; wait-for never")
	done := make(chan error, 1)
	go func() {
		_, err := List(ctx, s.Socket)
		done <- err
	}()
	s.until("the call", func() bool { return s.tmux("show-options", "-g", "-q", "-v", "@asked") == "1" })
	cancel(errTest)
	if err := <-done; !errors.Is(err, errTest) {
		t.Errorf("got %v", err)
	}
}
