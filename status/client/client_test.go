package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
	"teambridge/status/view"
)

// A service answers over both addresses. Names and ids are never interpreted. The suite of the bridge has
// everything else that all clients share.
func TestRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addrs, _ := w.serve(w.both)
	token, err := os.ReadFile(api.TokenPath(w.State))
	must(t, err)
	tcp, err := client.New(client.Options{Address: addrs[1], Token: strings.TrimSpace(string(token))})
	must(t, err)
	ctx := t.Context()
	for i, c := range []*client.Client{w.find(), tcp} {
		if c.Where() != addrs[i] {
			t.Errorf("it is at %s, want %s", c.Where(), addrs[i])
		}
		if err := c.Health(ctx); err != nil {
			t.Error(err)
		}
		if v, err := c.Version(ctx); err != nil || v.Version.Version != "v" || v.ReadOnly {
			t.Errorf("version %+v, %v", v, err)
		}
		if doc, err := c.Document(ctx); err != nil || doc["openapi"] != "3.1.0" {
			t.Errorf("document %v, %v", doc["openapi"], err)
		}
		if _, err := c.SignIn(ctx, false); view.Explain(err).Code != api.CodeRefused { // there is no page here
			t.Errorf("signed in: %v", err)
		}
		want, err := view.Teams(ctx, w.Root)
		must(t, err)
		if got, err := c.Teams(ctx); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("teams: %v %s", err, cmp.Diff(want, got))
		}
		id := fmt.Sprintf(`an id/with "much" %%2F in it? ☃ %d`, i)
		for again := range 2 {
			s, err := c.Send(ctx, older, "worker", id, api.NewMessage{Text: "please review", Summary: "review"})
			if err != nil || s.ID != id || s.State != api.Verified || s.Deduplicated != (again > 0) || s.Member != "worker" {
				t.Fatalf("sent %+v, %v", s, err)
			}
		}
		if r, err := c.Receipt(ctx, older, "worker", id); err != nil || r.ID != id || r.State != api.Verified {
			t.Errorf("receipt %+v, %v", r, err)
		}
	}
}

// Payloads of the session protocol are sent as they are, once.
func TestPayloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	c := w.find()
	lines := []byte(`{"role":"user","content":{"type":"text","text":"hi <&>"},"localKey":"k"}` + "\n\n" +
		`{"role":"session","content":{"id":"e","time":1,"role":"user","ev":{"t":"text","text":"hi"}}}` + "\n")
	if _, err := c.SendPayloads(t.Context(), older, "worker", lines); !errors.Is(err, api.CodeInvalid) {
		t.Errorf("to a member without a relay: %v", err)
	}
	if _, err := c.AddRelay(t.Context(), api.NewRelay{Team: older, Member: "worker", Command: []string{filepath.Join(w.State, "no-such-agent")}, Dir: w.State}); err != nil {
		t.Fatal(err)
	}
	for again := range 2 {
		s, err := c.SendPayloads(t.Context(), older, "worker", lines)
		if err != nil || s.Dropped != 1 || len(s.Results) != 2 || s.Results[1].Line != 3 || s.Results[1].Dropped != "modern" {
			t.Fatalf("%+v, %v", s, err)
		}
		if one := s.Results[0]; one.Line != 1 || one.Sent == nil || one.Sent.ID != "k" || one.Sent.Deduplicated != (again > 0) {
			t.Errorf("the prompt, time %d: %+v", again, one)
		}
	}
}

// Errors are the same as without the service, and a name never changes the meaning of a path.
func TestProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	c := w.find()
	ctx := t.Context()
	team := func(name string) error {
		open, err := w.Root.Team(name)
		if err != nil {
			return err
		}
		defer open.Close()
		_, err = open.Config(ctx)
		return err
	}
	for _, name := range []string{"nobody", "myteem", "../teams/myteam", "..", ".", "", " ", "a/b", `a\b`, "myteam\x00", "%2e%2e", "CON", strings.Repeat("x", 65), "myteam?x=1", "myteam#"} {
		_, err := c.Team(ctx, name)
		want := view.Explain(team(name))
		if name == "" {
			want = view.Explain(team(" ")) // no name either
		}
		if got := view.Explain(err); got != want {
			t.Errorf("team %q: %+v, want %+v", name, got, want)
		}
	}
	for _, name := range []string{"../config", "..", ".", "", "x/../worker", "worker.json", "worker\n", "nobody"} {
		_, err := c.Send(ctx, older, name, "", api.NewMessage{Text: "x"})
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != api.CodeNotFound && p.Code != api.CodeInvalid {
			t.Errorf("member %q: %v", name, err)
		}
	}
	_, err := c.Send(ctx, older, "workr", "", api.NewMessage{Text: "x"})
	if p, ok := errors.AsType[*api.Problem](err); !ok || !slices.Contains(p.Nearest, "worker") || p.Status != http.StatusNotFound || view.Explain(err).Code.Exit() != api.ExitNotFound {
		t.Errorf("%+v", err)
	}
	for name, request := range map[string]func() error{
		"text": func() error { return second(c.Send(ctx, older, "worker", "", api.NewMessage{Text: "caf\xe9"})) },
		"summary": func() error {
			return second(c.Send(ctx, older, "worker", "", api.NewMessage{Text: "x", Summary: "caf\xe9"}))
		},
		"color": func() error {
			return second(c.Send(ctx, older, "worker", "", api.NewMessage{Text: "x", Color: "\xff"}))
		},
		"id": func() error { return second(c.Send(ctx, older, "worker", "caf\xe9", api.NewMessage{Text: "x"})) },
		"policy": func() error {
			return second(c.Send(ctx, older, "worker", "", api.NewMessage{Text: "x", PaneOptions: api.PaneOptions{Policy: "\xff"}}))
		},
		"mode": func() error {
			return second(c.Send(ctx, older, "worker", "", api.NewMessage{Text: "x", Mode: []byte(`{"model":"\ud83d"}`)}))
		},
		"except": func() error {
			return second(c.Broadcast(ctx, older, "", api.NewBroadcast{Text: "x", Except: []string{"\xff"}}))
		},
		"command": func() error {
			return second(c.AddRelay(ctx, api.NewRelay{Team: "t", Member: "m", Command: []string{"claude", "caf\xe9"}}))
		},
		"reason": func() error { return second(c.Answer(ctx, "q", api.Permit{Question: "q", Reason: "caf\xe9"})) },
		"answer": func() error {
			return second(c.Answer(ctx, "q", api.Permit{Question: "q", Answers: map[string]string{"a": "caf\xe9"}}))
		},
		"a payload": func() error {
			return second(c.SendPayloads(ctx, older, "worker", []byte("{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"caf\xe9\"}}")))
		},
		"a team": func() error { return second(c.Send(ctx, "caf\xe9", "worker", "", api.NewMessage{Text: "x"})) },
	} {
		if err := request(); view.Explain(err).Code != api.CodeInvalid || errors.As(err, new(*client.SkewError)) {
			t.Errorf("%s that is not UTF-8: %v", name, err)
		}
	}
	if _, err := c.History(ctx, client.SearchQuery{Words: "caf\xe9"}); view.Explain(err).Code != api.CodeUsage {
		t.Errorf("a search for what is not UTF-8: %v", err)
	}
	if _, err := c.Send(ctx, older, "worker", "a\nb", api.NewMessage{Text: "x"}); view.Explain(err).Code != api.CodeInvalid {
		t.Errorf("an id of two lines: %v", err)
	}
	if _, err := c.Receipt(ctx, older, "worker", "nothing"); view.Explain(err).Code != api.CodeNotFound {
		t.Errorf("no receipt: %v", err)
	}
	canceled, cancel := context.WithCancelCause(ctx)
	reason := errors.New("enough")
	cancel(reason)
	if _, err := c.Teams(canceled); err != reason {
		t.Errorf("after its end: %v", err)
	}
}

// The API's hints name operations. The client returns the commands for errors in answers, too.
func TestHintsOfErrorsInAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	const command = "the file was not changed; see what to do with: teambridge doctor"
	must(t, os.WriteFile(w.Inbox(older, "worker").Path(), []byte("garbage"), 0o600))
	list, err := w.find().Broadcast(t.Context(), older, "b", api.NewBroadcast{Text: "x", IncludeLead: true})
	must(t, err)
	if e := list[len(list)-1].Error; e == nil || e.Code != api.CodeCorrupt || e.Hint != command || e.Command != "" {
		t.Errorf("of a broadcast: %+v", e)
	}

	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.LinesType)
		_, _ = io.WriteString(w, "{}\n")
		_ = json.NewEncoder(w).Encode(api.LineError{Error: api.Error{Code: api.CodeCorrupt, Message: "it is corrupt", Hint: "GET /v1/doctor", Command: command}})
	}))
	defer h.Close()
	c, err := client.New(client.Options{Address: h.Listener.Addr().String()})
	must(t, err)
	defer c.Close()
	var last error
	for _, err := range c.Transcript(t.Context(), "t", "m", api.TranscriptQuery{}) {
		last = err
	}
	if e := view.Explain(last); e != (api.Error{Code: api.CodeCorrupt, Message: "it is corrupt", Hint: command}) {
		t.Errorf("of a transcript: %+v", e)
	}
}

// A service is found while it runs. A killed service is not found, even if another program listens there now.
func TestFind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	none := func(why string) {
		t.Helper()
		if _, err := client.Find(w.State, w.Root.Path()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", why, err)
		}
	}
	none("nothing was ever there")
	_, end := w.serve(func(o *server.Options) { o.Listen = []string{"127.0.0.1:0"} })
	if _, err := w.find().Teams(t.Context()); err != nil {
		t.Errorf("over TCP alone: %v", err)
	}
	card, err := api.ReadCard(w.State, w.Root.Path())
	must(t, err)
	end()
	none("it ended")
	leave := func() {
		t.Helper()
		data, err := json.Marshal(card)
		must(t, err)
		must(t, os.WriteFile(api.CardPath(w.State, w.Root.Path()), data, 0o600))
	}
	leave() // as a service that was killed leaves it
	none("it was killed")
	w.serve()
	card.API = api.Level + 1
	leave()
	if _, err := client.Find(w.State, w.Root.Path()); !errors.As(err, new(*client.SkewError)) || !strings.Contains(err.Error(), "version 2 of the API") {
		t.Errorf("a newer one: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, err := client.New(client.Options{Socket: filepath.Join(t.TempDir(), "none")})
	must(t, err)
	gone, ok := errors.AsType[*client.UnreachableError](c.Health(ctx))
	if !ok || gone.Sent || !errors.Is(gone, client.ErrUnreachable) || strings.Contains(gone.Error(), "http://") {
		t.Errorf("nobody is there: %v", gone)
	}
	// Connected, and then cut off: it may have been done.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1000))
			_ = conn.Close()
		}
	}()
	defer func() { _ = l.Close(); <-ended }()
	if c, err = client.New(client.Options{Address: l.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(ctx, "t", "m", "id", api.NewMessage{Text: "x"})
	if gone, ok := errors.AsType[*client.UnreachableError](err); !ok || !gone.Sent {
		t.Errorf("cut off: %v", err)
	}
	for _, o := range []client.Options{{}, {Socket: "a", Address: "b"}} {
		if _, err := client.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// An unexpected answer is reported, and unknown new fields are ignored.
func TestSkew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status      int
		media, body string
		want        string // in the error; "": none
	}{
		"a page":                 {200, "text/html", "<html>", "no JSON"},
		"an error page":          {404, "text/plain", "404 page not found", `404 Not Found as "text/plain"`},
		"an older one":           {404, api.ProblemType, `{"code":"no_route","detail":"there is nothing at /v1/teams"}`, "it says: there is nothing at /v1/teams; restart it"},
		"one without the method": {405, api.ProblemType, `{"code":"method","detail":"/v1/teams is not for GET"}`, "is not for GET"},
		"another redirection":    {307, "", "", "307"},
		"a problem of others":    {400, api.ProblemType, `{"title":"no"}`, "without a code"},
		"half an answer":         {200, "application/json", `[{"team":"x"`, "unexpected end"},
		"a newer one":            {200, "application/json", `[{"team":"x","mood":"fine"}]`, ""},
	} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.media)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		asks, err := client.New(client.Options{Address: h.Listener.Addr().String()})
		must(t, err)
		list, err := asks.Teams(t.Context())
		switch skew, ok := errors.AsType[*client.SkewError](err); {
		case c.want == "" && (err != nil || len(list) != 1 || list[0].Team != "x"):
			t.Errorf("%s: %+v, %v", name, list, err)
		case c.want != "" && (!ok || !strings.Contains(skew.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		asks.Close()
		h.Close()
	}
}

// A service that ends during a wait for a message says so, or is gone.
func TestAwait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, end := w.serve()
	c := w.find()
	sent, err := c.Send(t.Context(), older, "worker", "", api.NewMessage{Text: "hello"})
	must(t, err)
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Await(t.Context(), sent, api.Consumed, 0)
		waiting <- err
	}()
	end()
	if err := <-waiting; !errors.Is(err, api.CodeUnavailable) && !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("the service ended: %v", err)
	}
	if _, err := c.Await(t.Context(), sent, api.Consumed, 0); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("there is no service: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// A service that dies during a request is noticed, and so is a transcript that is cut off.
func TestDeathWhileARequestWaits(t *testing.T) {
	t.Parallel()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/transcript") {
			w.Header().Set("Content-Type", api.LinesType)
			_, _ = io.WriteString(w, "{\"id\":\"e1\"}\n{\"id\":")
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	defer h.Close()
	c, err := client.New(client.Options{Address: h.Listener.Addr().String()})
	must(t, err)
	defer c.Close()
	dead := func(what string, err error) {
		if u, ok := errors.AsType[*client.UnreachableError](err); !ok || !u.Sent {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = c.Ask(t.Context(), "t", "m", "id", api.NewQuestion{NewMessage: api.NewMessage{Text: "x"}})
	dead("asking", err)
	_, err = c.Wait(t.Context(), "t", api.Occasion{For: api.ForReply})
	dead("waiting", err)
	var all []string
	for line, err := range c.Transcript(t.Context(), "t", "m", api.TranscriptQuery{}) {
		if err != nil {
			dead("a transcript", err)
			continue
		}
		all = append(all, string(line))
	}
	if len(all) != 1 || all[0] != `{"id":"e1"}` {
		t.Errorf("the transcript has %q", all)
	}
}
