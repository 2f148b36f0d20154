package server

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"teambridge/status/api"
	"teambridge/status/bridge"
)

// An answer has a limit in bytes as well as in messages, and the client goes on as after any
// page. A message that is larger by itself is there, alone.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rows = 60
	var all []string
	for n := range rows {
		size := 100 << 10
		if n == rows/2 {
			size = 2 * bridge.AnswerBytes
		}
		all = append(all, fmt.Sprintf(`{"from":"worker","text":"%d %s","timestamp":"2026-11-20T17:48:11.432Z","read":false}`, n, strings.Repeat("x", size)))
	}
	if err := os.WriteFile(w.Inbox(older, "user").Path(), []byte("["+strings.Join(all, ",")+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start(t).end(t) // it has recorded what is there before it serves
	r := w.start(t)
	for _, test := range []struct {
		direction string
		html      bool
	}{{"before", true}, {"after", false}} {
		seen, pages, from := map[string]bool{}, 0, int64(0)
		for more := true; more; pages++ {
			path := fmt.Sprintf("/v1/teams/%s/messages?inbox=user&limit=500&html=%t", older, test.html)
			if pages > 0 || test.direction == "after" {
				path += fmt.Sprintf("&%s=%d", test.direction, from)
			}
			a := r.ask(t, "GET", path, "")
			page := of[api.Page](t, a, http.StatusOK)
			if more = page.More; len(page.Messages) == 0 {
				t.Fatalf("%s: nothing in a page, although there was more", path)
			}
			if len(a.body) > bridge.AnswerBytes+1<<20 && len(page.Messages) > 1 {
				t.Errorf("%s: %d bytes for %d messages", path, len(a.body), len(page.Messages))
			}
			for _, m := range page.Messages {
				number, _, _ := strings.Cut(m.Text, " ")
				if seen[number] {
					t.Errorf("%s: message %s again", path, number)
				}
				seen[number] = true
			}
			from = page.Messages[0].Seq
			if test.direction == "after" {
				from = page.Messages[len(page.Messages)-1].Seq
			}
		}
		if len(seen) != rows || pages < 3 {
			t.Errorf("%s, html %t: %d messages in %d pages, want %d", test.direction, test.html, len(seen), pages, rows)
		}
	}
}
