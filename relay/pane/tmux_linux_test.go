package pane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simcodex"
	"teambridge/relay/relaytest/simsession"
	"teambridge/relay/relaytest/standin"
	"teambridge/relay/tmux"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/teamstest"
	"teambridge/teams/transcript"
)

const envProgram = "PANE_TEST_PROGRAM" // the transcript that it keeps

func TestMain(m *testing.M) {
	tmux.Relax(time.Minute)
	simsession.Main() // does not return in a session
	simcodex.Main()   // nor in an app server
	if root, pid, ok := simsession.HookOf(); ok {
		os.Exit(runHook(root, pid))
	}
	if os.Getenv(envProgram) != "" {
		runProgram(os.Getenv(envProgram))
	}
	killtest.Main(m, killtest.Roles{"peer": killtest.Job(runPeer), "sender": killtest.Job(runSender)})
}

// runProgram is an agent in a pane: it reads keys, draws a composer as Claude Code does, and
// writes what is submitted into a transcript.
func runProgram(path string) {
	modes, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err == nil {
		modes.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG | unix.IEXTEN
		modes.Iflag &^= unix.ICRNL | unix.IXON
		err = unix.IoctlSetTermios(0, unix.TCSETS, modes)
	}
	file, ferr := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err := errors.Join(err, ferr); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	rule := strings.Repeat("─", 80)
	draft, buf := "", make([]byte, 64<<10)
	for fmt.Print("\x1b[?2004h"); ; {
		fmt.Printf("\x1b[2J\x1b[H%s\r\n❯\u00a0%s\r\n%s\r\n  ? for shortcuts", rule, draft, rule)
		n, err := os.Stdin.Read(buf)
		if err != nil {
			os.Exit(0)
		}
		text := strings.NewReplacer("\x1b[200~", "", "\x1b[201~", "").Replace(string(buf[:n]))
		if text != "\r" {
			draft += text // an Enter in the same read is a line break, as for Claude Code
			continue
		}
		line, err := json.Marshal(userRecord(draft))
		if err == nil {
			_, err = file.Write(append(line, '\n'))
		}
		if err != nil {
			os.Exit(1)
		}
		draft = ""
	}
}

// order configures a sender, in a process of its own.
type order struct {
	Root, State, Name string
	Texts             []string
}

func runSender(o order) error {
	ctx := context.Background()
	p, closing, err := openPanes(ctx, o.Root, o.State)
	if err != nil {
		return err
	}
	defer closing()
	send := p.tmux.send
	p.tmux.send = func(ctx context.Context, r tmux.Ref, profile tmux.Profile, m tmux.Input, s tmux.Steps) (tmux.Outcome, error) {
		killtest.At("put")
		pasting, entered, submitted := s.Pasting, s.Entered, s.Submitted
		s.Pasting = func(ctx context.Context) error {
			err := pasting(ctx)
			killtest.At("pasting")
			return err
		}
		s.Entered = func(ctx context.Context) error {
			killtest.At("pasted")
			err := entered(ctx)
			killtest.At("entering")
			return err
		}
		s.Submitted = func(ctx context.Context) (bool, error) {
			killtest.At("entered")
			return submitted(ctx)
		}
		out, err := send(ctx, r, profile, m, s)
		killtest.At("confirmed")
		return out, err
	}
	to, err := p.Registry.Find(ctx, o.Name)
	if err != nil {
		return err
	}
	for _, text := range o.Texts {
		m, _, err := p.Queue.Put(ctx, to, Message{ID: "id " + text, Text: text, From: "tester"})
		if err == nil {
			m, err = p.Queue.Deliver(ctx, m.UUID)
		}
		if err != nil || m.State != ledger.Done {
			return fmt.Errorf("%s: %s (%s), %w", text, m.State, m.Reason, err)
		}
	}
	return nil
}

func openPanes(ctx context.Context, dir, state string) (*Panes, func(), error) {
	root, err := teams.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	l, err := ledger.Open(ctx, filepath.Join(state, "ledger.db"))
	if err != nil {
		return nil, nil, errors.Join(err, root.Close())
	}
	p := New(Options{Root: root, Ledger: l, State: state, Locker: lockedfile.New(lockedfile.Options{Hold: time.Minute})})
	return p, func() { _, _ = l.Close(), root.Close() }, nil
}

// stage is a real tmux server with the program in a pane, registered as worker.
type stage struct {
	*Panes
	t          testing.TB
	root       *teams.Root
	state      string
	transcript string
	pane       Pane
}

func newStage(t testing.TB) *stage {
	t.Helper()
	server := standin.StartTmux(t)
	f := teamstest.New(t)
	dir := t.TempDir()
	s := &stage{t: t, root: f.Root, state: teamstest.StateDir(t)}
	s.transcript = filepath.Join(f.Root.Path(), "projects", transcript.Slug(dir), sessionID+".jsonl")
	must(t, os.MkdirAll(filepath.Dir(s.transcript), 0o700))
	id, err := server.Run(t.Context(), nil, "new-session", "-d", "-P", "-F", "#{pane_id}", "-x", "100", "-y", "30", "-c", dir,
		"env", envProgram+"="+s.transcript, os.Args[0])
	must(t, err)
	p, closing, err := openPanes(t.Context(), f.Root.Path(), s.state)
	must(t, err)
	t.Cleanup(closing)
	s.Panes = p
	p.opts.Warn = func(err error) { t.Errorf("warning: %v", err) }
	for s.pane.Inbox == "" || s.busy() {
		if t.Context().Err() != nil {
			t.Fatal("the program did not start")
		}
		s.pane, _, err = p.Registry.Add(t.Context(), Registration{Name: "worker", Socket: server.Socket, Target: strings.TrimSpace(id), Replace: true})
		must(t, err)
	}
	return s
}

func (s *stage) busy() bool {
	why, err := s.Tasks.Busy(s.t.Context(), s.pane)
	must(s.t, err)
	return why != ""
}

// submitted returns the texts that the program got.
func (s *stage) submitted() (list []string) {
	s.t.Helper()
	data, err := os.ReadFile(s.transcript)
	must(s.t, err)
	for line := range strings.Lines(string(data)) {
		r, ok := transcript.Parse([]byte(line))
		if !ok {
			s.t.Fatalf("a torn line: %s", line)
		}
		text := transcript.Texts(r.Message.Content, "")
		if marker().FindString(text) == "" {
			s.t.Errorf("the program was given %q", text)
		}
		list = append(list, marker().ReplaceAllString(text, ""))
	}
	return list
}

func (s *stage) sender(texts ...string) *exec.Cmd {
	return killtest.Command(s.t.Context(), "sender", order{s.root.Path(), s.state, "worker", texts})
}

// Eight processes send to one pane at once: each message arrives whole, with an Enter of its
// own, and those of each process in their order.
func TestEightProcesses(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var senders sync.WaitGroup
	for n := range 8 {
		senders.Go(func() {
			if out, err := s.sender(fmt.Sprint("sender ", n, " first"), fmt.Sprint("sender ", n, " then")).CombinedOutput(); err != nil {
				t.Errorf("sender %d: %v: %s", n, err, out)
			}
		})
	}
	senders.Wait()
	got := s.submitted()
	if len(got) != 16 {
		t.Errorf("%d messages, want 16: %q", len(got), got)
	}
	for n := range 8 {
		first, then := slices.Index(got, fmt.Sprint("sender ", n, " first")), slices.Index(got, fmt.Sprint("sender ", n, " then"))
		if first < 0 || then < first {
			t.Errorf("of sender %d: %d and %d in %q", n, first, then, got)
		}
	}
}

// After a sender is killed in any step, the next process finishes its work: the message is
// pasted once, and the next one arrives.
func TestSenderKilledInEachStep(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		step  string
		state ledger.DeliveryState
		given int
	}{
		{"put", ledger.Done, 1}, {"pasting", ledger.Failed, 0}, {"pasted", ledger.Done, 1}, {"entering", ledger.Done, 1},
		{"entered", ledger.Done, 1}, {"confirmed", ledger.Done, 1},
	} {
		t.Run(test.step, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			if out := killtest.Killed(t, killtest.KillAt(s.sender("hello"), test.step)); out != "" {
				t.Errorf("the sender said %s", out)
			}
			if s.timing.lag = time.Minute; test.given == 0 {
				s.timing.lag = time.Second
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- s.Run(ctx) }()
			first, again, err := s.Queue.Put(t.Context(), s.pane, Message{ID: "id hello", Text: "hello", From: "tester"})
			if err != nil || !again {
				t.Fatalf("put again: %t, %v", again, err)
			}
			if first, err = s.Queue.Await(t.Context(), first.UUID); err != nil || first.State != test.state {
				t.Errorf("it is %s (%s), %v, want %s", first.State, first.Reason, err, test.state)
			}
			next, _, err := s.Queue.Put(t.Context(), s.pane, Message{Text: "next"})
			if err == nil {
				next, err = s.Queue.Await(t.Context(), next.UUID)
			}
			if err != nil || next.State != ledger.Done {
				t.Errorf("the next is %s (%s), %v", next.State, next.Reason, err)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			want := append(slices.Repeat([]string{"hello"}, test.given), "next")
			if got := s.submitted(); !slices.Equal(got, want) {
				t.Errorf("the program was given %q, want %q", got, want)
			}
		})
	}
}
