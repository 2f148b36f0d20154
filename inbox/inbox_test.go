package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/lockedfile"
)

// team is a team directory with one member, alice, in a root of its own.
type team struct {
	t      *testing.T
	root   string
	dir    string
	team   *teams.Team
	locker *lockedfile.Locker
}

const config = `{
  "name": "demo",
  "createdAt": 1795196213317,
  "leadAgentId": "team-lead@demo",
  "members": [
    {
      "agentId": "team-lead@demo",
      "name": "team-lead"
    },
    {
      "agentId": "alice@demo",
      "name": "alice"
    }
  ]
}`

var must = errtest.Must

func newTeam(t *testing.T) *team {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	tt := &team{t: t, root: filepath.Join(base, "claude"), locker: lockedfile.New(lockedfile.Options{Dir: filepath.Join(base, "state"), Hold: time.Minute})}
	tt.dir = filepath.Join(tt.root, "teams", "demo")
	must(t, os.MkdirAll(tt.dir, 0o755))
	must(t, os.WriteFile(filepath.Join(tt.dir, "config.json"), []byte(config), 0o600))
	root, err := teams.Open(tt.root)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	if tt.team, err = root.Team("demo"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tt.team.Close() })
	return tt
}

func (tt *team) inbox(name string) *Inbox {
	tt.t.Helper()
	b, err := Open(tt.team, name, tt.locker)
	must(tt.t, err)
	return b
}

func (tt *team) path(name string) string { return filepath.Join(tt.dir, "inboxes", name+".json") }

func (tt *team) write(name, content string) {
	tt.t.Helper()
	must(tt.t, os.MkdirAll(filepath.Join(tt.dir, "inboxes"), 0o755))
	must(tt.t, os.WriteFile(tt.path(name), []byte(content), 0o600))
}

func (tt *team) content(name string) string {
	tt.t.Helper()
	b, err := os.ReadFile(tt.path(name))
	must(tt.t, err)
	return string(b)
}

// memory is a Memory without a file, with a fault to inject.
type memory struct {
	mu    sync.Mutex
	sends map[SendKey]Send
	fail  error
	late  bool // another sender records that it wrote the message just before the next Intend
}

func (m *memory) Recall(_ context.Context, key SendKey) (Send, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.sends[key]
	return s, ok, m.fail
}

func (m *memory) Intend(_ context.Context, s Send) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sends == nil {
		m.sends = map[SendKey]Send{}
	}
	if m.late {
		s.State = SendWritten
		m.sends[s.SendKey] = s
		return errors.New("written before")
	}
	m.sends[s.SendKey] = s
	return m.fail
}

func (m *memory) Written(_ context.Context, key SendKey, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sends[key]
	s.State, s.At = SendWritten, at
	m.sends[key] = s
	return m.fail
}

func (m *memory) Withdraw(_ context.Context, key SendKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sends, key)
	return m.fail
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 5e6, time.UTC)

// The id of a row without one is the same as in other programs, by the vectors in testdata.
func TestIDVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../testdata/vectors/message-ids.json")
	must(t, err)
	var vectors []struct{ From, Timestamp, Text, ID, Note string }
	if err := json.Unmarshal(data, &vectors); err != nil || len(vectors) < 8 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		row := Row{From: v.From, Timestamp: v.Timestamp, Text: v.Text, Summary: "s", Read: true}
		if got := row.ID(); got != v.ID {
			t.Errorf("%q: id %s, want %s (%s)", v.Text, got, v.ID, v.Note)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	rows, err := Parse([]byte(`[null, 1, "x", [], {"from":"a","text":"lone \ud800 surrogate","timestamp":"2026-01-01T00:00:00.000Z","k":1.0},
		{"messageId":"  x  ","msg_id":"m","from":7,"read":"true"},
		{"messageId":" ","msg_id":"m","read":true,"from":"a","from":"b"}]`))
	must(t, err)
	var got []string
	for _, r := range rows {
		got = append(got, strings.Join([]string{r.From, r.Text, r.ID(), map[bool]string{true: "read"}[r.Read]}, "|"))
	}
	hashed := Row{From: "a", Text: "lone \ufffd surrogate", Timestamp: "2026-01-01T00:00:00.000Z"}
	want := []string{
		"a|lone \ufffd surrogate|" + hashed.ID() + "|",
		"||  x  |",
		"b||m|read",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if string(rows[0].Extra["k"]) != "1.0" {
		t.Errorf("extra: %v", rows[0].Extra)
	}
}

func TestKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hello":                        "message",
		`{"type":"idle_notification"}`: "idle_notification",
		` {"type":"brand_new"} `:       "brand_new",
		`{"type":1}`:                   "message",
		`{"type":""}`:                  "message",
		`{"type":"x"`:                  "message",
		`["type"]`:                     "message",
	} {
		if got := (&Row{Text: text}).Kind(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestAppendWritesOneRow(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b := tt.inbox("alice")
	r, err := b.Append(t.Context(), Message{ID: "one", From: "user", Text: "hello <&> \u2029", Summary: "greeting", Color: "blue", Time: noon}, AppendOptions{Memory: &memory{}})
	if err != nil || r.ID != "one" || r.Deduplicated {
		t.Fatalf("got %+v, %v", r, err)
	}
	want := `[
  {
    "from": "user",
    "text": "hello <&> \u2029",
    "summary": "greeting",
    "timestamp": "2026-11-20T12:00:00.005Z",
    "color": "blue",
    "msgV": 1,
    "msg_id": "` + msgID("one") + `",
    "type": "message",
    "read": false,
    "messageId": "one"
  }
]`
	if diff := cmp.Diff(want, tt.content("alice")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	rows, err := b.Read(t.Context())
	if err != nil || len(rows) != 1 || rows[0].ID() != "one" || rows[0].Text != "hello <&> \u2029" {
		t.Errorf("read back %+v, %v", rows, err)
	}
}

// A UUID is its own msg_id. A message without an id gets a new one.
func TestAppendChoosesAnID(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b := tt.inbox("alice")
	r, err := b.Append(t.Context(), Message{From: "user", Text: "x"}, AppendOptions{})
	if err != nil || len(r.ID) != 36 {
		t.Fatalf("got %+v, %v", r, err)
	}
	rows, err := b.Read(t.Context())
	if err != nil || rows[0].MsgID != r.ID || rows[0].MessageID != r.ID {
		t.Errorf("row %+v, %v", rows, err)
	}
	if at, ok := rows[0].Time(); !ok || time.Since(at) > time.Minute {
		t.Errorf("timestamp %q", rows[0].Timestamp)
	}
}

func TestAppendTwiceIsOnce(t *testing.T) {
	t.Parallel()
	m := Message{ID: "one", From: "user", Text: "hello"}
	for name, tc := range map[string]struct {
		before func(tt *team, mem *memory)
		m      Message
		opts   AppendOptions
		dedup  bool
		err    error
		rows   int
	}{
		"row still there":                 {before: func(*team, *memory) {}, m: m, dedup: true, rows: 1},
		"row taken by an agent":           {before: func(tt *team, _ *memory) { tt.write("alice", "[]") }, m: m, dedup: true, rows: 0},
		"other text":                      {before: func(*team, *memory) {}, m: Message{ID: "one", From: "user", Text: "other"}, err: ErrIDTaken, rows: 1},
		"other summary":                   {before: func(*team, *memory) {}, m: Message{ID: "one", From: "user", Text: "hello", Summary: "s"}, err: ErrIDTaken, rows: 1},
		"other color":                     {before: func(*team, *memory) {}, m: Message{ID: "one", From: "user", Text: "hello", Color: "red"}, err: ErrIDTaken, rows: 1},
		"other sender":                    {before: func(*team, *memory) {}, m: Message{ID: "one", From: "bob", Text: "hello"}, err: ErrIDTaken, rows: 1},
		"other text, taken":               {before: func(tt *team, _ *memory) { tt.write("alice", "[]") }, m: Message{ID: "one", From: "user", Text: "other"}, err: ErrIDTaken, rows: 0},
		"forced, other text":              {before: func(*team, *memory) {}, m: Message{ID: "one", From: "user", Text: "other"}, opts: AppendOptions{Force: true}, err: ErrIDTaken, rows: 1},
		"forced, known as taken":          {before: func(tt *team, _ *memory) { tt.write("alice", "[]") }, m: m, opts: AppendOptions{Force: true}, dedup: true, rows: 0},
		"recorded meanwhile":              {before: func(tt *team, mem *memory) { tt.write("alice", "[]"); mem.sends, mem.late = nil, true }, m: m, dedup: true, rows: 0},
		"acknowledgement lost, row there": {before: func(_ *team, mem *memory) { mem.intent() }, m: m, dedup: true, rows: 1},
		"acknowledgement lost, row taken": {before: func(tt *team, mem *memory) { mem.intent(); tt.write("alice", "[]") }, m: m, err: ErrUnknown, rows: 0},
		"the same, forced":                {before: func(tt *team, mem *memory) { mem.intent(); tt.write("alice", "[]") }, m: m, opts: AppendOptions{Force: true}, rows: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt, mem := newTeam(t), &memory{}
			b := tt.inbox("alice")
			if _, err := b.Append(t.Context(), m, AppendOptions{Memory: mem}); err != nil {
				t.Fatal(err)
			}
			tc.before(tt, mem)
			tc.opts.Memory = mem
			r, err := b.Append(t.Context(), tc.m, tc.opts)
			if !errors.Is(err, tc.err) || r.Deduplicated != tc.dedup || r.ID != "one" {
				t.Errorf("got %+v, %v; want deduplicated %v, error %v", r, err, tc.dedup, tc.err)
			}
			rows, err := b.Read(t.Context())
			if err != nil || len(rows) != tc.rows {
				t.Errorf("%d rows, %v; want %d", len(rows), err, tc.rows)
			}
		})
	}
}

// intent changes every recorded message to the state it has if its sender died before it could record that the
// message was written.
func (m *memory) intent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, s := range m.sends {
		s.State = SendIntent
		m.sends[k] = s
	}
}

func TestAppendRefusesBadMessages(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	b := tt.inbox("alice")
	for name, m := range map[string]Message{
		"no sender":          {Text: "x"},
		"sender with break":  {From: "a\nb", Text: "x"},
		"long sender":        {From: strings.Repeat("a", MaxFrom+1), Text: "x"},
		"no text":            {From: "a"},
		"blank text":         {From: "a", Text: " \n\t"},
		"not UTF-8":          {From: "a", Text: "\xff"},
		"long text":          {From: "a", Text: strings.Repeat("x", MaxText+1)},
		"long encoded":       {From: "a", Text: strings.Repeat("\n", MaxEncodedText/2) + "x"},
		"summary with break": {From: "a", Text: "x", Summary: "a\nb"},
		"unknown color":      {From: "a", Text: "x", Color: "mauve"},
		"blank id":           {From: "a", Text: "x", ID: "  "},
		"id with break":      {From: "a", Text: "x", ID: "a\n"},
	} {
		_, err := b.Append(t.Context(), m, AppendOptions{Memory: &memory{}})
		if _, ok := errors.AsType[*InvalidError](err); !ok {
			t.Errorf("%s: got %v, want an InvalidError", name, err)
		}
	}
	if _, err := os.Stat(filepath.Dir(tt.path("alice"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was created: %v", err)
	}
	if _, err := b.Append(t.Context(), Message{ID: "x", From: "a", Text: "x"}, AppendOptions{}); !errors.Is(err, ErrNoMemory) {
		t.Errorf("explicit id without a memory: %v", err)
	}
	if _, err := b.Append(t.Context(), Message{From: "a", Text: strings.Repeat("x", MaxText)}, AppendOptions{}); err != nil {
		t.Errorf("text of the largest size: %v", err)
	}
}

func TestAppendNeverWritesToACorruptFile(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"object": "{}", "null": "null", "cut": `[{"from":"a"`, "garbage": "hello", "trailing comma": "[1,]",
		"trailing data": "[] []", "byte order mark": "\ufeff[]", "blank": " \n",
	} {
		tt := newTeam(t)
		tt.write("alice", content)
		_, err := tt.inbox("alice").Append(t.Context(), Message{From: "a", Text: "x"}, AppendOptions{})
		corrupt, ok := errors.AsType[*CorruptError](err)
		if !ok || corrupt.Path != tt.path("alice") || name == "cut" && corrupt.Offset != 12 {
			t.Errorf("%s: got %v, want a CorruptError with the path and the place", name, err)
		}
		if got := tt.content("alice"); got != content {
			t.Errorf("%s: file is now %q", name, got)
		}
	}
	tt := newTeam(t)
	tt.write("alice", "")
	if _, err := tt.inbox("alice").Append(t.Context(), Message{From: "a", Text: "x"}, AppendOptions{}); err != nil {
		t.Errorf("file without content: %v", err)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	const file = `[
  { "from" : "a", "text":"1", "read":false, "messageId":"1", "n":1.0 },
  null,
  {"from":"b","messageId":"2"},
  {"from":"c","messageId":"3","read":false,"read":false}
]
`
	for name, tc := range map[string]struct {
		do   func(ctx context.Context, b *Inbox) error
		want string
	}{
		"nothing": {func(ctx context.Context, b *Inbox) error { _, err := b.MarkRead(ctx, "9"); return err }, file},
		"mark read": {func(ctx context.Context, b *Inbox) error {
			n, err := b.MarkRead(ctx, "1", "2", "3")
			if n != 3 {
				t.Errorf("marked %d, want 3", n)
			}
			return err
		}, `[
  { "from" : "a", "text":"1", "read":true, "messageId":"1", "n":1.0 },
  null,
  {"from":"b","messageId":"2","read":true},
  {"from":"c","messageId":"3","read":false,"read":true}
]
`},
		"take": {func(ctx context.Context, b *Inbox) error {
			rows, err := b.Take(ctx, func(r Row) bool { return r.From != "b" })
			if len(rows) != 2 || rows[0].ID() != "1" || rows[1].ID() != "3" {
				t.Errorf("took %v", rows)
			}
			return err
		}, `[
  null,
  {"from":"b","messageId":"2"}
]
`},
	} {
		tt := newTeam(t)
		tt.write("alice", file)
		if err := tc.do(t.Context(), tt.inbox("alice")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, tt.content("alice")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	tt := newTeam(t)
	if _, err := tt.inbox("alice").MarkRead(t.Context(), "1"); !errors.Is(err, ErrMissing) {
		t.Errorf("no inbox: got %v, want ErrMissing", err)
	}
	if _, err := os.Stat(filepath.Dir(tt.path("alice"))); err == nil {
		t.Error("marking as read made the inboxes directory")
	}
}

// The default sender is no part of a message: if the message is sent again under its id after the default name has
// changed (because the person joined the team), it is the same message, in the file and in the memory. A chosen
// sender is part of it.
func TestDefaultSenderIsNoPartOfAMessage(t *testing.T) {
	t.Parallel()
	byDefault := func(from string) Message { return Message{ID: "one", From: from, DefaultFrom: true, Text: "hello"} }
	chosen := func(from string) Message { return Message{ID: "one", From: from, Text: "hello"} }
	changed := byDefault("operator")
	changed.Text = "other"
	for name, tc := range map[string]struct {
		first, again Message
		err          error
	}{
		"default, then joined": {first: byDefault("user"), again: byDefault("operator")},
		"joined, then left":    {first: byDefault("operator"), again: byDefault("user")},
		"chosen":               {first: chosen("bob"), again: chosen("bob")},
		"chosen, then another": {first: chosen("bob"), again: chosen("carol"), err: ErrIDTaken},
		"another text":         {first: byDefault("user"), again: changed, err: ErrIDTaken},
	} {
		for _, taken := range []bool{false, true} {
			tt, mem := newTeam(t), &memory{}
			b := tt.inbox("alice")
			if _, err := b.Append(t.Context(), tc.first, AppendOptions{Memory: mem}); err != nil {
				t.Fatal(err)
			}
			if taken {
				tt.write("alice", "[]")
			}
			r, err := b.Append(t.Context(), tc.again, AppendOptions{Memory: mem})
			if !errors.Is(err, tc.err) || r.Deduplicated != (tc.err == nil) {
				t.Errorf("%s, taken %v: %+v, %v; want error %v", name, taken, r, err, tc.err)
			}
		}
	}
}
