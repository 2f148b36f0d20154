package supervisor

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams/errtest"
)

var must = errtest.Must

var odd = []string{"/a b/teambridge", "serve", "--claude-dir", `/we$ird %h "x" \y & <z> ☃`, `C:\a b\`, ""}

// elements returns the names and texts of elements with a text, in order, as an XML parser reads them.
func elements(t *testing.T, text string) (names, texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // the text is decoded already
	name := ""
	for {
		token, err := d.Token()
		if err == io.EOF {
			return names, texts
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			name = token.Name.Local
			names, texts = append(names, name), append(texts, "")
		case xml.CharData:
			if len(texts) > 0 && strings.TrimSpace(string(token)) != "" && name != "" {
				texts[len(texts)-1] += string(token)
			}
		case xml.EndElement:
			name = ""
		}
	}
}

// launchd reads the intended text, whatever characters it has.
func TestLaunchAgent(t *testing.T) {
	t.Parallel()
	i := LaunchAgent("/Users/x", 501, "/s/service.log")
	if i.Path != "/Users/x/Library/LaunchAgents/teambridge.plist" && filepath.Separator == '/' {
		t.Error(i.Path)
	}
	text, err := i.Text(odd, []string{"PATH=/usr/bin:/a b/%bin", "X=<1>"})
	must(t, err)
	names, texts := elements(t, text)
	at := slices.Index(texts, "ProgramArguments")
	if got, want := texts[at+2:at+2+len(odd)+2], append(slices.Clone(odd), "--log", "/s/service.log"); !slices.Equal(got, want) {
		t.Errorf("arguments %q, want %q", got, want)
	}
	for key, want := range map[string]string{"Label": "teambridge", "PATH": "/usr/bin:/a b/%bin", "X": "<1>", "ExitTimeOut": "90", "ProcessType": "Interactive", "StandardErrorPath": "/s/service.log"} {
		if at := slices.Index(texts, key); at < 0 || names[at] != "key" || texts[at+1] != want {
			t.Errorf("%s is not %q in\n%s", key, want, text)
		}
	}
	if _, err := i.Text([]string{"/a\x01b"}, nil); err == nil {
		t.Error("a control character is taken")
	}
	plutil, err := exec.LookPath("plutil")
	if err != nil {
		t.Log("plutil is not installed")
		return
	}
	path := filepath.Join(t.TempDir(), "x.plist")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	if out, err := exec.Command(plutil, "-lint", path).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestScheduledTask(t *testing.T) {
	t.Parallel()
	i := ScheduledTask(t.TempDir(), "S-1-5-21-1", "/s/service.log")
	text, err := i.Text(odd, []string{"PATH=/usr/bin"})
	must(t, err)
	names, texts := elements(t, text)
	if at := slices.Index(names, "Arguments"); at < 0 || texts[at] != `--headless "/a b/teambridge" serve --claude-dir "/we$ird %h \"x\" \y & <z> ☃" "C:\a b\\" "" --log /s/service.log` {
		t.Errorf("arguments %q", texts[max(at, 0)])
	}
	if n := strings.Count(text, "<UserId>S-1-5-21-1</UserId>"); n != 2 {
		t.Errorf("%d times the user", n)
	}
	data := i.system.encode(text)
	if back := i.system.decode(data); back != text || data[0] != 0xff || data[1] != 0xfe {
		t.Errorf("after it was written: %q", back)
	}
	if _, err := i.Text(odd, []string{"X=1"}); err == nil {
		t.Error("a variable is taken")
	}
}

// A file that we have not written stays unchanged, on each system.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, j := range []Job{service(t), LaunchAgent(dir, 501, filepath.Join(dir, "log")), ScheduledTask(dir, "S-1-5-21-1", filepath.Join(dir, "log"))} {
		const foreign = "# Written by somebody else\n"
		must(t, errors.Join(os.MkdirAll(filepath.Dir(j.Path), 0o700), os.WriteFile(j.Path, []byte(foreign), 0o600)))
		text, err := j.Text(odd, nil)
		must(t, err)
		_, installed := j.Install(t.Context(), text, false)
		_, _, uninstalled := j.Uninstall(t.Context())
		for what, err := range map[string]error{"install": installed, "restart": j.Restart(t.Context()), "uninstall": uninstalled} {
			if d, ok := errors.AsType[*api.Decided](err); !ok || d.Code != api.CodeRefused {
				t.Errorf("%s, %s: %v", j.System, what, err)
			}
		}
		if data, err := os.ReadFile(j.Path); err != nil || string(data) != foreign {
			t.Errorf("%s: the file is now %q, %v", j.System, data, err)
		}
	}
}

// fakeLaunchctl reports the agent as known for some more requests after bootout.
func fakeLaunchctl(t *testing.T, ending int) Job {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\ncd '" + dir + "'\necho \"$*\" >>log\ncase $1 in\n" +
		"print) [ -s known ] || exit 113; [ ! -e ending ] || sed -i.bak 1d known; echo '\tstate = running' ;;\n" +
		"bootout) touch ending ;;\nbootstrap) [ ! -s known ] || exit 5; rm -f ending; echo 1 >known ;;\nesac\n"
	standin.WriteProgram(t, filepath.Join(dir, "launchctl"), script)
	must(t, os.WriteFile(filepath.Join(dir, "known"), []byte(strings.Repeat("x\n", ending)), 0o600))
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	i := LaunchAgent(dir, 501, filepath.Join(dir, "state", "service.log"))
	i.system = launchd{domain: "gui/501", poll: time.Millisecond}
	return i
}

// Install waits for an agent that ends slowly: launchd refuses the next one until then.
func TestAgentThatEndsSlowly(t *testing.T) {
	i := fakeLaunchctl(t, 3)
	text, err := i.Text(odd, nil)
	must(t, err)
	done, err := i.Install(t.Context(), text, true)
	if err != nil || !done.Started {
		t.Fatalf("%+v, %v", done, err)
	}
	if state, err := i.State(t.Context()); state != "running" || err != nil {
		t.Errorf("state %q, %v", state, err)
	}
}

// One that does not end in time is an error, and nothing is removed.
func TestAgentThatDoesNotEnd(t *testing.T) {
	i := fakeLaunchctl(t, 1_000_000)
	text, err := i.Text(odd, nil)
	must(t, err)
	if _, err := i.Install(t.Context(), text, false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if done, _, err := i.Uninstall(ctx); !errors.Is(err, context.DeadlineExceeded) || done.Removed {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := i.Read(); err != nil {
		t.Error(err)
	}
}
