package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/process"
	"teambridge/relay/wire"
)

// fake is a server with one session, which the test controls.
type fake struct {
	t   *testing.T
	url string

	mu      sync.Mutex
	moved   chan struct{} // closed, and replaced, when something has changed
	events  []string
	active  bool
	prompts []string // the ids of the prompts
	calls   map[string]int

	prompt   func(id string) (status int, promoted int) // called with mu held
	onActive func()                                     // called with mu held, after the answer was chosen
	missing  string                                     // a path that its description lacks
	cuts     int                                        // how often the stream will still be cut before the newest event
	question string                                     // the waiting question, of a session whose parent is the agent's
	reply    string                                     // to it
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, moved: make(chan struct{}), calls: map[string]int{}}
	s := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	f.url = s.URL
	return f
}

// change changes the server, and wakes the followers.
func (f *fake) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
	close(f.moved)
	f.moved = make(chan struct{})
}

// event adds an event. mu is held.
func (f *fake) event(kind, data string) {
	f.events = append(f.events, fmt.Sprintf(`{"id":"evt_%d","type":%q,"durable":{"seq":%d},"data":{"timestamp":1795374047820,%s}}`,
		len(f.events)+1, "session.next."+kind, len(f.events)+1, data))
}

func (f *fake) prompted(id string) {
	f.event("prompted", fmt.Sprintf(`"messageID":%q,"prompt":{"text":"x"},"delivery":"queue"`, id))
}

// answer is a whole step of the model.
func (f *fake) answer(finish, text string) {
	f.event("step.started", `"assistantMessageID":"msg_a"`)
	f.event("text.ended", fmt.Sprintf(`"assistantMessageID":"msg_a","textID":"t","text":%q`, text))
	f.event("step.ended", fmt.Sprintf(`"assistantMessageID":"msg_a","finish":%q`, finish))
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := r.URL.Path
	if session, found := strings.CutPrefix(rest, "/api/session/ses_"); found {
		if _, rest, _ = strings.Cut(session, "/"); session == "child" {
			rest = session
		}
	}
	f.calls[rest]++
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	switch rest {
	case "/global/health":
		fmt.Fprint(w, `{"healthy":true,"version":"1.18.33"}`)
	case "/doc":
		paths := map[string]any{}
		for path := range needed {
			if path != f.missing {
				paths[path] = map[string]any{"get": 1, "post": 1}
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"paths": paths})
	case "/api/agent":
		fmt.Fprint(w, `{"data":[{"id":"build"}]}`)
	case "/api/model":
		fmt.Fprint(w, `{"data":[{"id":"m1","providerID":"p"},{"id":"m2","providerID":"p"},{"id":"m2","providerID":"q"}]}`)
	case "/config":
		fmt.Fprint(w, `{"model":"p/m1"}`)
	case "/api/session":
		fmt.Fprint(w, `{"data":{}}`)
	case "/api/permission/request":
		fmt.Fprint(w, `{"data":[]}`)
	case "/api/question/request":
		fmt.Fprintf(w, `{"data":[%s]}`, f.question)
	case "question/que_1/reply":
		body, _ := io.ReadAll(r.Body)
		f.question, f.reply, f.active = "", string(body), false
		w.WriteHeader(http.StatusNoContent)
	case "child":
		fmt.Fprintf(w, `{"data":{"parentID":%q}}`, f.sessionID())
	case "/api/session/active":
		data := ""
		if f.active {
			data = `"` + f.sessionID() + `":{}`
		}
		fmt.Fprintf(w, `{"data":{%s}}`, data)
		if f.onActive != nil {
			f.onActive()
		}
	case "prompt":
		var in struct{ ID string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		f.prompts = append(f.prompts, in.ID)
		status, promoted := f.prompt(in.ID)
		if status == 0 { // the answer is lost
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"data":{"promotedSeq":%d}}`, promoted)
		close(f.moved)
		f.moved = make(chan struct{})
	case "interrupt":
		w.WriteHeader(http.StatusNoContent)
		f.active = false
	case "history":
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		page := f.events[min(after, len(f.events)):]
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(page[:min(limit, len(page))], ","))
	case "event":
		for ok := true; ok; {
			after, ok = f.follow(w, r, after)
		}
	default:
		http.NotFound(w, r)
	}
}

// follow writes the events after a number, and waits for more.
func (f *fake) follow(w http.ResponseWriter, r *http.Request, after int) (told int, more bool) {
	if f.cuts > 0 && after < len(f.events) {
		f.cuts--
		for _, e := range f.events[after : len(f.events)-1] {
			fmt.Fprintf(w, "data: %s\n\n", e)
		}
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	told = max(after, len(f.events))
	for _, e := range f.events[min(after, len(f.events)):] {
		fmt.Fprintf(w, "data: %s\n\n", e)
	}
	_ = http.NewResponseController(w).Flush()
	moved := f.moved
	f.mu.Unlock()
	defer f.mu.Lock()
	select {
	case <-moved:
		return told, true
	case <-r.Context().Done():
		return told, false
	}
}

const fakeSession = "0f8fad5b-d9cb-469f-a165-70867728950e"

func (f *fake) sessionID() string { return SessionID(fakeSession) }

// runs promotes each prompt at once and lets the session be active.
func (f *fake) runs(then func()) func(string) (int, int) {
	return func(id string) (int, int) {
		f.active = true
		f.prompted(id)
		if then != nil {
			then()
		}
		return http.StatusOK, 0
	}
}

func (f *fake) start() (*Runtime, *Agent) {
	f.t.Helper()
	r := New(Options{URL: f.url, Dir: f.t.TempDir(), State: f.t.TempDir()})
	a, err := r.start(f.t.Context(), fakeSession, mode.Mode{})
	must(f.t, err)
	f.t.Cleanup(func() { _ = a.Kill() })
	return r, a
}

func send(t *testing.T, a *Agent) (id string) {
	t.Helper()
	id = uuid.NewString()
	line, err := new(Runtime).Encode(id, "hello")
	must(t, err)
	must(t, a.Send(t.Context(), line))
	return id
}

// until returns the states that a message has been in, up to its end.
func until(t *testing.T, a *Agent, id string) (states []agent.State, result agent.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for e, err := range a.Events(ctx) {
		if err != nil {
			t.Fatalf("after %v: %v", states, err)
		}
		for _, p := range e.Progress {
			if p.UUID != id {
				continue
			}
			if states = append(states, p.State); !p.State.InFlight() {
				if p.Result != nil {
					result = *p.Result
				}
				return states, result
			}
		}
	}
	t.Fatalf("the agent ended: %v", a.Wait(ctx))
	return nil, result
}

// A turn has ended when the session is no longer active, whatever the earlier events were.
func TestEndOfTurn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tell  func(f *fake)
		state agent.State
		want  agent.Result
	}{
		"an answer":             {func(f *fake) { f.answer("stop", "yes") }, agent.Done, agent.Result{Text: "yes"}},
		"the limit of its size": {func(f *fake) { f.answer("length", "ye") }, agent.Done, agent.Result{Text: "ye"}},
		"after a tool": {func(f *fake) {
			f.answer("tool-calls", "let me see")
			f.answer("stop", "yes")
		}, agent.Done, agent.Result{Text: "yes"}},
		"a failure": {func(f *fake) {
			f.event("step.failed", `"assistantMessageID":"msg_a","error":{"type":"unknown","message":"HTTP 500"}`)
		}, agent.Failed, agent.Result{Failure: "HTTP 500"}},
		"a tool, and no more": {func(f *fake) { f.answer("tool-calls", "a") }, agent.Failed, agent.Result{Text: "a", Failure: "OpenCode ended the turn without an answer"}},
		"nothing":             {func(*fake) {}, agent.Failed, agent.Result{Failure: "OpenCode ended the turn without an answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.prompt = f.runs(func() { tc.tell(f) })
			asked := 0
			f.onActive = func() {
				if asked++; asked == 3 {
					f.active = false
				}
			}
			_, a := f.start()
			f.change(func() { asked = 0 })
			id := send(t, a)
			states, got := until(t, a, id)
			if want := []agent.State{agent.Accepted, tc.state}; !slices.Equal(states, want) || got != tc.want {
				t.Errorf("got %v %+v, want %v %+v", states, got, want, tc.want)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if asked <= 3 {
				t.Errorf("the turn ended while the session was active")
			}
		})
	}
}

// If the stream is cut before the last event of a turn, again and again, the turn ends anyway, by its history.
func TestEventsLostInReconnects(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.cuts = 3
	f.prompt = f.runs(func() {
		f.answer("stop", "yes")
		f.active = false
	})
	_, a := f.start()
	states, got := until(t, a, send(t, a))
	if want := []agent.State{agent.Accepted, agent.Done}; !slices.Equal(states, want) || got.Text != "yes" {
		t.Errorf("got %v %+v, want %v and the answer", states, got, want)
	}
}

// A question of a subagent, in a session of its own, reaches the person, and the answer goes to that session.
func TestQuestionOfAChildSession(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.prompt = f.runs(func() {
		f.question = `{"id":"que_1","sessionID":"ses_child","questions":[{"question":"Which?","header":"h","options":[{"label":"Red"},{"label":"Blue"}]}]}`
	})
	var asked agent.Use
	r := New(Options{URL: f.url, Dir: t.TempDir(), State: t.TempDir(), Permission: &agent.Permission{Ask: func(_ context.Context, u agent.Use) agent.Decision {
		asked = u
		return agent.Decision{Allow: true, Answers: map[string]string{"Which?": "Blue"}}
	}}})
	a, err := r.start(t.Context(), fakeSession, mode.Mode{})
	must(t, err)
	t.Cleanup(func() { _ = a.Kill() })
	until(t, a, send(t, a))
	f.mu.Lock()
	defer f.mu.Unlock()
	if asked.Kind != agent.AsksPerson || asked.Subagent != "ses_child" || f.reply != `{"answers":[["Blue"]]}` {
		t.Errorf("asked %+v, and answered %s; want the question of ses_child, and Blue", asked, f.reply)
	}
}

// A message that is taken up right after the server was asked for its work has not ended:
// the server was not working on it yet.
func TestTakenUpAfterTheQuestion(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	_, a := f.start()
	id := uuid.NewString()
	line, err := new(Runtime).Encode(id, "hello")
	must(t, err)
	first := true
	// The first is only admitted; the next request for active sessions finds none, and
	// right after it the message is taken up.
	f.prompt = func(string) (int, int) { return http.StatusOK, 0 }
	f.onActive = func() {
		if first && len(f.prompts) > 0 {
			first, f.active = false, true
			f.prompted(MessageID(id))
			f.onActive = nil
			time.AfterFunc(time.Millisecond, func() {
				f.change(func() { f.answer("stop", "yes"); f.active = false })
			})
		}
	}
	must(t, a.Send(t.Context(), line))
	states, got := until(t, a, id)
	if want := []agent.State{agent.Accepted, agent.Done}; !slices.Equal(states, want) || got.Text != "yes" {
		t.Errorf("got %v %+v, want %v", states, got, want)
	}
}

// A message that the server took and does not begin is sent again, which wakes it. So is
// one whose answer was lost.
func TestGivenAgain(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]int{"never begun": http.StatusOK, "the answer is lost": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			_, a := f.start()
			run := f.runs(func() { f.answer("stop", "yes"); f.active = false })
			f.prompt = func(id string) (int, int) {
				if len(f.prompts) == 1 {
					return first, 0
				}
				return run(id)
			}
			id := send(t, a)
			states, _ := until(t, a, id)
			if want := []agent.State{agent.Accepted, agent.Done}; !slices.Equal(states, want) {
				t.Errorf("got %v, want %v", states, want)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if want := slices.Repeat([]string{MessageID(id)}, 2); !slices.Equal(f.prompts, want) {
				t.Errorf("prompts %v, want %v", f.prompts, want)
			}
		})
	}
}

// A message that was taken up before it was sent is known; one that is taken up while it is sent is not.
func TestKnown(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	r, a := f.start()
	f.prompt = f.runs(func() { f.answer("stop", "yes"); f.active = false })
	run := f.prompt
	f.prompt = func(id string) (int, int) { // the answer has the number already
		status, _ := run(id)
		return status, len(f.events) - 3
	}
	id := send(t, a)
	if states, _ := until(t, a, id); !slices.Equal(states, []agent.State{agent.Accepted, agent.Done}) {
		t.Errorf("got %v", states)
	}
	f.prompt = func(string) (int, int) { return http.StatusOK, 1 }
	line, err := new(Runtime).Encode(id, "hello")
	must(t, err)
	must(t, a.Send(t.Context(), line))
	if states, _ := until(t, a, id); !slices.Equal(states, []agent.State{agent.Known}) {
		t.Errorf("again: got %v", states)
	}
	if turn, err := r.Turn(t.Context(), fakeSession, id); err != nil || !turn.Finished || turn.Text != "yes" {
		t.Errorf("turn %+v, %v", turn, err)
	}
}

// The conversation shows the state of a message.
func TestTurn(t *testing.T) {
	t.Parallel()
	id := MessageID(fakeSession)
	for name, tc := range map[string]struct {
		tell func(f *fake)
		want agent.Turn
	}{
		"not there":   {func(f *fake) { f.prompted("msg_other"); f.answer("stop", "x") }, agent.Turn{}},
		"admitted":    {func(f *fake) { f.event("prompt.admitted", `"messageID":"`+id+`"`) }, agent.Turn{}},
		"cut at once": {func(f *fake) { f.prompted(id) }, agent.Turn{Stored: true}},
		"cut in a tool": {func(f *fake) { f.prompted(id); f.answer("tool-calls", "") },
			agent.Turn{Stored: true, Stop: "tool_use"}},
		"cut in its second step": {func(f *fake) {
			f.prompted(id)
			f.answer("tool-calls", "")
			f.event("step.started", `"assistantMessageID":"msg_b"`)
		}, agent.Turn{Stored: true}},
		"failed": {func(f *fake) {
			f.prompted(id)
			f.event("step.failed", `"error":{"message":"m"}`)
		}, agent.Turn{Stored: true, Failed: true, Failure: "m"}},
		"finished, and another": {func(f *fake) {
			f.prompted(id)
			f.answer("stop", "yes")
			f.prompted("msg_other")
		}, agent.Turn{Stored: true, Finished: true, Text: "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			for range historyPage { // so that it is on a second page
				f.event("context.updated", `"x":1`)
			}
			tc.tell(f)
			r := New(Options{URL: f.url, Dir: "/d", State: t.TempDir()})
			got, err := r.Turn(t.Context(), fakeSession, fakeSession)
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
			must(t, r.options.mark(fakeSession, fakeSession))
			got, err = r.Turn(t.Context(), fakeSession, fakeSession)
			if want := tc.want.Stored && !tc.want.Finished; err != nil || got.Interrupted != want {
				t.Errorf("interrupted: got %+v, %v", got, err)
			}
		})
	}
}

// If a conversation could not be read in time before an agent was started, the agent reports
// its envelopes first, in order. Others are not reported again.
func TestOwedIsToldFirst(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.prompted(MessageID(fakeSession))
	f.answer("stop", "before")
	r := New(Options{URL: f.url, Dir: "/d", State: t.TempDir()})
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range r.Conversation(late, fakeSession, time.Time{}, true) {
		if err == nil {
			t.Fatal("it was read")
		}
	}
	f.prompt = f.runs(func() { f.answer("stop", "after"); f.active = false })
	for _, want := range []string{"TurnStart Text Text TurnEnd TurnStart Text Text TurnEnd", "TurnStart Text Text TurnEnd"} {
		a, err := r.start(t.Context(), fakeSession, mode.Mode{})
		must(t, err)
		id := send(t, a)
		var got []string
	events:
		for e, err := range a.Events(t.Context()) {
			must(t, err)
			for _, e := range e.Envelopes {
				got = append(got, strings.TrimPrefix(fmt.Sprintf("%T", e.Event), "*wire."))
			}
			for _, p := range e.Progress {
				if p.UUID == id && p.State == agent.Done {
					break events
				}
			}
		}
		if err := a.Kill(); err != nil {
			t.Error(err)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

// A server of its own goes on with a turn when its relay is killed: the turn ends only when
// the server reports it, and the next agent reports that end.
func TestTurnThatOutlivesItsRelay(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.active = true
	f.prompted(MessageID(fakeSession))
	r := New(Options{URL: f.url, Dir: "/d", State: t.TempDir()})
	kinds := func(list []wire.Envelope) (kinds string) {
		for _, e := range list {
			kinds += strings.TrimPrefix(fmt.Sprintf("%T ", e.Event), "*wire.")
		}
		return kinds
	}
	var told []wire.Envelope
	for e, err := range r.Conversation(t.Context(), fakeSession, time.Time{}, true) {
		must(t, err)
		told = append(told, e)
	}
	if got := kinds(told); got != "TurnStart Text " {
		t.Errorf("while it runs: %s", got)
	}
	f.onActive = func() { // while the next one waits for it
		f.onActive = nil
		f.answer("stop", "done")
		f.active = false
	}
	a, err := r.start(t.Context(), fakeSession, mode.Mode{})
	must(t, err)
	for e, err := range a.Events(t.Context()) {
		must(t, err)
		if got := kinds(e.Envelopes); got != "TurnStart Text Text TurnEnd " {
			t.Errorf("after it: %s", got)
		}
		break
	}
	if err := a.Kill(); err != nil {
		t.Error(err)
	}
}

// An interrupt cancels the message that it names, even if no event reports that.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	_, a := f.start()
	f.prompt = f.runs(nil)
	if err := a.Interrupt(t.Context(), fakeSession); !errors.Is(err, agent.ErrNotInFlight) {
		t.Errorf("nothing in flight: %v", err)
	}
	id := send(t, a)
	for e, err := range a.Events(t.Context()) {
		must(t, err)
		if e.Start != nil {
			if v := e.Start.ClaudeCode; v != "" { // its own version would count as outdated
				t.Errorf("it tells that it is Claude Code %s", v)
			}
			break
		}
	}
	if err := a.Interrupt(t.Context(), fakeSession); !errors.Is(err, agent.ErrNotInFlight) {
		t.Errorf("another in flight: %v", err)
	}
	must(t, a.Interrupt(t.Context(), id))
	if states, _ := until(t, a, id); !slices.Equal(states, []agent.State{agent.Cancelled}) {
		t.Errorf("got %v", states)
	}
}

func TestVersionWithoutWhatIsNeeded(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.missing = "/api/session/{sessionID}/history"
	_, err := New(Options{URL: f.url, Dir: "/d", State: t.TempDir()}).Start(t.Context(), fakeSession, mode.Mode{})
	want := &VersionError{"1.18.33", []string{"GET /api/session/{sessionID}/history"}}
	if got, ok := errors.AsType[*VersionError](err); !ok || !cmp.Equal(got, want) || !strings.Contains(err.Error(), "install 1.18 or newer") {
		t.Errorf("got %v, want %v", err, want)
	}
}

// A version 2, which answers each unknown path with its page, is refused.
func TestLaterVersion(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/info" {
			_, _ = io.WriteString(w, `{"version":"2.2.7"}`)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><html></html>")
	}))
	defer s.Close()
	_, err := New(Options{URL: s.URL, Dir: "/d", State: t.TempDir()}).Start(t.Context(), fakeSession, mode.Mode{})
	if got, ok := errors.AsType[*VersionError](err); !ok || got.Version != "2.2.7" || !strings.Contains(err.Error(), `OpenCode "2.2.7" is not supported yet`) {
		t.Errorf("the error is %v", err)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := newClient(f.url, "", "")
	defer c.close()
	for name, want := range map[string]string{"": "p/m1", "m1": "p/m1", "q/m2": "q/m2", "m2": "", "none": ""} {
		m := mode.Mode{}
		if name != "" {
			m.Model = mode.Set(name)
		}
		got, err := Options{}.model(t.Context(), c, m)
		if want == "" && !errors.Is(err, agent.ErrRefused) || want != "" && (err != nil || got.String() != want) {
			t.Errorf("%q: got %v, %v; want %q", name, got, err, want)
		}
	}
}

// A line, an event or an answer over the limit is left out; the next one is read.
func TestSSE(t *testing.T) {
	t.Parallel()
	in := ": comment\n\ndata: one\n\ndata: " + strings.Repeat("x", 5000) + "\n\nevent: e\r\ndata: two\r\ndata:2\r\n\r\n" +
		strings.Repeat("y", 200) + "\n\ndata: three\n\ndata: never whole"
	var got []string
	for data, err := range sse(strings.NewReader(in), 100) {
		if err != nil {
			got = append(got, "error")
			if !errors.Is(err, errTooLarge) {
				break
			}
			continue
		}
		got = append(got, string(data))
	}
	if want := []string{"one", "error", "two2", "three", "error"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A mode has the right rules and the right agent, or is refused.
func TestModesAndRules(t *testing.T) {
	t.Parallel()
	o := Options{}
	for name, tc := range map[string]struct {
		mode  mode.Mode
		agent string
		want  map[string]any // of the rules
		ours  map[string]any // of the rules of the agent
	}{
		"default":     {mode.Mode{}, "build", map[string]any{"*": "ask", "bash": nil, "edit": nil, "grep": "allow"}, nil},
		"acceptEdits": {mode.Mode{PermissionMode: mode.Set("acceptEdits")}, "build", map[string]any{"*": "ask", "edit": "allow"}, nil},
		"bypass":      {mode.Mode{PermissionMode: mode.Set("bypassPermissions")}, "build", map[string]any{"*": "allow"}, nil},
		"plan": {mode.Mode{PermissionMode: mode.Set("plan")}, "plan", map[string]any{"*": "ask"},
			map[string]any{"*": "ask", "edit": "deny", "plan_exit": "deny", "grep": "allow"}},
		"lists": {mode.Mode{AllowedTools: mode.Set([]string{"Bash(git *)", "WebFetch"}), DisallowedTools: mode.Set([]string{"Write", "mcp__s__t"})}, "teambridge",
			map[string]any{"bash": map[string]string{"git *": "allow"}, "webfetch": "allow"}, map[string]any{"edit": "deny", "s_t": "deny"}},
		"prompt": {mode.Mode{CustomSystemPrompt: mode.Set("Be brief.")}, "teambridge", map[string]any{"*": "ask"}, nil},
	} {
		if err := o.checkMode(tc.mode); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c, got := o.configOf(tc.mode)
		if got != tc.agent {
			t.Errorf("%s: agent %s, want %s", name, got, tc.agent)
		}
		for action, want := range tc.want {
			if !cmp.Equal(c.Permission[action], want) {
				t.Errorf("%s: rule of %s is %v, want %v", name, action, c.Permission[action], want)
			}
		}
		for action, want := range tc.ours {
			if rule := c.Agent[got].Permission[action]; !cmp.Equal(rule, want) {
				t.Errorf("%s: the agent's rule of %s is %v, want %v", name, action, rule, want)
			}
		}
	}
	for _, m := range []mode.Mode{{PermissionMode: mode.Set("yolo")}, {FallbackModel: mode.Set("m")}} {
		if err := o.checkMode(m); !errors.Is(err, agent.ErrRefused) {
			t.Errorf("%s: %v, want it refused", m, err)
		}
		if New(o).NeedsRestart(mode.Mode{}, m) {
			t.Errorf("%s: a mode that is refused restarts the agent", m)
		}
	}
}

// A list of tools removes all others, and allows none.
func TestToolsAreALimit(t *testing.T) {
	t.Parallel()
	o := Options{}
	o.profile.Tools = []string{"bash", "edit", "glob"}
	for permissionMode, want := range map[string]map[string]any{
		"default": {"*": "deny", "bash": "ask", "edit": "ask", "glob": "allow", "read": "deny", "grep": "deny", "webfetch": nil},
		"plan":    {"*": "deny", "bash": "ask", "edit": "deny", "glob": "allow", "read": "deny", "grep": "deny", "webfetch": nil},
	} {
		c, name := o.configOf(mode.Mode{PermissionMode: mode.Set(permissionMode)})
		for action, want := range want {
			if rule := c.Agent[name].Permission[action]; !cmp.Equal(rule, want) {
				t.Errorf("%s: the rule of %s is %v, want %v", permissionMode, action, rule, want)
			}
		}
	}
	if got := PolicyNames([]string{"bash", "edit", "echo_say"}); !slices.Equal(got, []string{"Bash", "Edit", "echo_say"}) {
		t.Errorf("got %q", got)
	}
}

// The directory of the configuration has our configuration before the user's, and the user's
// other files; one with the same content is reused, and an unused one is removed.
func TestConfigDir(t *testing.T) {
	t.Parallel()
	home, state := t.TempDir(), t.TempDir()
	user := filepath.Join(home, ".config", "opencode")
	for name, text := range map[string]string{"opencode.json": "// mine\n{}", "AGENTS.md": "Rules.", "agent/a.md": "x"} {
		path := filepath.Join(user, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	o := Options{Env: []string{"HOME=" + home}, State: state, Instructions: "You are one of many."}
	m := mode.Mode{AppendSystemPrompt: mode.Set("Be brief.")}
	dir, err := o.configDir(m)
	must(t, err)
	for name, want := range map[string]string{"opencode.json": `{"permission":{"*":"ask"`, "opencode.jsonc": "// mine\n{}", "AGENTS.md": "Rules.\n\nYou are one of many.\n\n\nBe brief.\n", "agent/a.md": "x"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if again, err := o.configDir(m); err != nil || again != dir {
		t.Errorf("again: %s, %v; want %s", again, err, dir)
	}
	old := time.Now().Add(-2 * keepUnused)
	must(t, os.Chtimes(dir, old, old))
	if other, err := o.configDir(mode.Mode{}); err != nil || other == dir {
		t.Errorf("another mode: %s, %v", other, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unused one: %v, want it removed", err)
	}
	if _, err := os.Stat(filepath.Join(user, "agent", "a.md")); err != nil {
		t.Errorf("the user's own files: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(user, "opencode.jsonc"), []byte("{}"), 0o600))
	if _, err := o.configDir(mode.Mode{Model: mode.Set("x")}); err == nil || !strings.Contains(err.Error(), "make one of them") {
		t.Errorf("two configurations: %v", err)
	}
}

// A server that was left behind is ended before the next one is started: one of the same
// session, and a read-only one whose process is gone. Others stay.
func TestSweep(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("no sleep")
	}
	state := t.TempDir()
	must(t, os.MkdirAll(serversDir(state), 0o700))
	us := process.Identify(os.Getpid())
	gone := process.Predecessor{PID: us.PID, Start: "gone"}
	dead := map[string]process.Predecessor{}
	for name, s := range map[string]serving{
		"ours": {Session: "s", Owner: gone}, "of another session": {Session: "t", Owner: gone},
		"reader of nobody": {Owner: gone}, "reader": {Owner: us}, "in use": {Session: "u", Owner: us},
	} {
		cmd := exec.Command("sleep", "600")
		process.OwnGroup(cmd)
		must(t, cmd.Start())
		s.Predecessor = process.Identify(cmd.Process.Pid)
		dead[name] = s.Predecessor
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
		data, err := json.Marshal(s)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(serversDir(state), strconv.Itoa(s.PID)+".json"), data, 0o600))
	}
	if us.Start == "" {
		t.Skip("this system cannot tell processes apart")
	}
	must(t, (Options{State: state}).sweep(t.Context(), "s"))
	if err := (Options{State: state}).sweep(t.Context(), "u"); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a session that is in use: %v", err)
	}
	for name, ended := range map[string]bool{"in use": false, "ours": true, "of another session": false, "reader of nobody": true, "reader": false} {
		if alive, err := dead[name].Alive(); err != nil || alive == ended {
			t.Errorf("%s: alive %t, %v; want ended %t", name, alive, err, ended)
		}
	}
	if list, err := running(state); err != nil || len(list) != 3 {
		t.Errorf("%d servers run, %v; want 3", len(list), err)
	}
}
