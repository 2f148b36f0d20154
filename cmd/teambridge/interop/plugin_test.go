package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/relay/shell"
	"teambridge/status/api"
	"teambridge/teams"
)

// pluginFiles returns the files below dir that an installation changes, with their checksums.
func pluginFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if top, _, _ := strings.Cut(rel, string(filepath.Separator)); d.IsDir() || top != "plugins" && top != "settings.json" {
			return nil
		}
		data, err := os.ReadFile(path)
		sum := sha256.Sum256(data)
		all[rel] = hex.EncodeToString(sum[:])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// pluginUser is a person who installs the plugin with a teambridge of their own.
type pluginUser struct {
	*hookedUser
	program string // teambridge
	claude  string
}

func newPluginUser(t *testing.T, v teams.Version) *pluginUser {
	t.Helper()
	hooked := &hookedUser{sessionUser: newSomebody(t, nil), version: v}
	home, dir := hooked.home, hooked.user.home
	home.Extra = append(home.Extra, "GORACE=atexit_sleep_ms=0")
	p := &pluginUser{hooked, filepath.Join(dir, "it's", "teambridge"), filepath.Join(dir, "claude")}
	data, err := os.ReadFile(own(t))
	if err == nil {
		err = os.Mkdir(filepath.Dir(p.program), 0o700)
	}
	must(t, err)
	standin.WriteProgram(t, p.program, string(data))
	words := []string{}
	for _, w := range standin.Require(t, v) {
		words = append(words, shell.Quote(w))
	}
	home.Extra = append(home.Extra, "PATH="+dir+":"+os.Getenv("PATH"))
	standin.WriteProgram(t, p.claude, "#!/bin/sh\nexec "+strings.Join(words, " ")+` "$@"`+"\n")
	return p
}

// runs runs a program as the user, with the state directory of hookedUser.
func (p *pluginUser) runs(program string, args ...string) string {
	p.t.Helper()
	cmd := exec.CommandContext(p.ctx, program, args...)
	cmd.Dir, cmd.Env = p.home.Work, append(p.home.Env(), "TEAMBRIDGE_STATE="+p.state())
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

func (p *pluginUser) setUpPlugin(flags ...string) string {
	p.t.Helper()
	return p.runs(p.program, append([]string{"setup", "plugin", "--yes"}, flags...)...)
}

// commands makes the session send a text to the person by the command of the plugin, which asks for no permission.
func (p *pluginUser) commands(text string) {
	p.t.Helper()
	call := standin.CallLine("mcp__plugin_teambridge_teambridge__send_message", map[string]any{"to": "user", "text": text})
	prompts(p.t, p.ctx, p.terminal, "/teambridge:send "+call)
	r, err := p.home.API.Wait(p.ctx, func(r standin.Request) bool { return !r.Side && len(r.Results) > 0 })
	if err != nil {
		p.t.Fatalf("%v\n%s", err, p.terminal.Screen())
	}
	if said := strings.Join(r.Results, "\n"); !strings.Contains(said, "verified") && !strings.Contains(said, "inbox of the person") {
		p.t.Errorf("the tool said %s", said)
	}
	if mine := p.must("inbox"); !strings.Contains(mine, text) {
		p.t.Errorf("the person has:\n%s", mine)
	}
}

// With the plugin, a session has the tools, and the commands use them without asking. Without the program, sessions
// still work, and uninstalling removes everything.
func TestRealPlugin(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newPluginUser(t, v)
		must(t, os.WriteFile(filepath.Join(p.home.Root, "settings.json"), []byte("{\"cleanupPeriodDays\":20,\n\t\"env\": {}}"), 0o600))
		p.runs(p.claude, "plugin", "list") // it writes its usual files
		before := pluginFiles(t, p.home.Root)
		for i, changed := range []string{`"changed":true`, `"changed":false`} {
			if said := p.setUpPlugin("--json"); !strings.Contains(said, `"state":"done"`) || !strings.Contains(said, changed) {
				t.Errorf("call %d said %s; want %s", i, said, changed)
			}
		}
		p.begins(v)
		is := p.sessionThat(p.ctx, func(s api.Session) bool { return s.PID == p.terminal.Pid() && s.Way != "" })
		if is.Way != api.WaySession {
			t.Errorf("it is reached by %q", is.Way)
		}
		p.commands("(by the command)")
		if sent := p.must("send", is.Session, "(a message)", "--wait", "seen"); !strings.Contains(sent, "seen") {
			t.Errorf("sent: %s", sent)
		}

		must(t, os.Rename(p.program, p.program+"-gone"))
		without := standin.StartSession(t, v, p.home)
		for _, prompt := range []string{"[without it]", "[again]"} { // the second ends the first turn, with its hooks
			prompts(t, p.ctx, without, prompt)
			given(t, p.ctx, p.home.API, standin.Any, prompt)
		}
		if screen := without.Screen(); strings.Contains(screen, "hook error") || strings.Contains(screen, "not found") {
			t.Errorf("without the program, the screen shows:\n%s", screen)
		}
		must(t, os.Rename(p.program+"-gone", p.program))
		p.setUpPlugin("--undo")
		after := pluginFiles(t, p.home.Root)
		for file, sum := range after {
			if before[file] != sum {
				data, _ := os.ReadFile(filepath.Join(p.home.Root, file))
				t.Errorf("%s is left, or has changed:\n%s", file, bytes.TrimSpace(data))
			}
		}
		if len(before) != len(after) {
			t.Errorf("before %v, after %v", before, after)
		}
		if left, _ := filepath.Glob(filepath.Join(p.state(), "plugins", "*")); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// The plugin of the repository works from its place, with the teambridge in $PATH.
func TestRealPluginOfTheRepository(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newPluginUser(t, v)
		p.home.Extra = append(p.home.Extra, "PATH="+filepath.Dir(p.program)+":"+filepath.Dir(p.claude)+":"+os.Getenv("PATH"), "TEAMBRIDGE_STATE="+p.state())
		root, err := filepath.Abs("../../..")
		must(t, err)
		p.begins(v, "--plugin-dir", filepath.Join(root, "plugin", "teambridge"))
		p.sessionThat(p.ctx, func(s api.Session) bool { return s.PID == p.terminal.Pid() && s.Way != "" })
		p.commands("(from the folder)")
		p.runs(p.claude, "plugin", "marketplace", "add", root)
		p.runs(p.claude, "plugin", "install", "teambridge@teambridge")
		if said := p.runs(p.claude, "mcp", "list"); !strings.Contains(said, "Connected") {
			t.Errorf("Claude Code says of its servers:\n%s", said)
		}
		cmd := exec.CommandContext(p.ctx, p.program, "setup", "plugin", "--yes")
		cmd.Env = append(p.home.Env(), "TEAMBRIDGE_STATE="+p.state())
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != int(api.CodeRefused.Exit()) || !strings.Contains(string(out), root) {
			t.Errorf("beside a plugin from elsewhere: %v, %s", cmd.ProcessState, out)
		}
	})
}
