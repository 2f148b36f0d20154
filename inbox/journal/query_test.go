package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/teams"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	ann, red, later := look(t, 2, row("c", `"from":"kim"`)), look(t, 3, row("d")), look(t, 4, row("e", `"messageId":"id-e"`))
	ann.Inbox = "ann"
	red.Team = "red"
	later.CreatedAt++
	other := look(t, 5, row("f"))
	other.Root = "/other"
	observe(t, j, look(t, 1, row("a"), row("b")), ann, red, later, other)
	for _, test := range []struct {
		name string
		q    Query
		want string
	}{
		{"all", Query{}, "a b c d e f"},
		{"newest first", Query{Newest: true}, "f e d c b a"},
		{"limit", Query{Limit: 2}, "a b"},
		{"newest", Query{Limit: 2, Newest: true}, "f e"},
		{"root", Query{Root: root}, "a b c d e"},
		{"team", Query{Team: "blue"}, "a b c e f"},
		{"instance", Query{Root: root, Team: "blue", CreatedAt: blue().CreatedAt}, "a b c"},
		{"inbox", Query{Team: "blue", Inbox: "bob"}, "a b e f"},
		{"from", Query{From: "kim"}, "c"},
		{"id", Query{ID: "id-e"}, "e"},
		{"id that was made", Query{ID: (&file(t, row("d"))[0]).ID()}, "d"},
		{"after", Query{After: 4}, "e f"},
		{"before", Query{Before: 3}, "a b"},
		{"between, newest first", Query{After: 1, Before: 5, Newest: true}, "d c b"},
		{"since", Query{Since: at(3)}, "d e f"},
		{"until", Query{Until: at(3)}, "a b c"},
		{"nothing", Query{Team: "green"}, ""},
		{"hostile", Query{Team: "' OR 1=1 --"}, ""},
	} {
		if got := texts(messages(t, j, test.q)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestMessagesOverManyPages(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	const count = 2*pageSize + 17
	var rows, want []string
	for i := range count {
		rows = append(rows, row(fmt.Sprint(i)))
		want = append(want, fmt.Sprint(i))
	}
	observe(t, j, look(t, 1, rows...))
	if diff := cmp.Diff(strings.Join(want, " "), texts(messages(t, j, Query{}))); diff != "" {
		t.Error(diff)
	}
	for _, limit := range []int{1, pageSize, pageSize + 1, count, count + 1} {
		got := messages(t, j, Query{Limit: limit, Newest: true})
		if len(got) != min(limit, count) || got[0].Text != fmt.Sprint(count-1) || got[len(got)-1].Seq != int64(count-len(got)+1) {
			t.Errorf("limit %d: %d messages", limit, len(got))
		}
	}
	// The journal can be used inside the loop, and the loop can be left.
	n := 0
	for m, err := range j.Messages.All(t.Context(), Query{}) {
		must(t, err)
		if _, err := j.Last(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n++; m.Seq == pageSize+3 {
			break
		}
	}
	if n != pageSize+3 {
		t.Errorf("left after %d", n)
	}
}

func TestInboxes(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	ann, red, other := look(t, 2, row("c")), look(t, 3, row("d")), look(t, 5, row("f"))
	ann.Inbox = "ann"
	red.Team, red.CreatedAt = "red", 0
	other.Root = "/other"
	observe(t, j, look(t, 4, row("a")), ann, red, other)
	observe(t, j, Snapshot{InboxKey: inbox.Key(root, blue(), "ann"), Gone: true, At: at(9)})
	bob, redBob := inbox.Key(root, blue(), "bob"), inbox.Key(root, teams.Instance{Team: "red"}, "bob")
	known, err := j.Messages.Inboxes(t.Context(), Query{Root: root})
	must(t, err)
	if diff := cmp.Diff([]inbox.InboxKey{inbox.Key(root, blue(), "ann"), bob, redBob}, known); diff != "" {
		t.Errorf("inboxes (-want +got):\n%s", diff)
	}
	if got, err := j.Messages.Inboxes(t.Context(), Query{}); err != nil || len(got) != 4 || got[3].Root != "/other" {
		t.Errorf("of all roots: %v, %v", got, err)
	}
	occupied, err := j.Messages.Occupied(t.Context(), Query{Root: root})
	must(t, err)
	if diff := cmp.Diff([]inbox.InboxKey{bob, redBob}, occupied); diff != "" {
		t.Errorf("occupied (-want +got):\n%s", diff)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	raws := []string{
		"{\n    \"from\": \"ann\",\n    \"text\": \"a <b> & \u2028 c\",\n    \"n\": 1.50e+2,\n    \"n\": 0.0,\n    \"z\": \"\\ud800\\/\",\n    \"a\": [ 1 , 2 ]\n  }",
		`{"from":"ann","text":"plain","read":true}`,
		"{\"from\":\"ann\",\"text\":\"not \xff UTF-8\"}",
		`{"from":"ann","text":"🎉","deep":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
	}
	s := look(t, 1)
	for _, raw := range raws {
		rows, err := inbox.Parse([]byte("[" + raw + "]"))
		if err != nil || len(rows) != 1 {
			// An inbox file cannot have it; the journal keeps what it gets.
			rows = []inbox.Row{{From: "ann", Text: raw, Raw: json.RawMessage(raw)}}
		}
		s.Rows = append(s.Rows, rows...)
	}
	observe(t, j, s)
	observe(t, j, look(t, 2))

	var out bytes.Buffer
	must(t, j.Export(t.Context(), &out, Query{}))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != len(raws) {
		t.Fatalf("%d lines, want %d", len(lines), len(raws))
	}
	for i, text := range lines {
		var l line
		must(t, json.Unmarshal([]byte(text), &l))
		want := raws[i]
		if i == 2 {
			if string(l.RowBase64) != want || l.Row != nil {
				t.Errorf("line %d: %q, want the bytes %q", i, l.RowBase64, want)
			}
			continue
		}
		var compact bytes.Buffer
		must(t, json.Compact(&compact, []byte(want)))
		if !strings.Contains(text, `"row":`+compact.String()+"}") {
			t.Errorf("line %d: %.300s\nwant row %s", i, text, compact.String())
		}
		if l.Seq != int64(i+1) || l.Team != "blue" || l.CreatedAt != blue().CreatedAt || l.Inbox != "bob" || l.Root != root ||
			l.Kind != "message" || l.ID != s.Rows[i].ID() || l.Occurrence != 1 || !l.FirstSeen.Equal(at(1)) || !l.GoneAt.Equal(at(2)) || l.ReadAt.IsZero() == (i == 1) {
			t.Errorf("line %d: %+v", i, l)
		}
	}
	for i, m := range messages(t, j, Query{}) {
		if string(m.Raw) != raws[i] {
			t.Errorf("raw %d became %q", i, m.Raw)
		}
	}

	out.Reset()
	must(t, j.Export(t.Context(), &out, Query{After: 1, Limit: 1}))
	if !strings.HasPrefix(out.String(), `{"seq":2,`) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("exported %q", out.String())
	}
	wantError(t, j.Export(t.Context(), closed{}, Query{}), io.ErrClosedPipe)
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
