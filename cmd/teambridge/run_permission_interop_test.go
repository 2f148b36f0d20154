package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
				command := standin.Require(t, v)
				home := standin.NewHome(t, nil)
				h := &headless{t: t, home: home, state: filepath.Join(t.TempDir(), "state")}
				for _, v := range home.Env() {
					name, value, _ := strings.Cut(v, "=")
					t.Setenv(name, value)
				}
				stdin, typed := io.Pipe()
				out, printed := io.Pipe()
				ended := make(chan int, 1)
				args := append([]string{"run", "--team", "mine", "--create-team", "--exit-on-eof", "--output", "events", "--permissions", tc.permissions, "--"}, command...)
				var errs bytes.Buffer
				go func() {
					host := h.host(printed, &errs)
					host.stdin = stdin
					ended <- run(args, host)
					printed.Close()
				}()
				ctx := deadline(t, time.Minute)
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
				select {
				case status := <-ended:
					if status != 0 {
						t.Errorf("run ended with %d\n%s", status, &errs)
					}
				case <-ctx.Done():
					t.Fatalf("run did not end\n%s", &errs)
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
