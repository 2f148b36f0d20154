package ssh

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"teambridge/status/api"
	"teambridge/teams/errtest"
)

var must = errtest.Must

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Host{
		"ssh://box":                  {Name: "box"},
		"ssh://box/":                 {Name: "box"},
		"ssh://alice@box.example:22": {Name: "box.example", User: "alice", Port: "22"},
		"ssh://box/run/tb.sock":      {Name: "box", Socket: "/run/tb.sock"},
		"ssh://box/it's%20here":      {Name: "box", Socket: "/it's here"},
		"ssh://[2001:db8::1]:2222/s": {Name: "2001:db8::1", Port: "2222", Socket: "/s"},
	} {
		h, err := Parse(text)
		if err != nil || h != want {
			t.Errorf("%s is %+v, %v; want %+v", text, h, err, want)
			continue
		}
		if again, err := Parse(h.String()); err != nil || again != want {
			t.Errorf("%s is written as %s, which is %+v, %v", text, h, again, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "box", "alice@box", "ssh:box", "ssh://", "ssh:///s", "http://box", "ssh://alice:secret@box", "ssh://alice:@box", "ssh://@box",
		"ssh://-oProxyCommand=reboot", "ssh://-l@box", "ssh://%2dx", "ssh://box:0", "ssh://box:65536", "ssh://box:-1", "ssh://box:x", "ssh://box:22x",
		"ssh://box?x=1", "ssh://box?", "ssh://box#x", "ssh://$(reboot)", "ssh://a;b", "ssh://a%20b", "ssh://a%0Ab", "ssh://`x`@box", "ssh://a'b@box", "ssh://box/s%0A", "ssh://a\\b",
	} {
		h, err := Parse(text)
		if !errors.Is(err, api.CodeUsage) {
			t.Errorf("%q is %+v, %v", text, h, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the password: %v", text, err)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	h := Host{Name: "box", User: "alice", Port: "2222"}
	got := strings.Join(h.args("teambridge", true), "\n")
	want := strings.Join([]string{
		"-T", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15", "-o", "ClearAllForwardings=yes", "-o", "BatchMode=yes", "-l", "alice", "-p", "2222", "--", "box",
		`sh -c 'PATH="$PATH:$HOME/.local/bin:$HOME/go/bin:/usr/local/bin:/opt/homebrew/bin"; exec teambridge dial-stdio'`,
	}, "\n")
	if got != want {
		t.Errorf("the arguments are\n%s\nwant\n%s", got, want)
	}
	if line := h.Line("teambridge run", true); line != "ssh -t -p 2222 alice@box teambridge run" {
		t.Errorf("the line is %s", line)
	}
}

// The shells of the other machine pass the program and the socket on as one word each, whatever
// their names.
func TestQuoting(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	for _, socket := range []string{"/run/tb.sock", "/it's $HOME `id` \"x\" \\ * ; reboot", "/a\\'b", "/-x"} {
		command := Host{Name: "box", Socket: socket}.command("pr'int $f")
		command = strings.Replace(command, "exec ", `set -- `, 1)
		command = strings.TrimSuffix(command, "'") + `; for w; do echo "<$w>"; done` + "'"
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if want := "<pr'int $f>\n<dial-stdio>\n<-->\n<" + socket + ">\n"; err != nil || string(out) != want {
			t.Errorf("the words are %q, %v; want %q", out, err, want)
		}
	}
}
