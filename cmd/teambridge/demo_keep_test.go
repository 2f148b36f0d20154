package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"teambridge/cmd/demo"
	"teambridge/teams/errtest"
)

// startPlayground starts a playground, and returns its output, a function that runs teambridge in it, and a function
// that ends it. It ends with the test at the latest.
func startPlayground(t *testing.T) (p demo.Playground, command func(args ...string) *exec.Cmd, end func()) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("teambridge", "demo", "--keep", "--json")
	// The person's settings have no effect.
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "TEAMBRIDGE_TEAM=another", "CLAUDE_CONFIG_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	errtest.Must(t, err)
	errtest.Must(t, cmd.Start())
	over := false
	end = func() {
		t.Helper()
		if over {
			return
		}
		over = true
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("demo --keep ended with %v\n%s", err, &errs)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("it left %v: %v", left, err)
		}
	}
	t.Cleanup(end)
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := json.NewDecoder(out).Decode(&p); err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	command = func(args ...string) *exec.Cmd {
		c := exec.Command(args[0], args[1:]...)
		c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
		for name, value := range p.Environment {
			c.Env = append(c.Env, name+"="+value)
		}
		return c
	}
	return p, command, end
}

// The output of the playground is true: its commands work as they are printed, its page opens, and a question waits
// and can be answered. At the end no files are left.
func TestDemoKeep(t *testing.T) {
	t.Parallel()
	p, command, end := startPlayground(t)
	want := map[string]string{
		"teambridge":        "worker@session-",
		"teambridge inbox":  "Yes, on all three systems",
		"teambridge status": "team-lead",
		"teambridge permit": "Bash: git tag v1.4.0",
		`teambridge ask worker "what are you doing?"`: "These agents are simulated",
		`teambridge send lead "what is left to do?"`:  "sent  ",
		"teambridge history":                          "Then tag the release.",
		"teambridge watch":                            "",
		"teambridge ui --print":                       "http://127.0.0.1:",
	}
	for _, c := range p.Commands {
		text, ok := want[c]
		delete(want, c)
		if !ok {
			t.Errorf("nothing is known here of %q", c)
		}
		if text == "" {
			continue // it does not end
		}
		words := regexp.MustCompile(`"[^"]*"|[^ ]+`).FindAllString(c, -1)
		for i, w := range words {
			words[i] = strings.Trim(w, `"`)
		}
		cmd := command(words...)
		cmd.Dir = filepath.Dir(p.Environment["CLAUDE_CONFIG_DIR"])
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), text) {
			t.Errorf("%s: %v\n%s\nwant %q", c, err, out, text)
		}
	}
	if len(want) > 0 {
		t.Errorf("not among the commands: %v", want)
	}
	// The statements about inboxes on the first screen are also true for the simulated agents.
	if out, err := command("teambridge").CombinedOutput(); err != nil || !strings.Contains(string(out), "known once it is received") {
		t.Errorf("the first screen: %v\n%s", err, out)
	}
	if out, err := command("teambridge", "send", "worker", "hello", "--wait", "consumed").CombinedOutput(); err != nil {
		t.Errorf("send --wait consumed: %v\n%s", err, out)
	}
	var asked []struct{ ID string }
	out, err := command("teambridge", "permit", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &asked)
	}
	if err != nil || len(asked) != 1 {
		t.Fatalf("%v, the questions are %s", err, out)
	}
	if out, err := command("teambridge", "permit", asked[0].ID).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for limit := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := command("teambridge", "history", "--with", "lead").CombinedOutput()
		if strings.Contains(string(out), "is tagged and pushed") {
			break
		}
		if err != nil || time.Now().After(limit) {
			t.Fatalf("%v, the history is\n%s", err, out)
		}
	}
	jar, err := cookiejar.New(nil)
	errtest.Must(t, err)
	browser := &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := browser.Get(p.Page)
	errtest.Must(t, err)
	_ = res.Body.Close()
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/html") {
		t.Errorf("the page is %s, %s", res.Status, kind)
	}
	end()
}
