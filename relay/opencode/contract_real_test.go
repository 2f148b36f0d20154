package opencode

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/process"
	"teambridge/relay/relaytest/standin"
)

// probe is a session of a real server, without our code except the calls.
type probe struct {
	*client
	t   *testing.T
	ctx context.Context
	dir string // of sessions
	id  string // of the session
}

func (p *probe) session(model string) {
	p.t.Helper()
	p.id = SessionID(uuid.NewString())
	must(p.t, p.create(p.ctx, p.id, p.dir, modelRef{ID: model, Provider: standin.OpenCodeProvider}, ""))
}

// give sends a text under an id and returns the number of the event that took it up.
func (p *probe) give(id, text string) (promoted int64, err error) {
	p.t.Helper()
	line, err := new(Runtime).Encode(id, text)
	must(p.t, err)
	return p.prompt(p.ctx, p.id, line)
}

// run sends a text and waits until its turn is over. It returns the events of the turn, in short.
func (p *probe) run(text string) (id string, events []string) {
	p.t.Helper()
	id = uuid.NewString()
	if _, err := p.give(id, text); err != nil {
		p.t.Fatal(err)
	}
	p.prompted(id)
	p.idle()
	return id, p.events(id)
}

func (p *probe) prompted(id string) {
	p.t.Helper()
	for r, err := range p.follow(p.ctx, p.id, 0) {
		must(p.t, err)
		if d, ok := r.Data.(*Prompted); ok && d.MessageID == MessageID(id) {
			return
		}
	}
}

func (p *probe) idle() {
	p.t.Helper()
	must(p.t, p.rest(p.ctx, p.id))
}

// events returns the events after a message was taken up, without those that only begin something.
func (p *probe) events(id string) (all []string) {
	p.t.Helper()
	found := false
	for r, err := range p.history(p.ctx, p.id, 0) {
		must(p.t, err)
		kind := strings.TrimPrefix(r.Type, "session.next.")
		switch d := r.Data.(type) {
		case *Prompted:
			found = d.MessageID == MessageID(id)
			continue
		case *StepEnded:
			kind += " " + d.Finish
		case *StepFailed:
			message, _, _ := strings.Cut(d.Error.Message, ":")
			kind += " " + message
		case *ToolFailed:
			kind += " " + d.Error.Message
		}
		if found && !slices.Contains(unused, r.Type) {
			all = append(all, kind)
		}
	}
	return all
}

// TestRealContract checks with the real program the points that relays rely on: OPENCODE.md.
func TestRealContract(t *testing.T) {
	t.Parallel()
	api := standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
		for _, status := range []int{400, 500} {
			if r.Has(fmt.Sprintf("[status %d]", status)) {
				return standin.Answer{Status: status, Text: "overloaded"}
			}
		}
		return standin.Script(ctx, r)
	})
	home := standin.NewHome(t, api)
	address, pid := standin.StartOpenCode(t, home)
	p := &probe{client: newClient(address, "", ""), t: t, ctx: within(t), dir: home.Work}
	defer p.close()
	equal := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}

	// Ids that we choose; the same session again changes nothing.
	p.session("sonnet")
	if err := p.create(p.ctx, p.id, p.dir, modelRef{ID: "opus", Provider: standin.OpenCodeProvider}, ""); err != nil {
		t.Error(err)
	}
	if s, err := p.client.session(p.ctx, p.id); err != nil || s.Model.ID != "sonnet" {
		t.Errorf("a session made again: %+v, %v", s, err)
	}

	// The same message again is known. Another text under its id is refused.
	id, events := p.run("[m-1]")
	equal("a plain turn", events, "step.started", "text.ended", "step.ended stop")
	if promoted, err := p.give(id, "[m-1]"); err != nil || promoted == 0 {
		t.Errorf("the same again: taken up as %d, %v", promoted, err)
	}
	p.idle()
	if _, err := p.give(id, "other"); !hasStatus(err, http.StatusConflict) {
		t.Errorf("another text: %v", err)
	}

	// A failure of the model ends the turn. One that may pass is tried twice again before that.
	for _, tt := range []struct {
		text, status string
		calls        int
	}{{"[status 400]", "400", 1}, {"[status 500]", "500", 3}} {
		p.session("sonnet")
		_, events = p.run(tt.text)
		equal(tt.text, events, "step.started", "step.failed Provider request failed with HTTP "+tt.status)
		if n := len(slices.DeleteFunc(api.Log(), func(r standin.Request) bool { return !r.Has(tt.text) })); n != tt.calls {
			t.Errorf("%s: the model was asked %d times, want %d", tt.text, n, tt.calls)
		}
	}

	// An interrupt before the first output leaves no trace, one in a tool does.
	stop := func(text string, began func()) []string {
		t.Helper()
		id := uuid.NewString()
		if _, err := p.give(id, text); err != nil {
			t.Fatal(err)
		}
		began()
		must(t, p.interrupt(p.ctx, p.id))
		p.idle()
		return p.events(id)
	}
	p.session("sonnet")
	equal("interrupted before output", stop("SLEEP:600 [m-2]", func() {
		must(t, api.WaitCount(p.ctx, standin.Main, "[m-2]", 1))
	}))
	p.session("sonnet")
	inTool := func() {
		for r, err := range p.follow(p.ctx, p.id, 0) {
			must(t, err)
			if _, ok := r.Data.(*ToolCalled); ok {
				return
			}
		}
	}
	equal("interrupted in a tool", stop("TOOL:600 [m-3]", inTool),
		"step.started", "tool.called", "tool.failed Tool execution interrupted", "step.ended tool-calls")
	if err := p.interrupt(p.ctx, p.id); err != nil {
		t.Errorf("an interrupt of nothing: %v", err)
	}

	// Messages wait for each other, and after an interrupt for another message. The time of one
	// is when it arrived.
	p.session("sonnet")
	a, b, c := uuid.NewString(), uuid.NewString(), uuid.NewString()
	give := func(id, text string) {
		t.Helper()
		if _, err := p.give(id, text); err != nil {
			t.Fatal(err)
		}
	}
	give(a, "SLEEP:600 [m-a]")
	p.prompted(a)
	give(b, "SLEEP:0 [m-b]") // the model has the first text before it, without an answer
	must(t, p.interrupt(p.ctx, p.id))
	p.idle()
	came := time.Now()
	give(c, "[m-c]")
	p.prompted(c)
	p.idle()
	var order []string
	for r, err := range p.history(p.ctx, p.id, 0) {
		must(t, err)
		if d, ok := r.Data.(*Prompted); ok {
			id, _ := UUID(d.MessageID)
			order = append(order, id)
			if id == b && !r.At.Before(came) {
				t.Errorf("a message that came before %v and waited has the time %v", came, r.At)
			}
		}
	}
	equal("waiting messages", order, a, b, c)

	// A model that does not exist is accepted, and the turn leaves no trace.
	p.session("none")
	id = uuid.NewString()
	if _, err := p.give(id, "[m-4]"); err != nil {
		t.Fatal(err)
	}
	p.prompted(id)
	p.idle()
	equal("a model that does not exist", p.events(id))

	// After a kill, neither the turn nor the same message runs again; the next one runs.
	p.session("sonnet")
	cut := uuid.NewString()
	if _, err := p.give(cut, "TOOL:600 [m-5]"); err != nil {
		t.Fatal(err)
	}
	inTool()
	before := map[string]bool{}
	for r, err := range p.history(p.ctx, p.id, 0) {
		must(t, err)
		before[r.ID] = true
	}
	must(t, process.KillGroup(pid))
	address, _ = standin.StartOpenCode(t, home)
	p.client.close()
	p.client = newClient(address, "", "")
	for r, err := range p.history(p.ctx, p.id, 0) {
		must(t, err)
		if !before[r.ID] {
			t.Errorf("after the kill there is another event: %s %s", r.ID, r.Type)
		}
	}
	if promoted, err := p.give(cut, "TOOL:600 [m-5]"); err != nil || promoted == 0 {
		t.Errorf("the cut message again: taken up as %d, %v", promoted, err)
	}
	p.idle()
	_, events = p.run("[m-6]")
	equal("after a kill", events, "step.started", "text.ended", "step.ended stop")
	equal("the cut turn", p.events(cut), "step.started", "tool.called", "tool.failed Tool execution interrupted")
	for _, m := range []string{"[m-1]", "[m-5]", "[m-6]"} {
		if n := api.Turns(standin.Main, m); n != 1 {
			t.Errorf("%s was answered %d times, want once", m, n)
		}
	}

	// The same events, live and from the history.
	var live, kept []string
	for r, err := range p.history(p.ctx, p.id, 0) {
		must(t, err)
		kept = append(kept, r.ID)
	}
	for r, err := range p.follow(p.ctx, p.id, 0) {
		must(t, err)
		if live = append(live, r.ID); len(live) == len(kept) {
			break
		}
	}
	equal("events", live, kept...)

	// Useful operations that do not exist yet.
	for _, call := range []string{"/wait", "/compact"} {
		if err := p.call(p.ctx, http.MethodPost, sessionPath(p.id, call), map[string]any{}, nil); !hasStatus(err, http.StatusServiceUnavailable) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if _, err := p.client.session(p.ctx, SessionID(uuid.NewString())); !hasStatus(err, http.StatusNotFound) {
		t.Errorf("a session that does not exist: %v", err)
	}
}
