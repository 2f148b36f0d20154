package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":        `""`,
		"a b":     `"a b"`,
		`a"b\c`:   `"a\"b\\c"`,
		"100%":    `"100%%"`,
		"$HOME ☃": `"$$HOME ☃"`,
	} {
		if got := quoteUnit(in, true); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := quoteUnit("A=$HOME", false); got != `"A=$HOME"` {
		t.Error(got)
	}
	for _, word := range []string{"a\nb", "a\x00b", "a\xffb"} {
		u := service(t)
		if _, err := u.Text([]string{word}, nil); err == nil {
			t.Errorf("%q is taken as an argument", word)
		}
		if _, err := u.Text([]string{"a"}, []string{word}); err == nil {
			t.Errorf("%q is taken as a variable", word)
		}
	}
}

// unset is an environment without variables.
func unset(string) (string, bool) { return "", false }

func service(t *testing.T) Job {
	t.Helper()
	dir := t.TempDir()
	u, err := Service(unset, func() (string, error) { return dir, nil })
	must(t, err)
	return u
}

func hub(dir string) (Job, error) {
	return Hub(dir, unset, func() (string, error) { return "/home/x", nil })
}

// systemd-analyze accepts the unit, and the test would notice a complaint.
func TestUnitAsSystemdReadsIt(t *testing.T) {
	t.Parallel()
	if os.Getenv(standin.EnvInterop) == "" {
		t.Skip("systemd-analyze is not used: " + standin.EnvInterop + " is not set")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	binary, err := exec.LookPath("true")
	if err != nil {
		t.Skip("there is no true")
	}
	verify := func(u Job, text string) string {
		t.Helper()
		dir := t.TempDir()
		path := filepath.Join(dir, u.Name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		cmd := exec.Command(analyze, "--user", "--man=no", "verify", path)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "HOME="+dir)
		out, _ := cmd.CombinedOutput() // it also fails in a container, which lacks some features
		var ours []string
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, u.Name) {
				ours = append(ours, line)
			}
		}
		return strings.Join(ours, "")
	}
	hub, err := hub("/we$ird %h 'x' y")
	must(t, err)
	for _, u := range []Job{service(t), hub} {
		text, err := u.Text([]string{binary, "serve", "--claude-dir", `/we$ird %h "x" \y`}, []string{"PATH=/usr/bin:/a b/%bin", "X=1"})
		must(t, err)
		if said := verify(u, strings.Replace(text, "Restart=on-failure", "Restart=gently", 1)); said == "" {
			t.Skip("systemd-analyze says nothing here")
		}
		if said := verify(u, text); said != "" {
			t.Errorf("systemd-analyze says: %s\nof\n%s", said, text)
		}
	}
}

// The directory of a hub is the only one that it can write to, and its name has no characters that systemd
// would interpret.
func TestHubDirectory(t *testing.T) {
	t.Parallel()
	u, err := hub("/a b/100%")
	must(t, err)
	text, err := u.Text([]string{"/bin/teambridge-hub", "run"}, nil)
	if err != nil || !strings.Contains(text, "\nProtectSystem=strict\nProtectHome=read-only\nReadWritePaths=\"/a b/100%%\"\n") || strings.Contains(text, "Environment") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, dir := range []string{`/a"b`, `/a\b`, "/a\nb"} {
		if _, err := hub(dir); err == nil {
			t.Errorf("%q is taken", dir)
		}
	}
}

func TestProgram(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"/usr/bin/teambridge", `/it's "here"/100%/a\b/teambridge`} {
		u := service(t)
		u.Path = filepath.Join(t.TempDir(), "u.service")
		text, err := u.Text([]string{program, "serve", "--listen", "x"}, nil)
		must(t, err)
		must(t, os.WriteFile(u.Path, []byte(text), 0o600))
		if got, err := u.Program(); err != nil || got != program {
			t.Errorf("%q, %v; want %q", got, err, program)
		}
	}
}
