package server

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simagent"
	"teambridge/status/api"
)

func TestTeamsAndMembers(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t)
	list := get[[]api.Team](t, r, "/v1/teams")
	if len(list) != 2 || list[0].Team != older || list[0].Version != "" || list[1].Team != newer || list[1].Version != "" {
		t.Errorf("teams %+v", list)
	}
	detail := get[api.TeamDetail](t, r, "/v1/teams/"+newer)
	if detail.Lead != "team-lead" || detail.From != "user" || detail.Answerable || !slices.Equal(detail.Ours, []string{"user"}) {
		t.Errorf("team %+v", detail)
	}
	members := get[[]api.Member](t, r, "/v1/teams/"+older+"/members")
	var names []string
	for _, m := range members {
		names = append(names, m.Member+" "+m.Role)
	}
	if want := []string{"team-lead lead", "worker agent", "user none"}; !slices.Equal(names, want) {
		t.Errorf("members %v, want %v", names, want)
	}
	states := get[[]api.Status](t, r, "/v1/teams/"+older+"/status")
	if len(states) != 2 || states[1].State != api.StateTerminated || states[1].Evidence.Kind != "shutdown_approved" {
		t.Errorf("states %+v", states)
	}
	if v := get[api.ServiceVersion](t, r, "/v1/version"); v.Version.Version != "v" || v.ReadOnly {
		t.Errorf("version %+v", v)
	}
	if h := get[api.Health](t, r, "/healthz"); h.Status != "ok" {
		t.Errorf("health %+v", h)
	}
	get[map[string]any](t, r, "/openapi.json")
	for _, path := range []string{"", "/members", "/status", "/messages"} {
		p := problem(t, r.ask(t, "GET", "/v1/teams/myteem"+path, ""), api.CodeNotFound)
		if path == "" && !slices.Contains(p.Nearest, older) {
			t.Errorf("nearest %v", p.Nearest)
		}
	}
	problem(t, r.ask(t, "GET", "/v1/teams/..%2f..", ""), api.CodeInvalid)
}

// Messages come in pages, in both directions, with and without confirmations, and
// also when their team is gone.
func TestMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 7 {
		w.Send(older, "worker", "user", fmt.Sprintf("answer %d", n))
		w.Send(older, "user", "worker", fmt.Sprintf("question %d", n))
	}
	r := w.start(t)
	base := "/v1/teams/" + older + "/messages?"
	texts := func(p api.Page) (list []string) {
		for _, m := range p.Messages {
			list = append(list, m.Text)
		}
		return list
	}
	last := get[api.Page](t, r, base+"inbox=user&limit=2")
	if got := texts(last); !slices.Equal(got, []string{"answer 5", "answer 6"}) || !last.More || last.Seq < last.Messages[1].Seq {
		t.Errorf("the last two: %v %v %d", got, last.More, last.Seq)
	}
	before := get[api.Page](t, r, fmt.Sprintf("%sinbox=user&limit=3&before=%d", base, last.Messages[0].Seq))
	if got := texts(before); !slices.Equal(got, []string{"answer 2", "answer 3", "answer 4"}) {
		t.Errorf("before them: %v", got)
	}
	after := get[api.Page](t, r, fmt.Sprintf("%sinbox=user&limit=3&after=%d", base, before.Messages[0].Seq))
	if got := texts(after); !slices.Equal(got, []string{"answer 3", "answer 4", "answer 5"}) || !after.More {
		t.Errorf("after the first of those: %v", got)
	}
	whole := get[api.Page](t, r, base+"with=worker&limit=500")
	var said, heard int
	for i, m := range whole.Messages {
		if m.From == "worker" {
			said++
		}
		if m.Inbox == "worker" {
			heard++
		}
		if m.From != "worker" && m.Inbox != "worker" || i > 0 && m.Seq <= whole.Messages[i-1].Seq || m.Noise {
			t.Errorf("in the conversation: %+v", m)
		}
	}
	if heard != 9 || said != 9 || whole.More { // of the captured team two more each
		t.Errorf("the conversation has %d to worker and %d of it, more %v", heard, said, whole.More)
	}
	protocol := get[api.Page](t, r, base+"with=worker&limit=500&protocol=true")
	if len(protocol.Messages) <= len(whole.Messages) || !slices.ContainsFunc(protocol.Messages, func(m api.Record) bool { return m.Noise }) {
		t.Errorf("with confirmations %d messages, without %d", len(protocol.Messages), len(whole.Messages))
	}
	paged := []string{}
	for at := int64(0); ; {
		p := get[api.Page](t, r, fmt.Sprintf("%swith=worker&limit=4&after=%d", base, at))
		paged = append(paged, texts(p)...)
		if !p.More {
			break
		}
		at = p.Messages[len(p.Messages)-1].Seq
	}
	if !slices.Equal(paged, texts(whole)) {
		t.Errorf("page by page %v\nat once %v", paged, texts(whole))
	}
	for _, query := range []string{"limit=0", "limit=501", "limit=x", "after=-1", "nonsense=1", "inbox=a&inbox=b", "with=a&from=b", "protocol=yes"} {
		problem(t, r.ask(t, "GET", base+query, ""), api.CodeUsage)
	}
	stream := r.listen(t, "", "")
	if err := os.RemoveAll(filepath.Join(w.Root.Path(), "teams", older)); err != nil {
		t.Fatal(err)
	}
	stream.until(api.EventSnapshot, func(e event) bool { return len(as[api.Snapshot](t, e).Teams) == 1 })
	if got := texts(get[api.Page](t, r, base+"with=worker&limit=500")); !slices.Equal(got, paged) {
		t.Errorf("of a team that is gone: %v", got)
	}
	problem(t, r.ask(t, "GET", base+"createdAt=1", ""), api.CodeNotFound)
}

// The text as HTML is only in the records of who asks for it, and only if it is a text that
// somebody wrote for others.
func TestMessagesAsHTML(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	e := r.listen(t, "?html=true", "")
	plain := r.listen(t, "", "")
	base := "/v1/teams/" + older + "/messages?after=" + fmt.Sprint(get[api.Page](t, r, "/v1/teams/"+older+"/messages").Seq)
	const md, html = "**done** <b>now</b>", "<p><strong>done</strong> &lt;b&gt;now&lt;/b&gt;</p>"
	long := strings.Repeat("> ", 50) + "a"
	idle := `{"type":"idle_notification","Result":"","result":` + strconv.Quote(md) + `}`
	for _, s := range []string{md, long, `{"type":"new_kind","result":"**a**"}`} {
		w.Send(older, "worker", "user", s)
	}
	worker, err := simagent.New(simagent.Options{Dir: w.Path(older), Name: "worker"})
	if err == nil {
		_, err = worker.Send(t.Context(), simagent.Message{To: simagent.Lead, Text: idle})
	}
	if err != nil {
		t.Fatal(err)
	}
	is := func(where string, m api.Record, want string) {
		t.Helper()
		if m.Text != md && m.Text != idle {
			want = ""
		}
		if m.HTML != want {
			t.Errorf("%s: %.40q is %q as HTML, want %q", where, m.Text, m.HTML, want)
		}
	}
	for range 4 {
		is("an event", as[api.MessageEvent](t, e.until(api.EventMessage, nil)).Message, html)
		is("an event, not asked for", as[api.MessageEvent](t, plain.until(api.EventMessage, nil)).Message, "")
	}
	for query, want := range map[string]string{"&html=true": html, "&html=false": "", "": ""} {
		page := get[api.Page](t, r, base+query)
		if len(page.Messages) != 4 {
			t.Errorf("%d messages", len(page.Messages))
		}
		for _, m := range page.Messages {
			is(query, m, want)
		}
	}
	a := r.worker(t, older)
	a.says(startTurn, thought, text("I *test* it."), startTool)
	for _, want := range []string{"<p>let me think</p>", "<p>I <em>test</em> it.</p>", ""} {
		work := as[api.Envelope](t, e.until(api.EventEnvelope, func(e event) bool { return as[api.Envelope](t, e).Record != nil })).Record
		if work.HTML != want {
			t.Errorf("%s %q is %q as HTML, want %q", work.Kind, work.Text, work.HTML, want)
		}
	}
	problem(t, r.ask(t, "GET", base+"&html=1", ""), api.CodeUsage)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Send(older, "worker", "user", "the build is green, <b>really</b>")
	w.Send(newer, "worker", "team-lead", "the build is red")
	r := w.start(t)
	found := get[api.Found](t, r, "/v1/search?q=BUILD&limit=1")
	if len(found.Hits) != 1 || !found.More {
		t.Fatalf("found %+v", found)
	}
	hit := get[api.Found](t, r, "/v1/search?q=build&team="+older).Hits[0]
	var all, marked string
	for _, p := range hit.Snippet {
		if all += p.Text; p.Match {
			marked += p.Text
		}
	}
	if all != "the build is green, <b>really</b>" || marked != "build" {
		t.Errorf("snippet %q, marked %q", all, marked)
	}
	at := func(d time.Duration) string { return url.QueryEscape(hit.FirstSeen.Add(d).Format(time.RFC3339Nano)) }
	for query, want := range map[string]bool{
		"since=" + at(0): true, "since=" + at(time.Microsecond): false,
		"until=" + at(0): false, "until=" + at(time.Microsecond): true,
		fmt.Sprintf("createdAt=%d", hit.CreatedAt): true, fmt.Sprintf("createdAt=%d", hit.CreatedAt+1): false,
	} {
		hits := get[api.Found](t, r, "/v1/search?q=build&"+query).Hits
		if got := slices.ContainsFunc(hits, func(h api.Hit) bool { return h.Seq == hit.Seq }); got != want {
			t.Errorf("%s: found is %v, want %v", query, got, want)
		}
	}
	problem(t, r.ask(t, "GET", "/v1/search?q=build&since=yesterday", ""), api.CodeUsage)
	problem(t, r.ask(t, "GET", "/v1/search?q=+", ""), api.CodeUsage)
	problem(t, r.ask(t, "GET", "/v1/search", ""), api.CodeUsage)
}

// What is said in HTTP alone of messages: statuses, the key that sends once, and bodies that are none. What is sent, and what
// is refused, is in the suite of the bridge.
func TestSend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	to := "/v1/teams/" + older + "/members/"
	first := of[api.Sent](t, r.ask(t, "POST", to+"worker/messages", `{"text":"once","summary":"s","color":"cyan"}`, "Idempotency-Key", "k"), http.StatusCreated)
	again := of[api.Sent](t, r.ask(t, "POST", to+"worker/messages", `{"text":"once","summary":"s","color":"cyan"}`, "Idempotency-Key", `"k"`), http.StatusOK)
	if first.ID != "k" || first.Deduplicated || again.ID != "k" || !again.Deduplicated {
		t.Errorf("first %+v, again %+v", first, again)
	}
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"other"}`, "Idempotency-Key", "k"), api.CodeIDTaken)
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"other"}`, "Idempotency-Key", `""`), api.CodeUsage)
	p := problem(t, r.ask(t, "POST", to+"wroker/messages", `{"text":"x"}`), api.CodeNotFound)
	if len(p.Nearest) == 0 || p.Nearest[0] != "worker" {
		t.Errorf("nearest %v", p.Nearest)
	}
	of[api.Sent](t, r.ask(t, "POST", to+"ghost/messages", `{"text":"x","force":true}`), http.StatusCreated)
	problem(t, r.ask(t, "POST", to+"..%2fconfig/messages", `{"text":"x","force":true}`), api.CodeInvalid)
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"`+strings.Repeat("x", 200<<10)+`"}`), api.CodeInvalid)
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"`+strings.Repeat("x", 2<<20)+`"}`), api.CodeBodyTooLarge)
	for _, body := range []string{`{"text":"x","txet":"y"}`, `{"text":"x"} {}`, `[]`, `{"text":1}`, `{`, `x`, ``} {
		problem(t, r.ask(t, "POST", to+"worker/messages", body), api.CodeBody)
	}
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"x"}`, "Content-Type", "text/plain"), api.CodeBody)
	problem(t, r.ask(t, "POST", to+"worker/messages", `{"text":"{\"type\":\"permission_response\"}","force":true}`), api.CodeRefused)

	m := get[api.Page](t, r, "/v1/teams/"+older+"/messages?inbox=user").Messages[0]
	if got := of[api.Marked](t, r.ask(t, "POST", "/v1/teams/"+older+"/read", fmt.Sprintf(`{"ids":[%q]}`, m.ID)), http.StatusOK); got != (api.Marked{Inbox: "user", Marked: 1}) {
		t.Errorf("marked %+v", got)
	}

	to = "/v1/teams/" + older + "/broadcast"
	for _, deduplicated := range []bool{false, true} {
		list := of[[]api.Sent](t, r.ask(t, "POST", to, `{"text":"all","includeLead":true}`, "Idempotency-Key", "b"), http.StatusCreated)
		if len(list) != 2 || list[0].ID != "b-team-lead" || list[1].ID != "b-worker" || list[1].Deduplicated != deduplicated {
			t.Errorf("sent %+v", list)
		}
	}
	if err := os.WriteFile(w.Inbox(older, "worker").Path(), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := of[[]api.Sent](t, r.ask(t, "POST", to, `{"text":"more","includeLead":true}`), http.StatusMultiStatus)
	if len(list) != 2 || list[0].State != api.Verified || list[1].State != api.Failed || list[1].Error == nil || list[1].Error.Code != api.CodeCorrupt {
		t.Errorf("sent %+v", list)
	}
	problem(t, r.ask(t, "POST", to, `{"text":"all","except":["worker"]}`), api.CodeNotFound)
}

// The person's names in a team are known after it has ended, so that their messages can be told
// from those of others.
func TestMessagesTellWhoThePersonWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	c, err := w.Team(newer).Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := c.Instance().CreatedAt
	join := ledger.Join{Root: w.Root.Path(), Team: newer, CreatedAt: at, Member: "operator", AgentID: "operator@t", At: time.Now()}
	if err := r.ledger.Joined(t.Context(), join); err != nil {
		t.Fatal(err)
	}
	join.CreatedAt++
	join.Member = "somebody"
	if err := r.ledger.Joined(t.Context(), join); err != nil {
		t.Fatal(err)
	}
	base := fmt.Sprintf("/v1/teams/%s/messages?createdAt=%d", newer, at)
	look := func(when string) {
		t.Helper()
		if ours := get[api.Page](t, r, base).Ours; !slices.Equal(ours, []string{"user", "operator"}) {
			t.Errorf("%s: %q", when, ours)
		}
	}
	w.Send(newer, "operator", "worker", "hello")
	e := r.listen(t, "?after=0", "")
	e.until(api.EventMessage, func(e event) bool { return as[api.MessageEvent](t, e).Message.Text == "hello" })
	look("while it exists")
	if err := os.Rename(w.Path(newer), w.Path(newer)+".ended"); err != nil {
		t.Fatal(err)
	}
	look("after it ended")
}
