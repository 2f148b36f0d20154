package interop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/opencode"
	"teambridge/relay/relaytest/standin"
	"teambridge/relay/wire"
)

// The transcript of an agent in a real team has each message that it was given, even in the middle of a turn, and its
// work.
func TestRealTranscriptOfAMember(t *testing.T) {
	eachTeam(t, func(t *testing.T, u *user) {
		ctx := deadline(t, patience)
		given := func(marker string) {
			t.Helper()
			given(t, ctx, u.team.API, u.team.Member, marker)
		}
		u.must("send", u.team.Member, "<m-0>\n"+standin.CallLine("Bash", map[string]string{"command": "echo hi", "description": "d"}))
		given("<m-0>")
		u.must("send", u.team.Member, "<m-1> SLEEP:3\n"+standin.CallLine("Bash", map[string]string{"command": "echo ho", "description": "d"}))
		given("<m-1>")
		u.must("send", u.team.Member, "<m-2>")
		u.must("send", u.team.Member, "<m-3>")
		given("<m-3>")
		u.must("send", u.team.Member, "<m-4>")
		given("<m-4>")
		var out string
		var texts, titles []string
		// It is written a little later than the turn.
		for {
			out, texts, titles = u.must("transcript", u.team.Member, "--json"), nil, nil
			open := map[string]int{}
			for line := range strings.Lines(out) {
				var e wire.Envelope
				if err := e.UnmarshalJSON([]byte(line)); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				switch ev := e.Event.(type) {
				case *wire.Text:
					if e.Role == wire.RoleUser {
						texts = append(texts, ev.Text)
					}
				case *wire.ToolCallStart:
					titles = append(titles, ev.Title)
					open[ev.Call]++
				case *wire.ToolCallEnd:
					open[ev.Call]--
				case *wire.TurnStart:
					open[*e.Turn]++
				case *wire.TurnEnd:
					open[*e.Turn]--
				}
			}
			all := strings.Join(texts, "\n")
			paired := true
			for _, n := range open {
				paired = paired && n == 0
			}
			if strings.Contains(all, "<m-4>") && paired {
				break
			}
			select {
			case <-ctx.Done():
				t.Fatalf("the transcript does not end with the last message and the end of its turn: %v\n%s", open, out)
			case <-time.After(100 * time.Millisecond):
			}
		}
		all := strings.Join(texts, "\n")
		for i := range 5 {
			if n := strings.Count(all, fmt.Sprintf("<m-%d>", i)); n != 1 {
				t.Errorf("<m-%d> is there %d times, want once:\n%s", i, n, all)
			}
		}
		for _, want := range []string{"run `echo hi`", "run `echo ho`"} {
			if n := strings.Count(strings.Join(titles, "\n"), want); n != 1 {
				t.Errorf("%s is there %d times, want once: %q", want, n, titles)
			}
		}
		// The transcript of the lead, whether it works or waits, is read the same way.
		u.must("transcript", "lead", "--json")
	})
}

// After run has ended, the texts and the work of an OpenCode agent are printed by the id of its session, ours or
// OpenCode's: a server is started to read it.
func TestRealTranscriptOfOpenCode(t *testing.T) {
	t.Parallel()
	ctx := deadline(t, 2*patience) // OpenCode starts six times
	home := standin.NewHome(t, nil)
	h := newHeadlessIn(t, home, home.OpenCode(t))
	h.start("--runtime", "opencode")
	h.typing("hello [m-1]")
	h.wait("ended the turn", func(s saying) bool { return s.Result != nil })
	session := h.up().Session
	h.finish()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "teambridge", append([]string{"transcript"}, args...)...)
		// run knows the program's path; for an id of OpenCode's own it is searched for.
		path := filepath.Dir(h.command[0]) + string(filepath.ListSeparator) + os.Getenv("PATH")
		cmd.Dir, cmd.Env = home.Work, append(home.Env(), "TEAMBRIDGE_STATE="+h.state, "PATH="+path)
		return cmd
	}
	transcript := func(args ...string) (string, string, int) {
		cmd := command(args...)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			t.Fatal(err)
		}
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	var printed []string
	for _, name := range []string{session, opencode.SessionID(session)} {
		out, errs, status := transcript(name, "--json")
		if status != 0 || strings.Count(out, "\n") != 4 || !strings.Contains(out, `"text":"ACK: hello [m-1]"`) || errs != "" {
			t.Errorf("%s: exit status %d, %s%s", name, status, out, errs)
		}
		printed = append(printed, out)
	}
	if printed[0] != printed[1] {
		t.Errorf("got\n%sand by the other id\n%s", printed[0], printed[1])
	}
	if out, errs, status := transcript("ses_nobody"); status != 3 || out != "" || !strings.Contains(errs, "has no session ses_nobody") {
		t.Errorf("no such session: exit status %d, %s%s", status, out, errs)
	}
	if out, errs, status := transcript("ses_../x"); status != 1 || out != "" || !strings.Contains(errs, "is not the id of a session") {
		t.Errorf("not an id: exit status %d, %s%s", status, out, errs)
	}

	// Records that another server adds are shown as they arrive.
	follow := command(session, "--follow")
	stdout, err := follow.StdoutPipe()
	must(t, err)
	must(t, follow.Start())
	server, _ := standin.StartOpenCode(t, home)
	lines := bufio.NewScanner(stdout)
	for sent := false; lines.Scan() && !strings.Contains(lines.Text(), "ACK: more [m-2]"); {
		if sent || !strings.Contains(lines.Text(), "ACK: hello [m-1]") {
			continue
		}
		sent = true
		address := server + "/api/session/" + opencode.SessionID(session) + "/prompt"
		resp, err := http.Post(address, "application/json", strings.NewReader(`{"prompt":{"text":"more [m-2]"},"delivery":"queue"}`))
		must(t, err)
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	if !strings.Contains(lines.Text(), "ACK: more [m-2]") {
		t.Errorf("--follow ended: %v", lines.Err())
	}
	must(t, follow.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, stdout)
	if _ = follow.Wait(); follow.ProcessState.ExitCode() != 130 {
		t.Errorf("interrupted: %s", follow.ProcessState)
	}
}
