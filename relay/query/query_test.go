package query_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"teambridge/relay/query"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/wire"
)

func TestMain(m *testing.M) {
	if program := os.Getenv(envAsk); program != "" {
		ask(program)
	}
	if os.Getenv(envHide) != "" {
		hide()
	}
	if path := os.Getenv(envArgs); path != "" {
		if err := os.WriteFile(path, []byte(strings.Join(os.Args[1:], "\n")), 0o600); err != nil {
			panic(err)
		}
	}
	simchild.Main()
	if os.Getenv(envMCP) != "" {
		serveMCP()
	}
	os.Exit(m.Run())
}

// envArgs names a file to which the simulated agent writes its arguments.
const envArgs = "QUERY_TEST_ARGS"

// bench is a directory with simulated agents.
type bench struct {
	t       *testing.T
	dir     string
	options query.Options
}

func newBench(t *testing.T, faults ...simchild.Fault) *bench {
	t.Helper()
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	script := simchild.Script{State: dir, Faults: faults}
	return &bench{t, dir, query.Options{
		Claude: []string{simchild.Program()}, ClaudeRoot: dir, Env: append(os.Environ(), script.Env(), "GORACE=atexit_sleep_ms=0"),
	}}
}

func (b *bench) client() *query.Client {
	c := query.New(b.options)
	b.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return c
}

func (b *bench) input(prompt string) query.Input { return query.Input{Prompt: prompt, Cwd: b.dir} }

// log returns the texts of the entries of a kind.
func (b *bench) log(kind string) (texts []string) {
	b.t.Helper()
	all, err := simchild.Log(b.dir)
	must(b.t, err)
	for _, e := range all {
		if e.Kind == kind {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// until waits until a condition holds.
func (b *bench) until(what string, is func() bool) {
	b.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("never: %s", what)
		}
	}
}

// told has the events of a query.
type told struct {
	texts  []string // the texts, as "role: text", and the ends of turns
	errors []string
	query.Result
	err error
}

// collect ranges over a query, and checks the rules of its events.
func collect(t *testing.T, events iter.Seq2[query.Event, error]) (all told) {
	t.Helper()
	last := false
	for e, err := range events {
		if last {
			t.Errorf("%+v, %v after the result", e, err)
		}
		switch {
		case e.Envelope != nil:
			switch event := e.Envelope.Event.(type) {
			case *wire.Text:
				all.texts = append(all.texts, fmt.Sprintf("%s: %s", e.Envelope.Role, event.Text))
			case *wire.TurnEnd:
				all.texts = append(all.texts, string(event.Status))
			}
		case e.Error != nil:
			all.errors = append(all.errors, e.Error.Message)
		case e.Result != nil:
			all.Result, all.err, last = *e.Result, err, true
		}
		if err != nil && e.Result == nil {
			t.Errorf("error %v with %+v", err, e)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Error(err)
		}
	}
	if !last {
		t.Error("no result")
	}
	return all
}

func (a told) is(t *testing.T, status query.Status, text string) {
	t.Helper()
	if a.Status != status || a.Text != text || (a.err == nil) != (status == query.Completed) || (a.Failure == "") != (a.err == nil) {
		t.Errorf("got %+v, %v; want %s with %q", a.Result, a.err, status, text)
	}
}

func messages(texts ...string) iter.Seq[query.Message] {
	return func(yield func(query.Message) bool) {
		for _, text := range texts {
			if !yield(query.Message{Text: text}) {
				return
			}
		}
	}
}

func TestQuery(t *testing.T) {
	b := newBench(t)
	got := collect(t, b.client().Query(t.Context(), b.input("What is 2 + 2?"), nil))
	got.is(t, query.Completed, "ACK: What is 2 + 2?")
	want := []string{"user: What is 2 + 2?", "agent: ACK: What is 2 + 2?", "completed"}
	if !slices.Equal(got.texts, want) || got.Turns != 1 || got.errors != nil {
		t.Errorf("got %q, %d turns, %q", got.texts, got.Turns, got.errors)
	}
}

// Messages run in one session, in order, each after the end of the turn before it.
func TestFurtherMessages(t *testing.T) {
	b := newBench(t)
	in := b.input("one")
	in.StreamingInput = true
	got := collect(t, b.client().Query(t.Context(), in, func(yield func(query.Message) bool) {
		_ = yield(query.Message{Text: "TOOL:0.01\ntwo"}) && yield(query.Message{Text: "three"}) && yield(query.Message{Text: "four"})
	}))
	got.is(t, query.Completed, "ACK: four")
	all, err := simchild.Log(b.dir)
	must(t, err)
	var order []string
	for _, e := range all {
		if e.Kind == "read" || e.Kind == "work" || e.Kind == "start" {
			order = append(order, e.Kind+" "+e.Text)
		}
	}
	want := "start |read one|work one|read TOOL:0.01\ntwo|work TOOL:0.01\ntwo|read three|work three|read four|work four"
	if s := strings.Join(order, "|"); s != want || got.Turns != 4 {
		t.Errorf("got %q, %d turns; want %q", s, got.Turns, want)
	}
	ends := slices.DeleteFunc(slices.Clone(got.texts), func(s string) bool { return s != "completed" })
	if len(ends) != 4 {
		t.Errorf("got %q", got.texts)
	}
}

// The prompt can come with the messages, and messages need streamingInput.
func TestFirstMessage(t *testing.T) {
	b := newBench(t)
	in := b.input("")
	in.StreamingInput = true
	collect(t, b.client().Query(t.Context(), in, messages("one"))).is(t, query.Completed, "ACK: one")
	got := collect(t, b.client().Query(t.Context(), in, messages()))
	if got.is(t, query.Completed, ""); got.SessionID != "" {
		t.Errorf("session %s of no turn", got.SessionID)
	}
	in.Prompt, in.StreamingInput = "two", false
	collect(t, b.client().Query(t.Context(), in, messages("three"))).is(t, query.Completed, "ACK: two")
}

func TestResume(t *testing.T) {
	b := newBench(t)
	first := collect(t, b.client().Query(t.Context(), b.input("one"), nil))
	in := b.input("two")
	in.SessionID = first.SessionID
	c := b.client() // another process would do the same
	second := collect(t, c.Query(t.Context(), in, nil))
	second.is(t, query.Completed, "ACK: two")
	if second.SessionID != first.SessionID {
		t.Errorf("session %s, want %s", second.SessionID, first.SessionID)
	}
	in.SessionID = "3f3c58ee-33ff-467b-95ea-b5bde5dd1ce1"
	got := collect(t, c.Query(t.Context(), in, nil))
	if got.is(t, query.Failed, ""); !errors.Is(got.err, query.ErrNoSession) || len(got.errors) != 1 || got.SessionID != "" {
		t.Errorf("got %v, %q, session %q", got.err, got.errors, got.SessionID)
	}
	if n := len(b.log("start")); n != 2 {
		t.Errorf("%d agents, want 2: none for the session that is not there", n)
	}
}

// An agent is reused, unless it was started with other options, or has ended.
func TestReuse(t *testing.T) {
	b := newBench(t)
	c := b.client()
	in := b.input("one")
	in.SessionID = collect(t, c.Query(t.Context(), in, nil)).SessionID
	agents := func(want int) {
		t.Helper()
		got := collect(t, c.Query(t.Context(), in, nil))
		if got.is(t, query.Completed, "ACK: "+in.Prompt); len(b.log("start")) != want {
			t.Errorf("%d agents were started, want %d", len(b.log("start")), want)
		}
	}
	in.Prompt = "two"
	agents(1)
	in.Prompt, in.Model = "three", "sonnet"
	agents(2)
	all, err := simchild.Log(b.dir)
	must(t, err)
	agent, err := os.FindProcess(all[len(all)-1].PID)
	if err == nil {
		err = agent.Kill()
	}
	must(t, err)
	in.Prompt = "four"
	b.until("the agent has ended", func() bool { return agent.Signal(syscall.Signal(0)) != nil })
	agents(3)
}

// blocked starts a query whose turn does not end, and calls during in it.
func (b *bench) blocked(ctx context.Context, c *query.Client, during func() (leave bool)) (got told) {
	b.t.Helper()
	for e, err := range c.Query(ctx, b.input("WAIT:never\nlong"), nil) {
		if e.Result != nil {
			got.Result, got.err = *e.Result, err
		} else if e.Error != nil {
			got.errors = append(got.errors, e.Error.Message)
		} else if end, ok := e.Envelope.Event.(*wire.TurnEnd); ok {
			got.texts = append(got.texts, string(end.Status))
		} else if _, ok := e.Envelope.Event.(*wire.TurnStart); ok && during() {
			break
		}
	}
	if n := len(b.log("exit")); n != 1 {
		b.t.Errorf("%d agents exited by themselves, want 1", n)
	}
	if w := b.log("work"); len(w) != 0 {
		b.t.Errorf("worked on %q", w)
	}
	return got
}

// However a query is ended, its turn is interrupted, and its agent ends.
func TestInterrupt(t *testing.T) {
	t.Run("the end of the context", func(t *testing.T) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		got := b.blocked(ctx, b.client(), func() bool { cancel(); return false })
		got.is(t, query.Interrupted, "")
		if !errors.Is(got.err, context.Canceled) || !slices.Equal(got.texts, []string{"cancelled"}) || got.errors != nil {
			t.Errorf("got %v, %q, %q", got.err, got.texts, got.errors)
		}
		in := b.input("go on")
		in.SessionID = got.SessionID
		collect(t, b.client().Query(t.Context(), in, nil)).is(t, query.Completed, "ACK: go on")
	})
	t.Run("leaving the loop", func(t *testing.T) {
		b := newBench(t)
		if got := b.blocked(t.Context(), b.client(), func() bool { return true }); got.Result != (query.Result{}) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("the end of the client", func(t *testing.T) {
		b := newBench(t)
		c := query.New(b.options)
		got := b.blocked(t.Context(), c, func() bool {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			return false
		})
		if got.is(t, query.Interrupted, ""); !errors.Is(got.err, query.ErrClosed) {
			t.Errorf("got %v", got.err)
		}
		if got := collect(t, c.Query(t.Context(), b.input("late"), nil)); !errors.Is(got.err, query.ErrClosed) {
			t.Errorf("afterwards: %v", got.err)
		}
	})
	t.Run("a panic in the loop", func(t *testing.T) {
		b := newBench(t)
		c := b.client()
		in := b.input("WAIT:never")
		func() {
			defer func() { _ = recover() }()
			for e := range c.Query(t.Context(), in, nil) {
				in.SessionID = e.Envelope.ID // any event: there is a turn
				panic("in the loop")
			}
		}()
		if in.SessionID == "" || len(b.log("work")) != 0 {
			t.Error("no turn, or it went on")
		}
		all, err := simchild.Log(b.dir)
		must(t, err)
		if agent, err := os.FindProcess(all[0].PID); err == nil && agent.Signal(syscall.Signal(0)) == nil {
			t.Error("the agent still runs")
		}
	})
	t.Run("while it waits for a message", func(t *testing.T) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		in := b.input("one")
		in.StreamingInput = true
		got := collect(t, b.client().Query(ctx, in, func(func(query.Message) bool) {
			b.until("one is done", func() bool { return len(b.log("work")) == 1 })
			cancel()
			<-t.Context().Done() // like a reader of a terminal
		}))
		if got.is(t, query.Interrupted, "ACK: one"); len(b.log("exit")) != 1 {
			t.Error("the agent has not exited")
		}
	})
}

// Close ends all agents, however many were kept.
func TestClose(t *testing.T) {
	b := newBench(t)
	c := query.New(b.options)
	for range 10 { // 8 are kept
		collect(t, c.Query(t.Context(), b.input("hello"), nil)).is(t, query.Completed, "ACK: hello")
	}
	if n := len(b.log("exit")); n != 2 {
		t.Errorf("%d agents have ended, want 2", n)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := len(b.log("exit")); n != 10 {
		t.Errorf("%d agents have ended, want all", n)
	}
}

// A failed turn is an event and the error of the query, and the session can go on.
func TestTurnFails(t *testing.T) {
	b := newBench(t)
	in := b.input("FAIL")
	in.StreamingInput = true
	got := collect(t, b.client().Query(t.Context(), in, messages("two", strings.Repeat("x", 200_000), "four")))
	got.is(t, query.Failed, "ACK: four")
	if failed, ok := errors.AsType[*query.TurnError](got.err); !ok || !strings.Contains(failed.Reason, "API Error: 400 simulated") {
		t.Errorf("got %v", got.err)
	}
	if len(got.errors) != 2 || !strings.Contains(got.errors[1], "limit") {
		t.Errorf("got %q", got.errors)
	}
	in.Prompt, in.StreamingInput = strings.Repeat("x", 200_000), false
	got = collect(t, b.client().Query(t.Context(), in, nil))
	if wrong, ok := errors.AsType[*query.InputError](got.err); !ok || wrong.Key != "prompt" || got.SessionID != "" {
		t.Errorf("got %v, session %q", got.err, got.SessionID)
	}
}

func TestAgentFails(t *testing.T) {
	for name, test := range map[string]struct {
		fault simchild.Fault
		want  string
	}{
		"killed in its turn": {simchild.Fault{At: simchild.Echoed, Do: simchild.Die}, "the agent ended in the middle of the query: claude: process was ended by signal \"killed\""},
		"exits at its start": {simchild.Fault{At: simchild.Start, Do: simchild.Exit}, "simchild: told to exit at start"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, test.fault)
			got := collect(t, b.client().Query(t.Context(), b.input("hello"), nil))
			if got.is(t, query.Failed, ""); !strings.Contains(got.err.Error(), test.want) || len(got.errors) != 1 || got.errors[0] != got.err.Error() {
				t.Errorf("got %v, %q; want %q", got.err, got.errors, test.want)
			}
		})
	}
	t.Run("is not there", func(t *testing.T) {
		b := newBench(t)
		b.options.Claude = []string{filepath.Join(b.dir, "none")}
		got := collect(t, b.client().Query(t.Context(), b.input("hello"), nil))
		if got.is(t, query.Failed, ""); !errors.Is(got.err, os.ErrNotExist) || got.SessionID != "" {
			t.Errorf("got %+v, %v", got.Result, got.err)
		}
	})
}

// Only the tools in the input are allowed.
func TestPermissions(t *testing.T) {
	for _, test := range []struct {
		name, mode string
		tools      []string
		want       string
	}{
		{"denied", "", nil, "denied: Nobody is there to allow this."},
		{"another tool", "", []string{"Read", "Write"}, "denied: Nobody is there to allow this. These tools may be used: Read, Write"},
		{"no tool", "", []string{}, "denied: Nobody is there to allow this."},
		{"allowed", "", []string{"Bash"}, "allowed"},
		{"allowed, but for plan mode", "plan", []string{"Bash"}, "denied: Nobody is there to allow this. These tools may be used: Bash"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t)
			in := b.input("ASK:Bash")
			in.Tools, in.PermissionMode = test.tools, test.mode
			collect(t, b.client().Query(t.Context(), in, nil)).is(t, query.Completed, test.want)
		})
	}
}

// The agent is started with the right arguments. MCP servers, which can hold secrets, are in a
// file that no other user can read, and that is removed afterwards.
func TestArguments(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.dir, "args")
	b.options.Claude, b.options.Env = []string{os.Args[0]}, append(b.options.Env, envArgs+"="+path)
	arguments := func(in query.Input) string {
		t.Helper()
		collect(t, b.client().Query(t.Context(), in, nil)).is(t, query.Completed, "ACK: hello")
		data, err := os.ReadFile(path)
		must(t, err)
		return "\n" + string(data) + "\n"
	}
	in := b.input("hello")
	if args := arguments(in); !strings.Contains(args, "\n--permission-mode=default\n") || strings.Contains(args, "--tools") || strings.Contains(args, "bypass") {
		t.Errorf("got %q", args)
	}
	in.Model, in.PermissionMode, in.Tools = "sonnet", "bypassPermissions", []string{"Read", "mcp__a__b", "Bash"}
	in.MCPServers = map[string]query.MCPServer{"a": {URL: "http://127.0.0.1:1", Headers: map[string]string{"Authorization": "secret"}}}
	c, config := b.client(), ""
	for e := range c.Query(t.Context(), in, nil) {
		if e.Result != nil || e.Envelope == nil {
			continue
		}
		args, err := os.ReadFile(path)
		must(t, err)
		for _, want := range []string{"--permission-mode=bypassPermissions\n", "--tools=Read,Bash\n", "--model=sonnet\n", "--mcp-config="} {
			if !strings.Contains(string(args)+"\n", want) {
				t.Errorf("%q lacks %q", args, want)
			}
		}
		_, config, _ = strings.Cut(string(args), "--mcp-config=")
		config, _, _ = strings.Cut(config, "\n")
		data, err := os.ReadFile(config)
		if err != nil || string(data) != `{"mcpServers":{"a":{"type":"http","url":"http://127.0.0.1:1","headers":{"Authorization":"secret"}}}}` {
			t.Errorf("got %s, %v", data, err)
		}
		if info, err := os.Stat(config); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(config); config == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of the MCP servers is left: %v", err)
	}
	b.options.Claude = append(b.options.Claude, "--permission-mode", "plan")
	if args := arguments(b.input("hello")); !strings.Contains(args, "\n--permission-mode\nplan\n") || strings.Contains(args, "=default") {
		t.Errorf("got %q", args)
	}
}

// An envelope whose line is too long is read from the conversation, before the result.
func TestWhatWasMissed(t *testing.T) {
	b := newBench(t)
	b.options.Claude, b.options.Env = []string{os.Args[0]}, append(b.options.Env, envHide+"=1")
	in := b.input("one")
	in.StreamingInput = true
	got := collect(t, b.client().Query(t.Context(), in, messages("two")))
	got.is(t, query.Completed, "ACK: two")
	if got := strings.Join(got.texts, "|"); got != "user: one|completed|agent: ACK: one|user: two|completed|agent: ACK: two" {
		t.Errorf("got %s", got)
	}
}

// envHide makes the test binary run itself without it, and print a line that is too long
// instead of the agent's text.
const envHide = "QUERY_TEST_HIDE"

func hide() {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, envHide+"=") })
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, `"type":"assistant"`) {
			line = strings.Repeat("x", 17<<20)
		}
		fmt.Println(line)
	}
	if cmd.Wait() != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// Queries of one client run at the same time, but those of one session one after the other.
func TestConcurrent(t *testing.T) {
	b := newBench(t)
	c := b.client()
	in := b.input("first")
	in.SessionID = collect(t, c.Query(t.Context(), in, nil)).SessionID
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			same, other := in, b.input(fmt.Sprint("other ", i))
			same.Prompt = fmt.Sprint("same ", i)
			for _, in := range []query.Input{same, other} {
				collect(t, c.Query(t.Context(), in, nil)).is(t, query.Completed, "ACK: "+in.Prompt)
			}
		})
	}
	all.Wait()
	if n := len(b.log("start")); n != 5 {
		t.Errorf("%d agents, want one for each of 5 sessions", n)
	}
}
