package simchild_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"teambridge/relay/relaytest/simchild"
	"teambridge/teams/transcript"
)

// terminal is a simulated program in a pseudo terminal.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File

	mu  sync.Mutex
	out bytes.Buffer
	end chan struct{} // closed when the terminal has no program any more
}

func command(t *testing.T, s simchild.Script, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), s.Env(), "CLAUDE_CONFIG_DIR="+s.State, "TMPDIR="+s.State, "VISUAL=", "GORACE=atexit_sleep_ms=0",
		"CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1", "EDITOR=f() { cp \"$1\" '"+s.State+"/copied.tmp'; mv '"+s.State+"/copied.tmp' '"+s.State+"/copied'; }; f")
	cmd.Dir = s.State
	return cmd
}

func startTerminal(t *testing.T, s simchild.Script, args ...string) *terminal {
	t.Helper()
	p := &terminal{t: t, cmd: command(t, s, args...), end: make(chan struct{})}
	master, err := pty.Start(p.cmd)
	if err != nil {
		t.Fatal(err)
	}
	p.master = master
	go func() {
		defer close(p.end)
		for buffer := make([]byte, 64<<10); ; {
			n, err := master.Read(buffer)
			p.mu.Lock()
			p.out.Write(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		master.Close()
		<-p.end
		if t.Failed() {
			t.Logf("%q", p.shown())
		}
	})
	p.until("a composer", func() bool { return strings.Contains(p.shown(), "? for shortcuts") })
	return p
}

func (p *terminal) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// until waits for something.
func (p *terminal) until(what string, ok func() bool) {
	p.t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			p.t.Fatalf("never %s", what)
		}
	}
}

func (p *terminal) types(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.master, keys); err != nil {
		p.t.Fatal(err)
	}
}

func (p *terminal) says(text string) {
	p.t.Helper()
	p.until("said "+text, func() bool { return strings.Contains(p.shown(), text) })
}

// exits ends it with a signal, and returns the exit status.
func (p *terminal) exits(s os.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	err := p.cmd.Wait()
	<-p.end // all that it printed
	return status(p.t, err)
}

func status(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return 0
}

// chain returns the texts of the conversation, if each record continues the one before.
func chain(t *testing.T, s simchild.Script) (texts []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.State, "projects", "*", session+".jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("transcripts: %q, %v", found, err)
	}
	last := ""
	for _, line := range lines(t, found[0]) {
		var r struct {
			UUID, ParentUUID, Content string
			Message                   struct{ Content any }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.UUID == "" {
			continue
		}
		if r.ParentUUID != last {
			t.Errorf("the parent of %s is %s, want %s", line, r.ParentUUID, last)
		}
		last = r.UUID
		if text, ok := r.Message.Content.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// A conversation goes from the terminal to the headless agent and back, in one chain.
func TestOneConversation(t *testing.T) {
	t.Parallel()
	s := simchild.Script{State: t.TempDir()}
	p := startTerminal(t, s, "--session-id", session)
	p.types("one\r")
	p.says("ACK: one")
	p.types("\x1b[200~two\nlines\x1b[201~")
	p.types("\r")
	p.says("ACK: two\r\n  lines")
	if code := p.exits(syscall.SIGTERM); code != 143 {
		t.Errorf("exit status %d, want 143", code)
	}
	if !strings.HasSuffix(p.shown(), "--resume "+session+"\x1b[22m\r\n") || !strings.Contains(p.shown(), "\x1b]0;\x07") {
		t.Errorf("the end shows %.200q", p.shown()[max(0, len(p.shown())-200):])
	}

	headless := command(t, s, "-p", "--resume", session)
	headless.Stdin = strings.NewReader(`{"type":"user","message":{"role":"user","content":"three"},"uuid":"b"}` + "\n")
	if out, err := headless.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	p = startTerminal(t, s, "--resume", session, "--prefill", " four ")
	p.types("!\r")
	p.says("ACK: four!")
	p.exits(syscall.SIGTERM)
	if got, want := chain(t, s), []string{"one", "two\nlines", "three", "four!"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	works, err := simchild.Works(s.State)
	if err != nil || len(works) != 4 || works["one"] != 1 || works["three"] != 1 {
		t.Errorf("works: %v, %v", works, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.State, "sessions", "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Ctrl-G copies the draft, also in a turn, and not in a dialog.
func TestEditor(t *testing.T) {
	t.Parallel()
	s := simchild.Script{State: t.TempDir()}
	p := startTerminal(t, s, "--session-id", session)
	copied := filepath.Join(s.State, "copied")
	draft := func(want string) {
		t.Helper()
		p.types("\x07")
		var data []byte
		p.until("copied "+want, func() bool {
			var err error
			data, err = os.ReadFile(copied)
			return err == nil
		})
		if string(data) != want {
			t.Errorf("the draft is %q, want %q", data, want)
		}
		if err := os.Remove(copied); err != nil {
			t.Fatal(err)
		}
	}
	draft("")
	p.types("é\nb")
	draft("é\nb")
	p.types("\x15WAIT:go\r")
	p.says("esc to interrupt")
	p.types("!x")
	draft("x")
	p.types("\x15")
	if err := os.WriteFile(filepath.Join(s.State, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.says("ACK: WAIT:go")
	p.types("ASK:Bash\r")
	p.says("Esc to cancel")
	p.types("\x07y") // one after the other
	p.says("allowed")
	if _, err := os.Stat(copied); err == nil {
		t.Error("a dialog let the draft be copied")
	}
}

// What a signal follows at once is in history.jsonl alone.
func TestEnteredJustBeforeASignal(t *testing.T) {
	t.Parallel()
	s := simchild.Script{State: t.TempDir()}
	p := startTerminal(t, s, "--session-id", session)
	p.types("one\r")
	p.says("ACK: one")
	p.exits(syscall.SIGTERM)
	s.Lag = time.Hour
	p = startTerminal(t, s, "--resume", session)
	p.types("lost\r")
	p.says("❯ lost")
	p.exits(syscall.SIGTERM)
	history := lines(t, filepath.Join(s.State, "history.jsonl"))
	if got := chain(t, s); !slices.Equal(got, []string{"one"}) || len(history) != 2 || !strings.Contains(history[1], `"sessionId":"`+session+`"`) {
		t.Errorf("the transcript has %q, the history %q", got, history)
	}
}

// The status file and the team follow the session.
func TestStatusAndTeam(t *testing.T) {
	t.Parallel()
	s := simchild.Script{State: t.TempDir()}
	p := startTerminal(t, s, "--session-id", session)
	status := func(want, waitingFor string) {
		t.Helper()
		p.until(want, func() bool {
			all := transcript.Processes(s.State)
			if len(all) != 1 || all[0].PID != p.cmd.Process.Pid {
				return false // it is written in place
			}
			return all[0].Status == want && all[0].WaitingFor == waitingFor && all[0].Session == session
		})
	}
	teams := func() int {
		found, err := filepath.Glob(filepath.Join(s.State, "teams", "*", "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if teams() != 1 {
		t.Error("there is no team from the start")
	}
	status("idle", "")
	p.types("ASK:Bash\r")
	status("waiting", "permission prompt")
	p.types("\x1b")
	p.says("[Request interrupted by user]")
	p.types("WAIT:go\nSPAWN:worker\r")
	status("busy", "")
	if err := os.WriteFile(filepath.Join(s.State, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.says("ACK: WAIT:go")
	status("idle", "")
	if teams() != 1 {
		t.Error("no team has the teammate")
	}
	p.exits(syscall.SIGHUP)
	if teams() != 0 {
		t.Error("the team outlived its session")
	}
}

// A session in which nothing was said can be begun, and not resumed.
func TestUnknownSession(t *testing.T) {
	t.Parallel()
	s := simchild.Script{State: t.TempDir()}
	out, err := command(t, s, "--resume", session).CombinedOutput()
	if status(t, err) != 1 || !strings.Contains(string(out), "No conversation found with session ID: "+session) {
		t.Errorf("%v: %s", err, out)
	}
}
