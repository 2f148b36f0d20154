package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/claude/claudetest"
)

// walk returns the commands of a section of the README: its indented lines, without
// those that begin with one of the words that are left out.
func walk(t *testing.T, section string, out ...string) (commands []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(data), "\n## "+section+"\n")
	if !found {
		t.Fatalf("the README has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	open := ""
	for line := range strings.Lines(text) {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !ok || slices.ContainsFunc(out, func(word string) bool { return strings.HasPrefix(line, word) }) {
			continue
		}
		open += line
		if strings.HasSuffix(line, `\`) {
			open += "\n"
			continue
		}
		commands, open = append(commands, open), ""
	}
	return commands
}

// The walk through the service in the README is what it says: each of its commands
// does something, with the socket and the port in it replaced by free ones.
func TestReadmeOfTheService(t *testing.T) {
	t.Parallel()
	if os.Getenv(claudetest.EnvInterop) == "" {
		t.Skip("curl is not used: " + claudetest.EnvInterop + " is not set")
	}
	for _, name := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	home := short(t)
	if err := os.Rename(captured(t), filepath.Join(home, ".claude")); err != nil {
		t.Fatal(err)
	}
	// Streams have no end by themselves.
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte("max-time = 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const ended = "28" // curl's, where max-time was over
	want := []struct{ status, out string }{
		{"0", "serving " + address},
		{"0", ""},
		{"0", `"team":"myteam"`},
		{"0", `"member":"worker","state":`},
		{"0", `"id":"review-12","state":"verified","deduplicated":false`},
		{"0", `"id":"review-12","state":"verified"`},
		{"0", `"text":"please review task 12"`},
		{"0", `"hits":[{"team":"myteam"`},
		{ended, "event: snapshot\n"},
		{"0", ""},
		{"0", `"team":"myteam"`},
		{ended, `"text":"please review task 12"`},
	}
	commands := walk(t, "The service", "teambridge service", "teambridge ui")
	if len(commands) != len(want) {
		t.Fatalf("there are %d commands, and %d are known here: %q", len(commands), len(want), commands)
	}
	shell := exec.Command("bash")
	shell.Dir = home
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"CLAUDE_CONFIG_DIR", "TEAMBRIDGE_STATE", "XDG_STATE_HOME", "CURL_HOME"}, name) {
			shell.Env = append(shell.Env, v)
		}
	}
	shell.Env = append(shell.Env, "HOME="+home, "GORACE=atexit_sleep_ms=0")
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	shell.Stdout, shell.Stderr = w, w
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	over := time.AfterFunc(patience, func() { _ = shell.Process.Kill() })
	defer over.Stop()
	gone := make(chan error, 1)
	go func() {
		err := shell.Wait()
		_ = w.Close()
		gone <- err
	}()
	lines := bufio.NewReader(r)
	// until reads what is said up to a line that has text in it.
	until := func(text string) (said string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			said += line
			if err != nil {
				t.Fatalf("%v, waiting for %q: %s", err, text, said)
			}
			if strings.Contains(line, text) {
				return said
			}
		}
	}
	for i, command := range commands {
		fmt.Fprintln(in, strings.NewReplacer("/tmp/tb.sock", filepath.Join(home, "tb.sock"), "127.0.0.1:7420", address).Replace(command))
		if i == 0 {
			until(want[0].out) // a person waits for that, too
		}
		fmt.Fprintln(in, `s=$?; echo; echo "ended with $s "`)
		said := until("ended with ")
		if !strings.HasSuffix(said, "\nended with "+want[i].status+" \n") || i > 0 && !strings.Contains(said, want[i].out) {
			t.Errorf("%s\nsays\n%s\nwant %q, %q", command, said, want[i].out, want[i].status)
		}
	}
	fmt.Fprintln(in, "kill %1; wait %1; exit $?")
	_, _ = io.Copy(io.Discard, lines)
	if err := <-gone; err != nil {
		t.Errorf("the service ended with %v", err)
	}
}
