package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// planner is a model that tries, at each message that holds <try-N>, to leave plan
// mode and to make the files bash-N and write-N.
type planner struct {
	dir  string
	mu   sync.Mutex
	left []standin.Call
}

var try = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<try-\d+>`) })

func (p *planner) respond(ctx context.Context, r standin.Request) standin.Answer {
	if r.Side {
		return standin.Script(ctx, r)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := try().FindString(r.Text()); m != "" && len(r.Results) == 0 {
		n := strings.Trim(m, "<try->")
		p.left = nil
		for _, c := range []struct {
			name  string
			input map[string]string
		}{
			{"ExitPlanMode", map[string]string{"plan": "# Plan"}},
			{"Bash", map[string]string{"command": "touch bash-" + n, "description": "d"}},
			{"Write", map[string]string{"file_path": filepath.Join(p.dir, "write-"+n), "content": "x"}},
		} {
			input, err := json.Marshal(c.input)
			if err != nil {
				return standin.Answer{Text: err.Error(), Status: 400}
			}
			p.left = append(p.left, standin.Call{Name: c.name, Input: input})
		}
	}
	if len(p.left) == 0 {
		return standin.Script(ctx, r)
	}
	next := p.left[0]
	p.left = p.left[1:]
	return standin.Answer{Calls: []standin.Call{next}}
}

// A real agent that tries to leave plan mode stays in it, and changes nothing: also
// where its command skips permissions and everything is allowed that it asks for,
// after a message that comes through the inbox, and after a kill of bridge and
// agent. When a person says so, it may do everything again.
func TestRealPlanMode(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		p := &planner{}
		h := newHeadless(t, v, p.respond)
		p.dir = h.home.Work
		ctx := deadline(t, 4*time.Minute)
		flags := []string{"--output", "raw", "--permissions", "allow=*"}
		h.start(flags...)
		l := h.ledger()
		h.typing(`{"text": "<try-1>", "mode": {"permissionMode": "plan"}}`)
		h.settled(ctx, l, 1)
		h.send("<try-2>")
		h.settled(ctx, l, 2)
		h.kill()
		h.killAgent(ctx, l)
		h.start(flags...)
		h.send("<try-3>")
		h.settled(ctx, l, 3)
		h.typing(`{"text": "<try-4>", "mode": {"permissionMode": null}}`)
		all := h.settled(ctx, l, 4)
		if status := h.finish(ctx); status != 0 {
			t.Errorf("run ended with %d\n%s", status, h)
		}
		var made []string
		for n := 1; n <= 4; n++ {
			for _, name := range []string{fmt.Sprint("bash-", n), fmt.Sprint("write-", n)} {
				if _, err := os.Stat(filepath.Join(h.home.Work, name)); err == nil {
					made = append(made, name)
				}
			}
		}
		if !slices.Equal(made, []string{"bash-4", "write-4"}) {
			t.Errorf("made %q, want what was asked for after plan mode\n%s", made, h)
		}
		for i, d := range all {
			want := "plan"
			if i == 3 {
				want = "bypassPermissions"
			}
			if mode := permissionModeOf(t, h, d.Frame); mode != want || d.State != "done" {
				t.Errorf("message %d: %s (%s) in permission mode %s, want done in %s", i+1, d.State, d.Reason, mode, want)
			}
		}
	})
}
