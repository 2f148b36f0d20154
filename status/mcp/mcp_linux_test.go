package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/relaytest/simsession"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

func TestMain(m *testing.M) {
	simsession.Main() // does not return in a session
	os.Exit(m.Run())
}

// machine has three sessions, and the files of teambridge.
type machine struct {
	*teamstest.Fixture
	ann, ben, eve *simsession.Session
	local         *bridge.Local
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	f := teamstest.New(t)
	m := &machine{Fixture: f}
	root := f.Root.Path()
	m.ann = simsession.Start(t, root, "aaaa104e-0000-4000-8000-000000000001")
	m.ben = simsession.Start(t, root, "bbbb104e-0000-4000-8000-000000000002")
	m.eve = simsession.Start(t, root, "eeee104e-0000-4000-8000-000000000003")
	l := sync.OnceValues(func() (*ledger.Ledger, error) {
		return ledger.Open(context.Background(), filepath.Join(f.State, "ledger.db"))
	})
	t.Cleanup(func() {
		if opened, err := l(); err != nil || opened.Close() != nil {
			t.Error("the ledger cannot be opened or closed", err)
		}
	})
	m.local = bridge.New(bridge.Options{
		Root:   func() (*teams.Root, error) { return f.Root, nil },
		Ledger: func(context.Context) (*ledger.Ledger, error) { return l() },
		Journal: func(ctx context.Context) (*journal.Journal, error) {
			j, err := journal.Open(ctx, filepath.Join(f.State, "journal.db"))
			if err == nil {
				t.Cleanup(func() { j.Close() }) // its user may have closed it
			}
			return j, err
		},
		State: f.State, Locker: f.Locker, LookupEnv: os.LookupEnv, Warn: func(err error) { t.Log(err) }, Debug: t.Logf,
	})
	return m
}

// client is the program of an agent.
type client struct {
	*sdk.ClientSession
	t *testing.T
}

// serve starts a server that these processes have started, and its client.
func (m *machine) serve(t *testing.T, parents ...int) *client {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx := bridge.WithAgent(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, in, out, Options{
			Once: func(ctx context.Context, _ string, do func(Bridge) error) error { return do(m.local) }, Parents: parents, Dir: t.TempDir(), Version: "test", Rest: func() {},
		})
	}()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), toServer.Close(), <-done); err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	return &client{s, t}
}

// call calls a tool. Its structured answer is put into out; the error is what the model reads instead.
func (c *client) call(name string, in, out any) error {
	c.t.Helper()
	r, err := c.CallTool(c.t.Context(), &sdk.CallToolParams{Name: name, Arguments: in})
	if err != nil {
		return err
	}
	text := ""
	for _, part := range r.Content {
		text += part.(*sdk.TextContent).Text
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' }) {
		c.t.Errorf("%s: control characters in %q", name, text)
	}
	if r.IsError {
		return errors.New(text)
	}
	data, err := json.Marshal(r.StructuredContent)
	if err != nil {
		return err
	}
	if into, ok := out.(*Sent); ok {
		*into = Sent{}
	}
	return json.Unmarshal(data, out)
}

func (c *client) must(name string, in, out any) {
	c.t.Helper()
	if err := c.call(name, in, out); err != nil {
		c.t.Fatalf("%s %v: %v", name, in, err)
	}
}

type args map[string]any

// An agent learns its name, its possible recipients, and the state of its message. Another agent reads and answers
// the message, and no third one can read it.
func TestAgentsWriteToOneAnother(t *testing.T) {
	m := newMachine(t)
	ann, ben, eve := m.serve(t, 1<<30, m.ann.PID()), m.serve(t, m.ben.PID()), m.serve(t, m.eve.PID())
	var listed Listed
	ann.must("list_agents", args{}, &listed)
	if listed.You != m.ann.ID+"@sessions" || len(listed.Agents) != 2 || listed.Agents[0].To != m.ben.ID+"@sessions" {
		t.Fatalf("listed: %+v", listed)
	}
	for _, a := range listed.Agents {
		if a.Does != api.WordIdle || a.Way != api.WaySession || !strings.Contains(a.Promise, "each message once") || a.Directory != m.ann.Dir() {
			t.Errorf("listed: %+v", a)
		}
	}
	var sent Sent
	if err := ann.call("send_message", args{"to": "work", "text": "which one?"}, &sent); err == nil || !strings.Contains(err.Error(), m.ben.ID) {
		t.Errorf("to a name that three have: %+v, %v", sent, err)
	}
	id := "1a0f8fb6-ccc7-4b39-aab0-ea7e7b3a4e8e"
	for range 2 {
		ann.must("send_message", args{"to": m.ben.ID, "text": "hello", "wait": "seen", "id": id}, &sent)
		if sent.State != api.Seen || sent.ID != id {
			t.Errorf("sent: %+v", sent)
		}
	}
	if given := m.ben.Given(); !slices.Equal(given, []string{"hello"}) { // in all messages
		t.Errorf("the models were given %q", given)
	}
	m.ben.Tell("busy")
	later := make(chan error, 1)
	go func() {
		var sent Sent
		err := ann.call("send_message", args{"to": m.ben.ID, "text": "later", "wait": "seen", "timeout_seconds": 3}, &sent)
		if err == nil && (sent.State == api.Seen || !strings.Contains(sent.Meaning, "not received it")) {
			err = fmt.Errorf("sent to one that works: %+v", sent)
		}
		later <- err
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var read Messages
		if ann.must("read_messages", args{}, &read); slices.ContainsFunc(read.Messages, func(m Message) bool { return m.Text == "later" }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("what is sent is not recorded: %+v", read)
		}
	}
	ann.must("send_message", args{"to": m.ben.ID, "text": "well?", "wait": "answer", "timeout_seconds": 3}, &sent)
	if err := <-later; err != nil {
		t.Error(err)
	}
	if sent.State != unanswered || !strings.Contains(sent.Meaning, "stays sent") {
		t.Errorf("asked one that works: %+v", sent)
	}
	m.ben.Tell("idle")
	ann.must("send_message", args{"to": m.ben.ID, "text": "and now?", "wait": "answer"}, &sent)
	if sent.State != "answered" || sent.Answer == "" {
		t.Errorf("asked: %+v", sent)
	}

	var read Messages
	ben.must("read_messages", args{}, &read)
	var texts []string
	got := ""
	for _, one := range read.Messages {
		if !one.Answer {
			texts = append(texts, one.From+": "+one.Text)
		}
		if one.Text == "hello" {
			got = one.ID
		}
	}
	if want := []string{"work@sessions: and now?", "work@sessions: well?", "work@sessions: later", "work@sessions: hello"}; !slices.Equal(texts, want) {
		t.Errorf("read: %q, want %q", texts, want)
	}
	ben.must("reply", args{"id": got, "text": "\x1b[31mhi\x1b[0m", "wait": "seen"}, &sent)
	if sent.State != api.Seen || sent.To != "work@sessions" || !slices.Contains(m.ann.Given(), "\x1b[31mhi\x1b[0m") {
		t.Errorf("replied: %+v; the models were given %q", sent, m.ann.Given())
	}
	read = Messages{}
	ann.must("read_messages", args{"limit": 10}, &read)
	if !slices.ContainsFunc(read.Messages, func(m Message) bool { return m.Answer && m.To == "work@sessions" }) || slices.ContainsFunc(read.Messages, func(m Message) bool { return m.To == m.From }) {
		t.Errorf("the answers are not to those who asked: %+v", read)
	}
	read.Messages = slices.DeleteFunc(read.Messages, func(m Message) bool { return m.Answer })
	if len(read.Messages) < 3 || read.Messages[0].Text != "\x1b[31mhi\x1b[0m" || !slices.ContainsFunc(read.Messages, func(m Message) bool { return m.Text == "and now?" && m.State == api.Seen }) {
		t.Errorf("read: %+v", read)
	}
	ben.must("search_history", args{"words": "later"}, &read)
	if len(read.Messages) == 0 || read.Messages[0].Text != "later" {
		t.Errorf("found: %+v", read)
	}
	for _, tool := range []string{"read_messages", "search_history"} {
		in := args{}
		if tool == "search_history" {
			in["words"] = "hello"
		}
		eve.must(tool, in, &read)
		if len(read.Messages) > 0 {
			t.Errorf("%s of another: %+v", tool, read)
		}
	}
	if err := eve.call("reply", args{"id": got, "text": "x"}, &sent); err == nil {
		t.Errorf("another replied: %+v", sent)
	}

	found, err := m.local.History(t.Context(), api.SearchQuery{Words: "hello", MessagesOnly: true, Limit: 10})
	if err != nil || len(found.Hits) != 1 || found.Hits[0].Relay == nil {
		t.Fatalf("found: %+v, %v", found, err)
	}
	given := found.Hits[0].Relay.Delivery // as in the answer to the model
	eve.must("send_message", args{"to": m.ben.ID, "text": "mine", "id": given}, &sent)
	if err := ben.call("reply", args{"id": given, "text": "for ann alone"}, &sent); err == nil {
		t.Errorf("the answer to an id that another one has copied went to %+v", sent)
	}

	ben.must("send_message", args{"to": "user", "text": "done"}, &sent)
	if sent.State != api.Verified || sent.To != "user" {
		t.Errorf("sent to the person: %+v", sent)
	}
	rows, err := m.local.Read(t.Context(), api.TeamSessions, api.Reading{Own: true})
	if err != nil || len(rows.Messages) != 1 || rows.Messages[0].Text != "done" || !strings.HasPrefix(rows.Messages[0].From, "work") || rows.Messages[0].Read {
		t.Errorf("the person has %+v, %v", rows, err)
	}
	came := make(chan error, 1)
	go func() {
		h, err := m.local.Wait(t.Context(), api.TeamSessions, api.Occasion{For: api.ForMessage, Member: mail.User, Timeout: time.Minute})
		if err == nil && (h.Message == nil || h.Message.Inbox != mail.User || h.Message.Text != "more") {
			err = fmt.Errorf("it ended with %+v", h.Message)
		}
		came <- err
	}()
	for waits := true; waits; { // until the wait has begun, and sees one
		ben.must("send_message", args{"to": "user", "text": "more"}, &sent)
		select {
		case err := <-came:
			if waits = false; err != nil {
				t.Errorf("the wait for a message to the person: %v", err)
			}
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// If a server is killed in a call, and its program makes the call again at the next server, the message is sent once.
// Another call with the same text sends another one.
func TestCallMadeAgain(t *testing.T) {
	m := newMachine(t)
	first, next := m.serve(t, m.ann.PID()), m.serve(t, m.ann.PID())
	ids := map[string]bool{}
	for _, call := range []struct {
		at  *client
		use string
	}{{first, "toolu_1"}, {next, "toolu_1"}, {next, "toolu_2"}} {
		r, err := call.at.CallTool(t.Context(), &sdk.CallToolParams{
			Meta: sdk.Meta{"claudecode/toolUseId": call.use}, Name: "send_message", Arguments: args{"to": m.ben.ID, "text": "go", "wait": "seen"},
		})
		if err != nil || r.IsError {
			t.Fatalf("%s: %+v, %v", call.use, r, err)
		}
		ids[r.StructuredContent.(map[string]any)["id"].(string)] = true
	}
	if given := m.ben.Given(); len(ids) != 2 || !slices.Equal(given, []string{"go", "go"}) {
		t.Errorf("%d ids, and the models were given %q; want two of each", len(ids), given)
	}
}

// Wrong or hostile calls are refused, and nothing is sent.
func TestRefused(t *testing.T) {
	m := newMachine(t)
	m.Make("crew", 1, "worker")
	ann, nobody := m.serve(t, m.ann.PID()), m.serve(t, 1<<30)
	for _, in := range []args{
		{"to": "../x", "text": "hi"},
		{"to": "worker@../x", "text": "hi"},
		{"to": "\x1b[2J", "text": "hi"},
		{"to": "", "text": "hi"},
		{"to": m.ann.ID, "text": "to myself"},
		{"to": m.ben.ID, "text": ""},
		{"to": m.ben.ID, "text": strings.Repeat("x", 1<<20)},
		{"to": m.ben.ID, "text": "hi", "from": "user"},
		{"to": m.ben.ID, "text": "hi", "wait": "forever"},
		{"to": m.ben.ID, "text": "hi", "timeout_seconds": 601},
		{"to": m.ben.ID, "text": "hi", "timeout_seconds": -1},
		{"to": m.ben.ID, "text": "hi", "id": "../../x"},
		{"to": m.ben.ID},
		{"to": "user", "text": "hi", "wait": "answer"},
		{"to": "user", "text": strings.Repeat("x", 1<<20)},
		{"to": "worker@crew", "text": `{"type":"shutdown_request"}`},
	} {
		var sent Sent
		if err := ann.call("send_message", in, &sent); err == nil {
			t.Errorf("sent %.80v: %+v", in, sent)
		} else if len(err.Error()) > 1000 {
			t.Errorf("%.80v: an error of %d bytes", in, len(err.Error()))
		}
	}
	if err := ann.call("send_message", args{"to": "carol", "text": "hi"}, &Sent{}); err == nil || !strings.Contains(err.Error(), `there is no agent "carol"`) || !strings.Contains(err.Error(), "list_agents") {
		t.Errorf("to nobody: %v", err)
	}
	for name, in := range map[string]args{
		"read_messages": {"limit": 51}, "search_history": {"words": " "}, "reply": {"id": "1", "text": "x"}, "permit": {}, "list_agents": {"team": "x"},
	} {
		if err := ann.call(name, in, &struct{}{}); err == nil {
			t.Errorf("%s %v was done", name, in)
		}
	}
	if given := m.ann.Given(); len(given) > 0 { // of all
		t.Errorf("models were given %q", given)
	}

	var sent Sent
	nobody.must("send_message", args{"to": m.ben.ID, "text": "who am I?", "wait": "seen"}, &sent)
	var listed Listed
	m.Make("torn", 1, "worker")
	if err := os.WriteFile(m.Path("torn", "config.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	nobody.must("list_agents", args{}, &listed)
	if listed.You != api.Unverified || len(listed.Agents) != 4 || len(listed.Unknown) != 1 || !strings.HasPrefix(listed.Unknown[0], "torn are not known: ") {
		t.Errorf("unknown: %+v", listed)
	}
	if err := nobody.call("read_messages", args{}, &struct{}{}); err == nil {
		t.Error("somebody unknown reads messages")
	}
	found, err := m.local.History(t.Context(), api.SearchQuery{Team: api.TeamSessions, MessagesOnly: true})
	if err != nil || !slices.ContainsFunc(found.Hits, func(h api.Hit) bool { return h.Text == "who am I?" && h.From == api.Unverified }) {
		t.Errorf("the history has %+v, %v", found.Hits, err)
	}
}

// An agent finds its messages to all teams, once each, and others do not.
func TestOwnInAllTeams(t *testing.T) {
	m := newMachine(t)
	m.Make("crew", 1, "worker")
	m.Make("band", 1, "drums")
	ann, ben := m.serve(t, m.ann.PID()), m.serve(t, m.ben.PID())
	var sent Sent
	for _, to := range []string{"worker@crew", "drums@band", m.ben.ID} {
		ann.must("send_message", args{"to": to, "text": "zebra for " + to, "wait": "delivered"}, &sent)
	}
	for tool, in := range map[string]args{"read_messages": {}, "search_history": {"words": "zebra"}} {
		texts := func(c *client, limit int) (to []string, more bool) {
			in["limit"] = limit
			var read Messages
			c.must(tool, in, &read)
			for _, one := range read.Messages {
				switch name, team, _ := strings.Cut(one.To, "@"); {
				case one.Answer:
				case team == api.TeamSessions && strings.HasPrefix(name, "work"): // all have such names
					to = append(to, "ben")
				default:
					to = append(to, one.To)
				}
				if one.State == "" && c == ann && !one.Answer {
					t.Errorf("%s: what became of it is not said: %+v", tool, one)
				}
			}
			return to, read.More
		}
		if to, _ := texts(ann, 50); !slices.Equal(to, []string{"ben", "drums@band", "worker@crew"}) {
			t.Errorf("%s: written to %q", tool, to)
		}
		if to, more := texts(ann, 2); !slices.Equal(to, []string{"ben", "drums@band"}) || !more {
			t.Errorf("%s: of two, written to %q, more %t", tool, to, more)
		}
		if to, _ := texts(ben, 50); !slices.Equal(to, []string{"ben"}) {
			t.Errorf("%s of another: written to %q", tool, to)
		}
	}
}

// A member does not read messages to its namesake in an earlier team of that name.
func TestOwnInATeamMadeAgain(t *testing.T) {
	m := newMachine(t)
	reads := func(q api.SearchQuery, want ...string) {
		t.Helper()
		read, err := (&tools{}).own(t.Context(), m.local, caller{"worker@crew", "worker", "crew", ""}, q)
		var got []string
		for _, one := range read.Messages {
			got = append(got, one.Text)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	send := func(text string) {
		t.Helper()
		if _, err := m.local.Send(t.Context(), "crew", "worker", "", api.NewMessage{Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	m.Make("crew", 1, "boss", "worker")
	send("zebra one")
	reads(api.SearchQuery{}, "zebra one")
	if err := os.RemoveAll(m.Path("crew")); err != nil {
		t.Fatal(err)
	}
	again := time.Now().Truncate(time.Millisecond).Add(time.Millisecond)
	for time.Now().Before(again) { // a team has no messages from before it was made
	}
	m.Make("crew", again.UnixMilli(), "boss", "worker")
	send("zebra two")
	reads(api.SearchQuery{}, "zebra two")
	reads(api.SearchQuery{Words: "zebra"}, "zebra two")
}

// A call that decoding would change in any way is refused, and the next one is answered.
func TestInexact(t *testing.T) {
	m := newMachine(t)
	m.Make("crew", 1, "worker")
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(bridge.WithAgent(t.Context()), in, out, Options{
			Once: func(ctx context.Context, _ string, do func(Bridge) error) error { return do(m.local) }, Parents: []int{m.ann.PID()}, Dir: t.TempDir(), Version: "test", Rest: func() {},
		})
	}()
	answers := bufio.NewReader(fromServer)
	write := func(line string) {
		t.Helper()
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	call := func(line string) string {
		t.Helper()
		write(line)
		answer, err := answers.ReadString('\n')
		if err != nil || !json.Valid([]byte(answer)) {
			t.Fatalf("%s: answered %q, %v", line, answer, err)
		}
		return answer
	}
	call(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0,"reason":"` + "\xff" + `"}}`) // gets no answer
	const head, tail = `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"send_message","arguments":{"to":"worker@crew",`, `}}}`
	for _, arguments := range []string{
		`"text":"a\ud800b"`, "\"text\":\"a\xff\xfeb\"", `"text":"do not deploy","text":"deploy"`, `"text":"do not deploy"},"arguments":{"to":"worker@crew","text":"deploy"`,
	} {
		if answer := call(head + arguments + tail); !strings.Contains(answer, `"id":"7"`) || !strings.Contains(answer, `"error":{`) || !strings.Contains(answer, "nothing was done") {
			t.Errorf("%q: answered %s", arguments, answer)
		}
	}
	if answer := call(head + `"text":"` + strings.Repeat("\\u00e9", 5000) + `"` + tail); !strings.Contains(answer, `"id":"7"`) || strings.Contains(answer, `"error":{`) {
		t.Errorf("a long one: answered %s", answer)
	}
	if rows, err := m.Inbox("crew", "worker").Read(t.Context()); err != nil || len(rows) != 1 || rows[0].Text != strings.Repeat("é", 5000) {
		t.Errorf("the inbox has %+v, %v", rows, err)
	}
	if err := errors.Join(toServer.Close(), <-done); err != nil {
		t.Error(err)
	}
}

// A row to a member is from the session, and names the way back; and not from the person.
func TestRowOfASession(t *testing.T) {
	m := newMachine(t)
	m.Make("crew", 1, "worker")
	ann := m.serve(t, m.ann.PID())
	var sent Sent
	ann.must("send_message", args{"to": "worker", "text": "hello"}, &sent)
	rows, err := m.Inbox("crew", "worker").Read(t.Context())
	if err != nil || len(rows) != 1 || rows[0].From != "work@sessions" || sent.State != api.Verified {
		t.Errorf("sent %+v; the inbox has %+v, %v", sent, rows, err)
	}
	ctx := bridge.WithAgent(t.Context())
	for _, from := range []string{"", mail.User, api.Guest} {
		for _, team := range []string{"crew", api.TeamSessions} {
			member := map[string]string{"crew": "worker", api.TeamSessions: m.ben.ID}[team]
			if _, err := m.local.Send(ctx, team, member, "", api.NewMessage{Text: "x", From: from}); !errors.Is(err, api.CodeRefused) {
				t.Errorf("sent to %s as %q: %v", member, from, err)
			}
			if _, err := m.local.Ask(ctx, team, member, "", api.NewQuestion{NewMessage: api.NewMessage{Text: "x", From: from}, Timeout: "1s"}); !errors.Is(err, api.CodeRefused) {
				t.Errorf("asked %s as %q: %v", member, from, err)
			}
		}
	}
}
