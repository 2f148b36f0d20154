package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// A real agent that wants to use a tool is refused and told why, allowed by the
// list, or by the person who is asked.
func TestRealRunPermissions(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		for _, tc := range []struct {
			permissions string
			allow       bool // what the person says
			runs        bool
			told        string
		}{
			{"deny", false, false, "runs without a person"},
			{"allow=Read,Bash", false, true, ""},
			{"ask", true, true, ""},
			{"ask", false, false, "not today"},
		} {
			t.Run(fmt.Sprint(tc.permissions, " ", tc.allow), func(t *testing.T) {
				t.Parallel()
				command := standin.Require(t, v)
				home := standin.NewHome(t, nil)
				ctx := deadline(t, 3*time.Minute)
				args := append([]string{"run", "--team", "mine", "--create-team", "--exit-on-eof", "--output", "events", "--permissions", tc.permissions, "--"}, command...)
				cmd := exec.CommandContext(ctx, own(t), args...)
				cmd.Dir, cmd.Env = home.Work, append(home.Env(), "TEAMBRIDGE_STATE="+filepath.Join(t.TempDir(), "state"), "GORACE=atexit_sleep_ms=0")
				var errs bytes.Buffer
				cmd.Stderr = &errs
				typed, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				call, err := json.Marshal(map[string]string{
					"text": standin.CallLine("Bash", map[string]string{"command": "touch made", "description": "d"}),
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := fmt.Fprintf(typed, "%s\n", call); err != nil {
					t.Fatal(err)
				}
				asked := 0
				lines := bufio.NewScanner(out)
				lines.Buffer(nil, 1<<20)
				for lines.Scan() {
					var l struct {
						Permission *struct{ ID, Digest, Tool string } `json:"permission"`
						Open       bool                               `json:"open"`
						Result     string                             `json:"result"`
					}
					if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
						t.Errorf("%s: %v", lines.Text(), err)
					}
					switch {
					case l.Permission != nil && l.Open:
						asked++
						if l.Permission.Tool != "Bash" {
							t.Errorf("asked for %q", l.Permission.Tool)
						}
						if _, err := fmt.Fprintf(typed, `{"permit": %q, "digest": %q, "allow": %t, "reason": %q}`+"\n", l.Permission.ID, l.Permission.Digest, tc.allow, tc.told); err != nil {
							t.Error(err)
						}
					case l.Result != "":
						typed.Close()
					}
				}
				if err := cmd.Wait(); err != nil {
					t.Errorf("run: %v\n%s", err, &errs)
				}
				if _, err := os.Stat(filepath.Join(home.Work, "made")); (err == nil) != tc.runs {
					t.Errorf("the tool ran: %t, want %t", err == nil, tc.runs)
				}
				if want := tc.permissions == "ask"; (asked == 1) != want {
					t.Errorf("asked %d times", asked)
				}
				if tc.told == "" {
					return
				}
				told := false
				for _, r := range home.API.Log() {
					told = told || len(r.Results) > 0 && strings.Contains(strings.Join(r.Results, "\n"), tc.told)
				}
				if !told {
					t.Errorf("the agent was not told %q\n%s", tc.told, home.API)
				}
			})
		}
	})
}
