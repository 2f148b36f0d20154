package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/teams/errtest"
	"teambridge/teams/lockedfile"
)

var must = errtest.Must

// The request to each service is as the service documents it.
func TestRequests(t *testing.T) {
	t.Parallel()
	const said = "worker@t: asks you a question"
	for kind, want := range map[string]struct {
		path, auth string
		body       any
	}{
		Ntfy:     {"/", "Bearer tk_" + secret, map[string]any{"topic": secret, "title": said, "message": where}},
		Slack:    {"/services/T0/B0/" + secret, "", map[string]any{"text": said + "\n" + where, "mrkdwn": false}},
		Telegram: {"/bot42:" + secret + "/sendMessage", "", map[string]any{"chat_id": "-1001", "text": said + "\n" + where, "link_preview_options": map[string]any{"is_disabled": true}}},
		Webhook: {"/hook?key=" + secret, "Bearer " + secret, map[string]any{
			"title": said, "text": said + "\n" + where, "more": 0.0,
			"things": []any{map[string]any{"id": "question/t/worker/1", "kind": "question", "team": "t", "member": "worker"}},
		}},
		own: {"/hook", "", map[string]any{"text": said + "\n" + where, "part": secret[:4], "key": secret}},
	} {
		bubble(t, kind, func(t *testing.T) {
			w := newWorld(t, kind)
			w.begun()
			w.waits(question("1"))
			if err := w.closed(); err != nil {
				t.Error(err)
			}
			all := w.requests()
			if len(all) != 1 {
				t.Fatalf("%d requests", len(all))
			}
			r := all[0]
			var body any
			must(t, json.Unmarshal([]byte(r.body), &body))
			if got, want := fmt.Sprint(body), fmt.Sprint(want.body); got != want {
				t.Errorf("body\n%s\nwant\n%s", got, want)
			}
			if r.method != "POST" || r.path != want.path || r.host != "127.0.0.1" {
				t.Errorf("%s %s at %s", r.method, r.path, r.host)
			}
			r.header.Del("Accept-Encoding")
			r.header.Del("Content-Length")
			wantHeader := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"teambridge"}, "Connection": {"close"}}
			if want.auth != "" {
				wantHeader.Set("Authorization", want.auth)
			}
			if got, want := fmt.Sprint(r.header), fmt.Sprint(wantHeader); got != want {
				t.Errorf("header %s, want %s", got, want)
			}
		})
	}
}

// Texts of agents are not in an alert, unless that was requested.
func TestTextIsNotTold(t *testing.T) {
	t.Parallel()
	for kind := range addresses {
		bubble(t, kind, func(t *testing.T) {
			w := newWorld(t, kind)
			w.begun()
			secretly := question("1")
			secretly.Question = &api.Question{Tool: "Bash", Input: json.RawMessage(`{"command":"the private text"}`)}
			w.waits(secretly)
			_ = w.closed()
			w.opts.Text = func(_ context.Context, w api.Attention) string { return w.What }
			w.begin()
			w.waits(secretly, question("2"))
			_ = w.closed()
			all := w.requests()
			if len(all) != 2 {
				t.Fatalf("%d requests", len(all))
			}
			if strings.Contains(all[0].body, "private") || strings.Contains(all[0].body, "Bash") {
				t.Errorf("it tells %s", all[0].body)
			}
			if text := all[1].text(t); text != "worker@t: asks you a question\nthe private text\n"+where {
				t.Errorf("asked for the text, it tells %s", all[1].body)
			}
		})
	}
}

// Names and texts cannot add headers, lines, or markup, and are bounded.
func TestHostile(t *testing.T) {
	t.Parallel()
	list := []api.Attention{
		{ID: "1", Kind: api.WaitsUnread, Team: "t", Member: "operator", From: "x\r\nAuthorization: Bearer stolen\r\n\r\nGET / HTTP/1.1", Count: 2, Message: "1"},
		{ID: "2", Kind: api.WaitsQuestion, Team: "東京", Member: "größe-🗼", What: "<!channel> & <@U1> *b* \x1b[31m\u202e" + strings.Repeat("長い<&>", 500_000)},
		{ID: "3", Kind: "later", Team: "t", Member: "w"},
	}
	for i := range 500 {
		list = append(list, api.Attention{ID: fmt.Sprint("more", i), Kind: api.WaitsDone, Team: strings.Repeat("t", 1000), Member: strings.Repeat("ü", 1000), What: strings.Repeat("\x00", 100_000)})
	}
	for kind := range addresses {
		bubble(t, kind, func(t *testing.T) {
			w := newWorld(t, kind)
			w.opts.Text = func(_ context.Context, w api.Attention) string { return w.What }
			w.begun()
			w.waits(list...)
			w.a.Update(list[:1])
			w.a.Update(append(list[:1:1], api.Attention{ID: "alone", Kind: api.WaitsQuestion, Team: "t", Member: "größe", What: list[1].What}))
			w.pass(time.Minute)
			if err := w.closed(); err != nil {
				t.Error(err)
			}
			all := w.requests()
			if len(all) != 2 {
				t.Fatalf("%d requests", len(all))
			}
			for i, r := range all {
				text := r.text(t)
				if kind == Slack && strings.ContainsAny(text, "<>") {
					t.Errorf("markup in %q", text)
				}
				if kind == Slack || kind == Webhook {
					text = strings.ReplaceAll(html.UnescapeString(text), "@\u200b", "@")
				}
				if len(text) > 4000 || len(r.body) > 16<<10 {
					t.Errorf("%d bytes in a body of %d", len(text), len(r.body))
				}
				if auth := r.header.Get("Authorization"); strings.Contains(auth, "stolen") || len(r.header) > 6 {
					t.Errorf("headers: %v", r.header)
				}
				if strings.ContainsAny(text, "\r\x1b\x00\u202e") {
					t.Errorf("%q has characters that control", text)
				}
				if i == 0 {
					for _, want := range []string{"503 things need you\n", "x Authorization: Bearer stolen GET / HTTP/1.1@t: 2 unread messages to you\n", "größe-🗼@東京: asks you a question: ", "w@t: needs you\n", "more\n" + where} {
						if !strings.Contains(text, want) {
							t.Errorf("no %q in\n%s", want, text)
						}
					}
				} else if !strings.HasPrefix(text, "größe@t: asks you a question") || !strings.Contains(text, "…\n"+where) {
					t.Errorf("the alert of one long text:\n%s", text)
				}
			}
		})
	}
}

// Servers show a text as it is: without markup, links with other words, or mentions.
func TestMarkup(t *testing.T) {
	t.Parallel()
	const hostile = "@channel @here <!channel> *b* _i_ ~s~ `c` [log in](https://evil.example/) <https://evil.example/|log in> ![i](x) a_b me@example.org x/@@all \\*"
	for kind, want := range map[string]string{
		Slack: "@channel @here &lt;!channel&gt; *b* _i_ ~s~ `c` [log in](https://evil.example/) &lt;https://evil.example/|log in&gt; ![i](x) a_b me@example.org x/@@all \\*",
		Webhook: "@\u200bchannel @\u200bhere &lt;\\!channel&gt; \\*b\\* \\_i\\_ \\~s\\~ \\`c\\` \\[log in\\]\\(https://evil.example/\\) &lt;https://evil.example/\\|log in&gt; " +
			"\\!\\[i\\]\\(x\\) a\\_b me@example.org x/@@\u200ball \\\\\\*",
	} {
		bubble(t, kind, func(t *testing.T) {
			w := newWorld(t, kind)
			w.opts.Text = func(context.Context, api.Attention) string { return hostile }
			w.begun()
			w.waits(question("1"))
			if err := w.closed(); err != nil {
				t.Error(err)
			}
			all := w.requests()
			if len(all) != 1 {
				t.Fatalf("%d requests", len(all))
			}
			var body struct {
				Text   string
				Mrkdwn *bool
				Things []struct{ Text string }
			}
			must(t, json.Unmarshal([]byte(all[0].body), &body))
			if !strings.Contains(body.Text, want+"\n") {
				t.Errorf("the text is %q, want %q in it", body.Text, want)
			}
			if kind == Slack && (body.Mrkdwn == nil || *body.Mrkdwn) {
				t.Errorf("markup is on: %s", all[0].body)
			}
			if kind == Webhook && (len(body.Things) != 1 || body.Things[0].Text != hostile) {
				t.Errorf("the things are %+v", body.Things)
			}
		})
	}
}

// An alert is sent again to a busy or failing server, and not before the time that it names.
func TestTriedAgain(t *testing.T) {
	t.Parallel()
	header := func(status int, retry string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if retry != "" {
				w.Header().Set("Retry-After", retry)
			}
			w.WriteHeader(status)
		}
	}
	for name, c := range map[string]struct {
		kind        string
		answer      func(http.ResponseWriter)
		least, most time.Duration
	}{
		"429 with seconds": {Slack, header(429, "30"), 30 * time.Second, 31 * time.Second},
		"429 with a date": {Slack, func(w http.ResponseWriter) {
			header(429, time.Now().Add(90*time.Second).UTC().Format(http.TimeFormat))(w)
		}, 89 * time.Second, 91 * time.Second},
		"429 with nonsense":          {Slack, header(429, "soon"), time.Second / 2, time.Second},
		"429 for ever":               {Slack, header(429, "Fri, 31 Dec 9999 23:59:59 GMT"), time.Hour, time.Hour + time.Minute},
		"429 with an enormous value": {Slack, header(429, "9223372036854775807"), time.Hour, time.Hour + time.Minute},
		"429 with a negative one":    {Slack, header(429, "-5"), time.Second / 2, time.Second},
		"503":                        {Ntfy, header(503, ""), time.Second / 2, time.Second},
		"503 with seconds":           {Webhook, header(503, "120"), 2 * time.Minute, 2*time.Minute + time.Second},
		"500":                        {Webhook, header(500, ""), time.Second / 2, time.Second},
		"408":                        {Webhook, header(408, ""), time.Second / 2, time.Second},
		"an answer that is cut off":  {Webhook, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, time.Second / 2, time.Second},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, c.kind)
			w.begun()
			w.answer = func(n int, r http.ResponseWriter, _ *http.Request) {
				if n == 0 {
					c.answer(r)
				}
			}
			w.a.Update([]api.Attention{question("1")})
			w.pass(2 * time.Hour)
			all := w.requests()
			if len(all) != 2 || all[0].body != all[1].body {
				t.Fatalf("%d requests", len(all))
			}
			if waited := all[1].after - all[0].after; waited < c.least || waited > c.most {
				t.Errorf("sent again after %s, want %s to %s", waited, c.least, c.most)
			}
			if err := w.closed(); err != nil {
				t.Error(err)
			}
			if len(w.warned) != 1 || len(w.noted) != 1 {
				t.Errorf("warned %q, noted %q", w.warned, w.noted)
			}
		})
	}
}

// A refused alert is reported, and not sent again; a new one is tried.
func TestRefused(t *testing.T) {
	t.Parallel()
	for kind, c := range map[string]struct {
		status int
		body   string
		why    string
	}{
		Ntfy:     {403, `{"code":40301,"http":403,"error":"forbidden"}`, `refused: 403 Forbidden: {"code":40301,"http":403,"error":"forbidden"}`},
		Slack:    {404, "channel_not_found", "refused: 404 Not Found: channel_not_found"},
		Telegram: {400, `{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`, `refused: 400 Bad Request: {"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`},
		Webhook:  {302, "", "refused: 302 Found; redirects are not followed"},
	} {
		bubble(t, kind, func(t *testing.T) {
			w := newWorld(t, kind)
			w.begun()
			w.answer = func(_ int, r http.ResponseWriter, _ *http.Request) {
				r.Header().Set("Location", "http://127.0.0.1/elsewhere")
				r.WriteHeader(c.status)
				_, _ = io.WriteString(r, c.body)
			}
			w.a.Update([]api.Attention{question("1")})
			w.pass(24 * time.Hour)
			if n := len(w.requests()); n != 1 || w.requests()[0].path == "/elsewhere" {
				t.Errorf("%d requests, to %s", n, w.requests()[0].path)
			}
			if len(w.warned) != 1 || !strings.Contains(w.warned[0], c.why) {
				t.Errorf("warned %q", w.warned)
			}
			w.a.Update([]api.Attention{question("1"), question("2")})
			w.pass(24 * time.Hour)
			if n := len(w.requests()); n != 2 {
				t.Errorf("%d requests after something new", n)
			}
			records, err := Records(w.opts.State)
			if err != nil || len(records) != 1 || !records[0].Running || records[0].Problem == nil || !records[0].Problem.Refused || records[0].Problem.Why != c.why {
				t.Errorf("recorded %+v, %v", records, err)
			}
			if err := w.closed(); err == nil || !strings.HasSuffix(err.Error(), ": worker@t: asks you a question, worker@t: asks you a question: "+c.why) {
				t.Errorf("the error is %v", err)
			}
			// Once the fault is fixed, the next process sends both.
			w.answer = nil
			w.begin()
			w.waits(question("1"), question("2"))
			if err := w.closed(); err != nil || len(w.requests()) != 3 {
				t.Errorf("%d requests, %v", len(w.requests()), err)
			}
		})
	}
}

// While a server is away, items are kept. When it is back, those that still wait are sent in one alert.
func TestAway(t *testing.T) {
	t.Parallel()
	bubble(t, "back", func(t *testing.T) {
		w := newWorld(t, Ntfy)
		w.begun()
		w.isAway(true)
		w.a.Update([]api.Attention{question("1"), question("over")})
		w.pass(3 * time.Hour)
		if len(w.warned) != 1 || !strings.Contains(w.warned[0], errAway.Error()) {
			t.Errorf("warned %q", w.warned)
		}
		w.a.Update([]api.Attention{question("1"), unread("1", 1)})
		w.pass(time.Hour)
		w.isAway(false)
		w.pass(mostWait + time.Second)
		all := w.requests()
		if len(all) != 1 || !strings.HasPrefix(all[0].text(t), "2 things need you\nworker@t: asks you a question\nlead@t: 1 unread message to you\n") {
			t.Fatalf("%+v", all)
		}
		if err := w.closed(); err != nil || len(w.noted) != 1 {
			t.Errorf("%v, noted %q", err, w.noted)
		}
	})
	bubble(t, "over", func(t *testing.T) {
		w := newWorld(t, Ntfy)
		w.begun()
		w.isAway(true)
		w.a.Update([]api.Attention{question("1")})
		w.pass(time.Hour)
		w.a.Update(nil)
		w.pass(time.Hour)
		w.isAway(false)
		w.pass(time.Hour)
		if err := w.closed(); err != nil || len(w.requests()) != 0 {
			t.Errorf("%d requests, %v", len(w.requests()), err)
		}
	})
	bubble(t, "busy", func(t *testing.T) {
		w := newWorld(t, Ntfy)
		w.begun()
		w.answer = func(_ int, r http.ResponseWriter, _ *http.Request) { r.WriteHeader(503) }
		w.a.Update([]api.Attention{question("1")})
		w.pass(3 * time.Hour)
		if n := len(w.requests()); n < 36 || n > 90 {
			t.Errorf("it was asked %d times in 3 h, want about every %s", n, mostWait)
		}
		if err := w.closed(); err == nil {
			t.Error("nothing is said of what was not delivered")
		}
	})
	bubble(t, "silent", func(t *testing.T) {
		w := newWorld(t, Webhook)
		w.begun()
		w.answer = func(n int, _ http.ResponseWriter, r *http.Request) {
			if n == 0 {
				<-r.Context().Done()
			}
		}
		w.a.Update([]api.Attention{question("1")})
		w.pass(patience + 5*time.Second)
		if err := w.closed(); err != nil || len(w.requests()) != 2 || !strings.HasSuffix(w.warned[0], ": no answer within 30s") {
			t.Errorf("%d requests, %v, warned %q", len(w.requests()), err, w.warned)
		}
	})
}

// Each item is sent once, by however many processes, and an item that came while none ran is sent by the next.
func TestOnce(t *testing.T) {
	t.Parallel()
	bubble(t, "processes", func(t *testing.T) {
		w := newWorld(t, Webhook)
		w.begun(question("before"))
		told := 0
		for i := range 5 {
			list := []api.Attention{question("before")}
			for n := range i + 1 {
				list = append(list, question(fmt.Sprint(n)))
			}
			for range 3 {
				w.waits(list...)
			}
			if told++; len(w.requests()) != told {
				t.Fatalf("%d requests for %d things", len(w.requests()), told)
			}
			if err := w.closed(); err != nil { // an end records nothing
				t.Fatal(err)
			}
			w.begin()
		}
		_ = w.closed()
	})
	bubble(t, "messages", func(t *testing.T) {
		w := newWorld(t, Webhook)
		w.begun()
		for i, c := range []struct {
			is   api.Attention
			told int
		}{{unread("1", 1), 1}, {unread("2", 2), 2}, {unread("2", 2), 2}, {unread("2", 1), 2}, {unread("3", 1), 3}} {
			w.waits(c.is)
			if n := len(w.requests()); n != c.told {
				t.Errorf("step %d: %d alerts, want %d", i, n, c.told)
			}
		}
		_ = w.closed()
	})
	bubble(t, "the first of them is read", func(t *testing.T) {
		w := newWorld(t, Webhook)
		w.begun()
		w.waits(unread("2", 2))
		later, last := unread("2", 1), unread("4", 1)
		later.ID, last.ID = "unread/t/operator/lead/2", "unread/t/operator/lead/4"
		for i, c := range []struct {
			is   api.Attention
			told int
		}{{later, 1}, {later, 1}, {last, 2}} {
			w.waits(c.is)
			if n := len(w.requests()); n != c.told {
				t.Errorf("step %d: %d alerts, want %d", i, n, c.told)
			}
		}
		_ = w.closed()
	})
	bubble(t, "while one is sent", func(t *testing.T) {
		w := newWorld(t, Webhook)
		w.begun()
		w.answer = func(n int, _ http.ResponseWriter, _ *http.Request) {
			if n == 0 {
				w.a.Update([]api.Attention{unread("2", 2)})
			}
		}
		w.waits(unread("1", 1))
		all := w.requests()
		if err := w.closed(); err != nil || len(all) != 2 || !strings.Contains(all[1].body, "2 unread messages") {
			t.Errorf("%+v, %v", all, err)
		}
	})
	bubble(t, "another process", func(t *testing.T) {
		w := newWorld(t, Webhook)
		w.begun()
		if _, err := Open(w.opts); !errors.Is(err, lockedfile.ErrLocked) {
			t.Errorf("got %v", err)
		}
		other := w.opts
		other.Team = "t"
		a, err := Open(other)
		must(t, err)
		_ = a.release()
		_ = w.closed()
	})
}

// The first alert ever says that alerts begin, and how many items wait.
func TestFirst(t *testing.T) {
	t.Parallel()
	bubble(t, "away", func(t *testing.T) {
		w := newWorld(t, Ntfy)
		w.isAway(true)
		w.begin()
		w.waits(question("1"), question("2"))
		if err := w.closed(); err == nil || !strings.HasSuffix(err.Error(), "the first alert: "+errAway.Error()) {
			t.Errorf("the error is %v", err)
		}
		w.begin()
		w.waits(question("1"), question("2"), question("3"))
		w.a.Update([]api.Attention{question("1"), question("2"), question("3"), question("4")})
		w.isAway(false)
		w.pass(mostWait)
		all := w.requests()
		if err := w.closed(); err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		want := "teambridge alerts begin\nFrom now on, what needs you is sent here. Already waiting: 3.\nworker@t: asks you a question\n" + where
		if got := all[0].text(t); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
	bubble(t, "refused", func(t *testing.T) {
		w := newWorld(t, Ntfy)
		w.answer = func(_ int, r http.ResponseWriter, _ *http.Request) { r.WriteHeader(403) }
		w.begin()
		w.waits()
		w.waits()
		if n := len(w.requests()); n != 1 || len(w.warned) != 1 {
			t.Errorf("%d requests, warned %q", n, w.warned)
		}
		w.waits(question("1"))
		if err := w.closed(); err == nil || len(w.requests()) != 2 {
			t.Errorf("%d requests after something new, %v", len(w.requests()), err)
		}
	})
}

// At the end, an alert that is being sent has some time left.
func TestEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		takes time.Duration
		told  bool
	}{{"answered", 2 * time.Second, true}, {"silent", time.Hour, false}} {
		bubble(t, c.name, func(t *testing.T) {
			w := newWorld(t, Webhook)
			w.begun()
			w.answer = func(_ int, _ http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
				case <-time.After(c.takes):
				}
			}
			w.a.Update([]api.Attention{question("1")})
			w.pass(time.Second + time.Millisecond)
			start := time.Now()
			err := w.closed()
			if took := time.Since(start); took > afterEnd {
				t.Errorf("the end took %s", took)
			}
			if told := err == nil; told != c.told {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// No part of an address is printed or recorded, even if a server repeats it.
func TestAddressIsNotTold(t *testing.T) {
	t.Parallel()
	for kind := range addresses {
		for _, status := range []int{401, 500, 0} {
			bubble(t, fmt.Sprint(kind, status), func(t *testing.T) {
				w := newWorld(t, kind)
				w.answer = func(_ int, r http.ResponseWriter, q *http.Request) {
					if status == 0 { // an error of net/http repeats an answer that is no HTTP
						conn, _, err := http.NewResponseController(r).Hijack()
						if err != nil {
							t.Error(err)
							return
						}
						defer conn.Close()
						fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", secret)
						return
					}
					r.WriteHeader(status)
					fmt.Fprint(r, "no ", q.RequestURI, " ", q.Header, " ", secret, addresses[kind])
				}
				w.begin()
				w.waits()
				w.isAway(true)
				w.waits(question("1"))
				all := append(slices.Clone(w.warned), w.closed().Error())
				files, err := filepath.Glob(filepath.Join(w.opts.State, "alerts", "*"))
				if err != nil || len(files) != 1 {
					t.Fatal(files, err)
				}
				data, err := os.ReadFile(files[0])
				must(t, err)
				for _, s := range append(all, string(data), files[0]) {
					if strings.Contains(s, secret[4:]) { // the rest of a cut one
						t.Errorf("told: %s", s)
					}
				}
			})
		}
	}
}

// The file is read for each alert, so that a new token counts at once, and an unreadable file is reported.
func TestFileChanges(t *testing.T) {
	t.Parallel()
	bubble(t, "token", func(t *testing.T) {
		w := newWorld(t, Webhook)
		w.begun()
		must(t, os.Remove(w.opts.To.File))
		w.a.Update([]api.Attention{question("1")})
		w.pass(time.Hour)
		if len(w.warned) != 1 || !strings.Contains(w.warned[0], "webhook ("+w.opts.To.File+"): ") {
			t.Errorf("warned %q", w.warned)
		}
		must(t, os.WriteFile(w.opts.To.File, []byte("http://localhost/new another"), 0o600))
		w.pass(mostWait)
		all := w.requests()
		if err := w.closed(); err != nil || len(all) != 1 || all[0].path != "/new" || all[0].header.Get("Authorization") != "Bearer another" {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// The oldest items that no longer wait are removed from the record; waiting ones are not.
func TestForgotten(t *testing.T) {
	t.Parallel()
	bubble(t, "many", func(t *testing.T) {
		w := newWorld(t, Webhook)
		many := []api.Attention{question("kept")}
		for i := range keepMost + 500 {
			many = append(many, question(fmt.Sprint(i)))
		}
		w.begun(many...)
		w.waits(question("kept"), question("new"))
		must(t, w.closed())
		records, err := Records(w.opts.State)
		if err != nil || len(records) != 1 || records[0].Running {
			t.Fatalf("%+v, %v", records, err)
		}
		for _, q := range []api.Attention{question("kept"), question("new")} {
			if _, known := records[0].Told[q.ID]; !known {
				t.Errorf("%s is forgotten", q.ID)
			}
		}
		if n := len(records[0].Told); n != keepMost+2 {
			t.Errorf("%d are known, want %d", n, keepMost+2)
		}
	})
}
