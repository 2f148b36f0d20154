package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// realPane is the real program in a tmux pane, with the Stop hook in its settings, registered with a service as
// build. Its model does not answer a text with HOLD-x until x is released.
type realPane struct {
	*standin.Terminal
	t       *testing.T
	ctx     context.Context
	home    *standin.Home
	dir     string // the state directory
	env     []string
	service *served // nil: no service

	mu   sync.Mutex
	open map[string]chan struct{}
}

var holdMark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`HOLD-(\w+)`) })

func newRealPane(t *testing.T, v teams.Version) *realPane {
	t.Helper()
	p := startRealPane(t, v)
	p.service = serve(t, p.home, p.dir)
	p.service.post(p.ctx, "/v1/panes", fmt.Sprintf(`{"member": "build", "target": "%%0", "socket": %q}`, p.Socket), "", http.StatusCreated, new(api.Pane))
	return p
}

// startRealPane is newRealPane without a service or a registration.
func startRealPane(t *testing.T, v teams.Version, args ...string) *realPane {
	t.Helper()
	p := &realPane{t: t, dir: t.TempDir(), ctx: deadline(t, 5*time.Minute), open: map[string]chan struct{}{}}
	p.home = standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
		if !r.Side {
			for _, m := range holdMark().FindAllStringSubmatch(r.Text(), -1) {
				select {
				case <-p.hold(m[1]):
				case <-ctx.Done():
				}
			}
		}
		return standin.Script(ctx, r)
	}))
	p.home.Extra = []string{"TEAMBRIDGE_STATE=" + p.dir}
	p.env = p.home.Env()
	p.must("setup", "hooks", "--project", "--yes") // before the program starts
	p.Terminal = standin.StartPane(t, v, p.home, args...)
	return p
}

func (p *realPane) hold(name string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[name] == nil {
		p.open[name] = make(chan struct{})
	}
	return p.open[name]
}

func (p *realPane) release(name string) { close(p.hold(name)) }

func (p *realPane) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.ctx, "teambridge", args...)
	cmd.Dir, cmd.Env = p.home.Work, p.env
	return cmd
}

func (p *realPane) must(args ...string) {
	p.t.Helper()
	if out, err := p.command(args...).CombinedOutput(); err != nil {
		p.t.Fatalf("teambridge %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// send sends a message whose text begins with its id.
func (p *realPane) send(id, text, more string) {
	p.t.Helper()
	body, err := json.Marshal("[" + id + "] " + text)
	must(p.t, err)
	p.service.post(p.ctx, "/v1/teams/tmux/members/build/messages", fmt.Sprintf(`{"text": %s%s}`, body, more), id, http.StatusCreated, new(api.Sent))
}

func (p *realPane) get(path string, v any) {
	p.t.Helper()
	p.service.ask(p.ctx, "GET", path, "", "", http.StatusOK, v)
}

// until waits for a condition that a person would see.
func (p *realPane) until(what string, holds func() bool) {
	p.t.Helper()
	for end := time.Now().Add(90 * time.Second); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) || p.ctx.Err() != nil {
			var page api.Page
			p.get("/v1/teams/tmux/messages?with=build", &page)
			var v api.Pane
			p.get("/v1/panes/build", &v)
			all, _ := json.MarshalIndent([]any{v, page.Messages}, "", " ")
			p.t.Fatalf("want %s; pane and messages are %s\n%s\n%s", what, all, p.home.API, p.Screen())
		}
	}
}

// state returns the state of a message, and why it waits.
func (p *realPane) state(id string) (state, reason string) {
	p.t.Helper()
	var page api.Page
	p.get("/v1/teams/tmux/messages?with=build", &page)
	for _, m := range page.Messages {
		if m.ID == id && m.Relay != nil {
			return m.Relay.State, m.Relay.Reason
		}
	}
	return "", ""
}

// confirmed waits until the agent has taken messages.
func (p *realPane) confirmed(ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		p.until(id+" confirmed", func() bool {
			state, _ := p.state(id)
			return slices.Contains([]string{"done", "given", "finished"}, state)
		})
	}
}

// held waits until a message waits for this reason.
func (p *realPane) held(id, reason string) {
	p.t.Helper()
	p.until(id+" held: "+reason, func() bool {
		state, why := p.state(id)
		return state == "held" && strings.Contains(why, reason)
	})
	if n := p.count("[" + id + "]"); n != 0 {
		p.t.Errorf("%s was given %d times while it was held", id, n)
	}
}

// looks waits until the pane is in a state.
func (p *realPane) looks(state string) {
	p.t.Helper()
	p.until("a pane that is "+state, func() bool {
		var v api.Pane
		p.get("/v1/panes/build", &v)
		return v.Look != nil && v.Look.State == state
	})
}

// given waits until the model was given a text, and returns the call.
func (p *realPane) given(marker string) standin.Request {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 90*time.Second)
	defer cancel()
	r, err := p.home.API.Wait(ctx, func(r standin.Request) bool { return !r.Side && r.Agent == standin.Main && r.Has(marker) })
	if err != nil {
		p.t.Fatalf("%s did not arrive: %v\n%s", marker, err, p.Screen())
	}
	return r
}

func (p *realPane) count(marker string) int { return p.home.API.Count(standin.Main, marker) }

// prompt types a text as a person, and presses Enter.
func (p *realPane) prompt(text string) {
	p.t.Helper()
	prompts(p.t, p.ctx, p, text)
}

func (p *realPane) keys(keys ...string) {
	p.t.Helper()
	must(p.t, p.Keys(p.ctx, keys...))
}

// enter submits the text in the composer. While the composer shows it, a lost Enter is pressed again.
func (p *realPane) enter(what string, done func() bool) {
	p.t.Helper()
	p.keys("Enter")
	last := time.Now()
	p.until(what, func() bool {
		var v api.Pane
		if time.Since(last) > 5*time.Second {
			if p.get("/v1/panes/build", &v); v.Look != nil && v.Look.State == api.PaneDraft && !done() {
				p.keys("Enter")
			}
			last = time.Now()
		}
		return done()
	})
}

// notified reports whether the person was notified that the task of a message is done.
func (p *realPane) notified(id string) bool {
	p.t.Helper()
	var list []api.Attention
	p.get("/v1/attention?team=tmux", &list)
	return slices.ContainsFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsDone && a.Message == id })
}

func (p *realPane) notYetNotified(id string) {
	p.t.Helper()
	if p.notified(id) {
		p.t.Errorf("%s: its task was called done before it was", id)
	}
}

// TestRealPane types messages into the real program.
func TestRealPane(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		p := newRealPane(t, v)

		// At the prompt: at once. The notification comes at the end of the task, and not earlier.
		p.send("idle", "HOLD-idle", `, "notifyOnStop": true`)
		p.confirmed("idle")
		p.given("[idle]")
		p.notYetNotified("idle")
		p.release("idle")
		p.until("a notification of idle", func() bool { return p.notified("idle") })

		// In mid-turn: whole, as the next input, and the turn continues. The notification comes after the message's
		// own task, however long the task before took, and a wait for the agent ends then, too.
		p.prompt("HOLD-before work")
		p.given("HOLD-before")
		text := "HOLD-middle ünïcode 漢字 ✻\n\n\t/not a command; !not one either;\n" + strings.Repeat("a long line ", 200) + "\nlast line;"
		p.send("middle", text, `, "notifyOnStop": true`)
		p.confirmed("middle")
		wait := p.command("wait", "--for", "idle", "--member", "build", "--team", "tmux", "--timeout", "4m")
		var waitSaid bytes.Buffer
		wait.Stdout, wait.Stderr = &waitSaid, &waitSaid
		must(t, wait.Start())
		var waitErr error
		waited := make(chan struct{})
		go func() {
			waitErr = wait.Wait()
			close(waited)
		}()
		if n := p.count("[middle]"); n != 0 {
			t.Errorf("middle was given %d times before the turn ended", n)
		}
		p.release("before")
		// The program itself makes four spaces of a tab.
		if r := p.given("[middle]"); !strings.Contains(r.Text(), "[middle] "+strings.ReplaceAll(text, "\t", "    ")) {
			t.Errorf("middle arrived as %q", r.Texts)
		}
		if n := p.home.API.Turns(standin.Main, "HOLD-before"); n != 1 {
			t.Errorf("the turn that the message came into was answered %d times", n)
		}
		p.notYetNotified("middle")
		select {
		case <-waited:
			t.Errorf("wait ended between two tasks: %v\n%s", waitErr, waitSaid.Bytes())
		default:
		}
		p.release("middle")
		p.until("a notification of middle", func() bool { return p.notified("middle") })
		if <-waited; waitErr != nil {
			t.Errorf("wait: %v\n%s", waitErr, waitSaid.Bytes())
		}

		// While a tool runs, the message joins that turn, and its task ends with the turn.
		p.prompt(standin.CallLine("Bash", map[string]string{"command": "while [ ! -e go ]; do sleep 0.1; done", "description": "wait"}))
		p.looks(api.PaneBusy)
		p.send("joined", "HOLD-joined", `, "notifyOnStop": true`)
		p.confirmed("joined")
		p.notYetNotified("joined")
		must(t, os.WriteFile(p.home.Work+"/go", nil, 0o600))
		p.given("[joined]")
		p.notYetNotified("joined")
		p.release("joined")
		p.until("a notification of joined", func() bool { return p.notified("joined") })

		// Three at once: in order, and each once.
		p.prompt("HOLD-burst work")
		p.given("HOLD-burst")
		burst := []string{"first", "second", "third"}
		for _, id := range burst {
			p.send(id, "of three", "")
		}
		p.confirmed(burst...)
		p.release("burst")
		p.given("[third]")
		var order []string
		for _, r := range p.home.API.Log() {
			for _, m := range regexp.MustCompile(`\[(first|second|third)\] of three`).FindAllStringSubmatch(r.Text(), -1) {
				if !r.Side && !slices.Contains(order, m[1]) {
					order = append(order, m[1])
				}
			}
		}
		if !slices.Equal(order, burst) {
			t.Errorf("they came as %q", order)
		}

		// The person has typed a draft: the message waits, the draft stays, and only the person submits it.
		p.looks(api.PaneEmpty)
		p.keys("-l", "what a person typed")
		p.looks(api.PaneDraft)
		p.send("drafted", "text", "")
		p.held("drafted", "typed")
		if screen := p.Screen(); !strings.Contains(screen, "❯\u00a0what a person typed\n") {
			t.Errorf("the draft became:\n%s", screen)
		}
		p.enter("the draft submitted", func() bool { return p.count("what a person typed") > 0 })
		if r := p.given("what a person typed"); !slices.Contains(r.Texts, "what a person typed") {
			t.Errorf("the draft was submitted as %q", r.Texts)
		}
		p.confirmed("drafted")
		p.given("[drafted]")

		// If the sender requests it, the draft is put aside for the message, and restored.
		p.looks(api.PaneEmpty)
		p.keys("-l", "another draft")
		p.looks(api.PaneDraft)
		p.send("saved", "text", `, "saveDraft": true`)
		p.confirmed("saved")
		p.given("[saved]")
		p.until("the draft again", func() bool { return strings.Contains(p.Screen(), "❯\u00a0another draft\n") })
		// One key at a time: a key that is read together with a text may be taken for text.
		var pressed time.Time
		p.until("the draft cleared", func() bool {
			if time.Since(pressed) > 5*time.Second {
				p.keys("C-u")
				pressed = time.Now()
			}
			return !strings.Contains(p.Screen(), "another draft")
		})

		// agent-deck #1578: none of these aborted a turn.
		for _, r := range p.home.API.Log() {
			if r.Has("[Request interrupted by user") {
				t.Errorf("a turn was aborted: %q", r.Texts)
			}
		}

		// The agent asks a question: Enter would answer it.
		p.looks(api.PaneEmpty)
		p.keys("-l", standin.CallLine("AskUserQuestion", map[string]any{"questions": []any{map[string]any{
			"question": "Which?", "header": "Pick", "multiSelect": false,
			"options": []any{map[string]string{"label": "One", "description": "1"}, map[string]string{"label": "Two", "description": "2"}},
		}}}))
		p.looks(api.PaneDraft)
		p.enter("the question", func() bool { return strings.Contains(p.Screen(), "Esc to cancel") })
		p.looks(api.PaneDialog)
		p.send("asked", "text", "")
		p.held("asked", "asks")
		p.keys("Escape")
		p.confirmed("asked")
		p.given("[asked]")

		// An urgent message interrupts the agent, here in a tool that would never end.
		p.looks(api.PaneEmpty)
		p.prompt(standin.CallLine("Bash", map[string]string{"command": "sleep 1000", "description": "sleep"}))
		p.looks(api.PaneBusy)
		p.send("urgent", "text", `, "policy": "urgent"`)
		p.confirmed("urgent")
		p.given("[urgent]")

		for _, id := range []string{"idle", "middle", "joined", "first", "second", "third", "drafted", "saved", "asked", "urgent"} {
			if n := p.count("[" + id + "]"); n != 1 {
				t.Errorf("%s was given %d times", id, n)
			}
		}
	})
}
