package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams"
	"teambridge/teams/errtest"
)

// desk is a person at a terminal in which "teambridge run --local" runs a simulated Claude Code.
type desk struct {
	t      *testing.T
	dir    string
	ledger *ledger.Ledger
	key    inbox.InboxKey
	flags  []string
	script simchild.Script

	cmd    *exec.Cmd
	keys   *os.File // the person's side of the terminal
	slave  *os.File // kept open, so that its modes can be read after the program's end
	before *unix.Termios
	exit   chan error

	mu     sync.Mutex
	screen bytes.Buffer
}

func newDesk(t *testing.T, flags ...string) *desk {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	errtest.Must(t, err)
	d := &desk{t: t, dir: dir, flags: flags}
	self, err := os.Executable()
	errtest.Must(t, err)
	for _, sub := range []string{"root", "state", "work", "bin"} {
		errtest.Must(t, os.Mkdir(d.path(sub), 0o700))
	}
	for _, name := range []string{"teambridge", "claude"} {
		errtest.Must(t, os.Symlink(self, d.path("bin", name)))
	}
	if d.ledger, err = ledger.Open(t.Context(), d.path("state", "ledger.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.ledger.Close() })
	return d
}

func (d *desk) path(parts ...string) string {
	return filepath.Join(append([]string{d.dir}, parts...)...)
}

// start starts the program in a new terminal.
func (d *desk) start() {
	d.t.Helper()
	var err error
	if d.keys, d.slave, err = pty.Open(); err != nil {
		d.t.Fatal(err)
	}
	if d.before, err = unix.IoctlGetTermios(int(d.slave.Fd()), unix.TCGETS); err != nil {
		d.t.Fatal(err)
	}
	args := append([]string{"run", "--local", "--team", "demo", "--create-team"}, d.flags...)
	cmd := exec.Command(d.path("bin", "teambridge"), append(args, "--", "claude")...)
	cmd.Dir = d.path("work")
	cmd.Env = append(os.Environ(), "PATH="+d.path("bin")+":"+os.Getenv("PATH"), "HOME="+d.dir, "CLAUDE_CONFIG_DIR="+d.path("root"),
		"TEAMBRIDGE_STATE="+d.path("state"), "TERM=xterm", "EDITOR=", "VISUAL=", "GORACE=atexit_sleep_ms=0", "TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m",
		"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1", strings.Replace(d.script.Env(), simchild.Variable, "TEST_SIMULATED", 1))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.slave, d.slave, d.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	errtest.Must(d.t, cmd.Start())
	keys, slave := d.keys, d.slave
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := keys.Read(b)
			d.mu.Lock()
			d.screen.Write(b[:n])
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	d.cmd, d.exit = cmd, make(chan error, 1)
	exit := d.exit
	go func() { exit <- cmd.Wait() }()
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		keys.Close()
		slave.Close()
		<-read
	})
}

func (d *desk) printed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.screen.String()
}

// until waits until a condition holds.
func (d *desk) until(what string, holds func() bool) {
	d.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			h, _, err := d.ledger.Sessions.Handoff(d.t.Context(), d.key)
			d.t.Fatalf("never: %s; handoff %+v, %v, works %v, printed %q", what, h, err, d.works(), d.printed())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// at waits until the session is in a place.
func (d *desk) at(place ledger.Place) {
	d.t.Helper()
	d.until(string(place), func() bool {
		all, err := d.ledger.Sessions.Handoffs(d.t.Context(), "")
		if err != nil || len(all) != 1 {
			return false
		}
		d.key = all[0].InboxKey
		s, _, err := d.ledger.Sessions.Session(d.t.Context(), d.key)
		return err == nil && all[0].At == place && s.PID != 0 && (s.State == ledger.RelayLocal) == (place == ledger.AtTerminal) &&
			s.Relay == d.cmd.Process.Pid
	})
}

// ready waits until the program is at the terminal and reads keys.
func (d *desk) ready() {
	d.t.Helper()
	d.at(ledger.AtTerminal)
	pid := d.cmd.Process.Pid
	d.until("at the prompt", func() bool {
		s, _, err := d.ledger.Sessions.Session(d.t.Context(), d.key)
		if err != nil || s.Relay != pid || s.PID == 0 {
			return false
		}
		data, err := os.ReadFile(d.path("root", "sessions", fmt.Sprint(s.PID, ".json")))
		return err == nil && bytes.Contains(data, []byte(`"idle"`))
	})
}

func (d *desk) types(keys string) {
	d.t.Helper()
	if _, err := d.keys.WriteString(keys); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) prompt(text string) {
	d.t.Helper()
	if _, err := relay.Prompt(d.t.Context(), d.ledger, d.key, relay.Input{Text: text}); err != nil {
		d.t.Fatal(err)
	}
}

// works returns how often the agent worked on each marker.
func (d *desk) works(markers ...string) (counts string) {
	works, err := simchild.Works(d.path("root"))
	errtest.Must(d.t, err)
	for _, m := range markers {
		n := 0
		for text, times := range works {
			n += times * strings.Count(text, m)
		}
		counts += fmt.Sprint(n, " ")
	}
	return strings.TrimSpace(counts)
}

// ends waits for the end of the program, and checks that the terminal is restored.
func (d *desk) ends(status int) {
	d.t.Helper()
	d.exits(status)
	s, _, err := d.ledger.Sessions.Session(d.t.Context(), d.key)
	if err != nil || syscall.Kill(s.PID, 0) == nil && s.PID != 0 || s.State != ledger.RelayEnded {
		d.t.Errorf("session %+v, %v; want ended, without a process", s, err)
	}
}

// exits waits for the end of the program, and checks its status and that the terminal is restored.
func (d *desk) exits(status int) {
	d.t.Helper()
	var err error
	select {
	case err = <-d.exit:
	case <-time.After(2 * time.Minute):
		d.t.Fatalf("it does not end; printed %q", d.printed())
	}
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	}
	if got != status {
		d.t.Errorf("exit status %d (%v), want %d; printed %q", got, err, status, d.printed())
	}
	if after, err := unix.IoctlGetTermios(int(d.slave.Fd()), unix.TCGETS); err != nil || *after != *d.before {
		d.t.Errorf("terminal modes %+v, %v; want %+v", after, err, d.before)
	}
}

// A person types at the terminal, a message arrives and is answered, the key returns the session with the draft, and
// the person ends the run.
func TestLocal(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.start()
	d.ready()
	d.types("hello [1]\r")
	d.until("worked on", func() bool { return d.works("[1]") == "1" })
	d.types("half a thought")
	d.until("typed", func() bool { return strings.Contains(d.printed(), "half a thought") })
	d.prompt("[2]")
	d.until("answered", func() bool { return d.works("[2]") == "1" })
	d.at(ledger.AtRelay)
	d.until("shown", func() bool {
		return strings.Contains(d.printed(), "because of a message. Ctrl-] takes it back") && strings.Contains(d.printed(), "▸ you: [2]")
	})
	d.types("\x1d")
	d.at(ledger.AtTerminal)
	d.ready()
	d.types(" [3]\r")
	d.until("the draft was put back", func() bool { return d.works("half a thought [3]") == "1" })
	d.types("/exit\r")
	d.ends(0)
	if got := d.works("[1]", "[2]", "[3]"); got != "1 1 1" {
		t.Errorf("worked on %s, want each once", got)
	}
}

// A teammate keeps the session at the terminal, whatever the id of its team, and even after /clear.
func TestLocalTeammate(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} { // up to 2.1.310 the team can have an id of its own
		t.Run(fmt.Sprint(own), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.script.OwnTeamID = own
			d.start()
			d.ready()
			d.types("SPAWN:helper [1]\r")
			d.until("worked on", func() bool { return d.works("[1]") == "1" })
			first, _, err := d.ledger.Sessions.Session(t.Context(), d.key)
			errtest.Must(t, err)
			held := func() bool {
				h, _, err := d.ledger.Sessions.Handoff(t.Context(), d.key)
				return err == nil && strings.Contains(h.Reason, "teammate helper of team session-")
			}
			d.prompt("[2]")
			d.until("held", held)
			d.types("/clear\r")
			d.until("cleared", func() bool {
				s, _, err := d.ledger.Sessions.Session(t.Context(), d.key)
				return err == nil && s.ID != first.ID
			})
			d.prompt("[3]")
			if out, status := d.switches(); status == 0 || !strings.Contains(out, "helper") || !held() {
				t.Errorf("switch: exit status %d, %s", status, out)
			}
			if got := d.works("[2]", "[3]"); got != "0 0" {
				t.Errorf("worked on %s, want neither", got)
			}
			d.types("/exit\r")
			d.ends(0)
		})
	}
}

// An outdated Claude Code does not get the terminal.
func TestLocalOutdated(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.script.Version = teams.Version{Major: 2, Minor: 1, Patch: 256}
	d.start()
	d.exits(5)
	d.until("refused", func() bool {
		return strings.Contains(d.printed(), "claude is Claude Code 2.1.256, and teambridge needs 2.1.257 or newer: update it with claude update")
	})
	if all, err := simchild.Log(d.path("root")); err != nil || len(all) > 0 {
		t.Errorf("it was started: %+v, %v", all, err)
	}
	if _, err := os.Stat(d.path("root", "teams", "demo")); err == nil {
		t.Error("the team was made")
	}
}

// switches requests a move of the session to the relay, and returns the output and the exit status.
func (d *desk) switches() (string, int) {
	d.t.Helper()
	cmd := exec.Command(d.path("bin", "teambridge"), "switch", "team-lead@demo", "--to", "remote", "--force")
	cmd.Env = append(os.Environ(), "HOME="+d.dir, "CLAUDE_CONFIG_DIR="+d.path("root"), "TEAMBRIDGE_STATE="+d.path("state"), "TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m")
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		d.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// SIGTERM and a hang-up end the agent and restore the terminal. The next start has the session and the draft.
func TestLocalSignals(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, "--as", "boss")
			d.start()
			d.ready()
			d.types("[1]\r")
			d.until("worked on", func() bool { return d.works("[1]") == "1" })
			d.types("a draft [2]")
			d.until("typed", func() bool { return strings.Contains(d.printed(), "a draft [2]") })
			session, _, err := d.ledger.Sessions.Session(t.Context(), d.key)
			errtest.Must(t, err)
			errtest.Must(t, d.cmd.Process.Signal(s))
			d.ends(0)
			d.start()
			d.ready()
			d.types("\r")
			d.until("the draft was put back", func() bool { return d.works("a draft [2]") == "1" })
			if again, _, err := d.ledger.Sessions.Session(t.Context(), d.key); err != nil || again.ID != session.ID {
				t.Errorf("session %s, %v; want %s", again.ID, err, session.ID)
			}
			d.types("/exit\r")
			d.ends(0)
		})
	}
}

// If the agent is killed at the terminal, the run ends with a note, and the next run continues the session.
func TestLocalAgentKilled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.start()
	d.ready()
	d.types("[1]\r")
	d.until("worked on", func() bool { return d.works("[1]") == "1" })
	s, _, err := d.ledger.Sessions.Session(t.Context(), d.key)
	errtest.Must(t, err)
	errtest.Must(t, syscall.Kill(s.PID, syscall.SIGKILL))
	d.ends(1)
	d.until("told", func() bool { return strings.Contains(d.printed(), "run again to go on with this session") })
	d.start()
	d.ready()
	if again, _, err := d.ledger.Sessions.Session(t.Context(), d.key); err != nil || again.ID != s.ID {
		t.Errorf("session %s, %v; want %s", again.ID, err, s.ID)
	}
	d.types("/exit\r")
	d.ends(0)
}

// With --permissions ask, the person at the terminal answers the questions of the agent at the relay.
func TestLocalPermissions(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "--permissions", "ask")
	d.start()
	d.ready()
	d.prompt(`CALL:Bash {"command": "rm it"}`)
	d.until("asked", func() bool { return strings.Contains(d.printed(), "allow it? y, ") })
	d.types("maybe\r")
	d.until("told", func() bool { return strings.Contains(d.printed(), `"maybe" is no answer`) })
	d.types("nx\x7f\r")
	d.until("denied", func() bool { return strings.Contains(d.printed(), "· tried to run `rm it` · denied") })
	d.prompt(`CALL:Bash {"command": "make it"}`)
	d.until("asked again", func() bool { return strings.Count(d.printed(), "allow it? y, ") == 2 })
	d.types("y\r")
	d.until("allowed", func() bool { return strings.Contains(d.printed(), "allowed") })
	if all := d.printed(); !strings.Contains(all, "· runs `rm it`") || !strings.Contains(all, "· runs `make it`") || strings.Contains(all, "tried to run `make it`") {
		t.Errorf("printed %q", all)
	}
	d.types("\x03")
	d.until("told", func() bool { return strings.Contains(d.printed(), "No turn runs. Ctrl-C again ends the run.") })
	d.types("\x03")
	d.ends(0)
}
