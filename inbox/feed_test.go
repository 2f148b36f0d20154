package inbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams"
)

func TestMergeOrder(t *testing.T) {
	t.Parallel()
	at := func(s string) Row { return Row{Timestamp: "2026-01-01T00:00:0" + s + "Z"} }
	odd := Row{Timestamp: "yesterday"}
	got := Merge(map[string][]Row{
		"b": {odd, at("1"), odd, at("3"), at("2")},
		"a": {at("1"), at("1"), at("2.5")},
		"c": nil,
	})
	var names []string
	for _, e := range got {
		names = append(names, fmt.Sprint(e.Inbox, e.Index))
	}
	// b4 is older than the row in front of it: time decides between rows.
	want := []string{"b0", "a0", "a1", "b1", "b2", "b4", "a2", "b3"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoise(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"hello": false,
		`{"type":"idle_notification","idleReason":"available"}`:                        true,
		`{"type":"idle_notification","idleReason":"available","result":"done"}`:        false,
		`{"type":"idle_notification","idleReason":"available","summary":"[to user]"}`:  false,
		`{"type":"idle_notification","idleReason":"failed"}`:                           false,
		`{"type":"idle_notification","idleReason":"interrupted"}`:                      false,
		`{"type":"idle_notification","idleReason":"available","completedTaskId":"12"}`: false,
		`{"type":"idle_notification"}`:                                                 false,
		`{"type":"shutdown_approved"}`:                                                 true,
		`{"type":"teammate_terminated"}`:                                               true,
		`{"type":"shutdown_request"}`:                                                  false,
		`{"type":"brand_new"}`:                                                         false,
	} {
		if got := (&Row{Text: text}).Noise(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// age makes an inbox old enough for the feed to trust its time.
func (tt *team) age(name string) {
	tt.t.Helper()
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(tt.path(name), old, old); err != nil {
		tt.t.Fatal(err)
	}
}

func (tt *team) refresh(f *Feed, want ...string) {
	tt.t.Helper()
	changed, err := f.Refresh(tt.t.Context())
	if err != nil {
		tt.t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Join(want, " "), strings.Join(changed, " ")); diff != "" {
		tt.t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func TestFeedParsesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	f := NewFeed(tt.team)
	tt.refresh(f)
	tt.write("alice", `[{"from":"a","text":"1","timestamp":"2026-01-01T00:00:01Z"}]`)
	tt.write("bob", `[{"from":"b","text":"2","timestamp":"2026-01-01T00:00:00Z"}]`)
	tt.write("carol", `[]`)
	for _, name := range []string{"alice", "bob", "carol"} {
		tt.age(name)
	}
	tt.refresh(f, "alice", "bob")
	if f.parses != 3 {
		t.Errorf("parsed %d files, want 3", f.parses)
	}
	tt.refresh(f)
	if f.parses != 3 {
		t.Errorf("parsed %d files, want still 3", f.parses)
	}
	if _, err := tt.inbox("carol").Append(t.Context(), Message{ID: "x", From: "a", Text: "3"}, AppendOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	// A young file may change again without its time telling; none is younger than this.
	young := time.Now().Add(time.Hour)
	if err := os.Chtimes(tt.path("carol"), young, young); err != nil {
		t.Fatal(err)
	}
	tt.refresh(f, "carol")
	if f.parses != 4 {
		t.Errorf("parsed %d files, want 4", f.parses)
	}
	tt.refresh(f)
	if f.parses != 5 {
		t.Errorf("parsed %d files, want 5", f.parses)
	}
	var got []string
	for _, e := range f.Entries() {
		got = append(got, e.Inbox+e.Text)
	}
	if diff := cmp.Diff("bob2 alice1 carol3", strings.Join(got, " ")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.Remove(tt.path("bob")); err != nil {
		t.Fatal(err)
	}
	tt.refresh(f, "bob")
	if got := f.Entries("bob", "alice"); len(got) != 1 {
		t.Errorf("%d entries, want 1", len(got))
	}
}

// What a caller does to its entries stays with the caller.
func TestFeedEntriesAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	tt.write("alice", `[{"from":"a","text":"1","k":[1]}]`)
	f := NewFeed(tt.team)
	tt.refresh(f, "alice")
	e := f.Entries()
	e[0].Text = "changed"
	e[0].Raw[2] = 'X'
	e[0].Extra["k"][0] = 'X'
	delete(e[0].Extra, "k")
	again := f.Entries()[0]
	if again.Text != "1" || !strings.Contains(string(again.Raw), `"from"`) || string(again.Extra["k"]) != "[1]" {
		t.Errorf("the feed was changed: %+v", again)
	}
}

// An inbox that cannot be read keeps what it had, and does not hide the others.
func TestFeedWithACorruptInbox(t *testing.T) {
	t.Parallel()
	tt := newTeam(t)
	tt.write("alice", `[{"from":"a","text":"1"}]`)
	f := NewFeed(tt.team)
	tt.refresh(f, "alice")
	tt.write("alice", `[{"from":"a"`)
	tt.write("bob", `[{"from":"b","text":"2"}]`)
	changed, err := f.Refresh(t.Context())
	if _, ok := errors.AsType[*CorruptError](err); !ok || len(changed) != 1 || changed[0] != "bob" {
		t.Errorf("got %q, %v", changed, err)
	}
	if got := f.Entries(); len(got) != 2 {
		t.Errorf("%d entries, want 2", len(got))
	}
	tt.write("alice", `[]`)
	tt.refresh(f, "alice")
	if err := os.RemoveAll(tt.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Refresh(t.Context()); !errors.Is(err, teams.ErrTeamGone) {
		t.Errorf("team gone: %v", err)
	}
	if got := f.Entries(); len(got) != 1 {
		t.Errorf("%d entries after the team went, want 1", len(got))
	}
}

// manyTeams makes 100 teams with 10 inboxes of 100 rows each.
func manyTeams(b *testing.B) (root *teams.Root, inbox func(team, box int) string) {
	b.Helper()
	dir := b.TempDir()
	inbox = func(team, box int) string {
		return filepath.Join(dir, "teams", fmt.Sprintf("team-%d", team), "inboxes", fmt.Sprintf("member-%d.json", box))
	}
	var rows []string
	for i := range 100 {
		rows = append(rows, fmt.Sprintf(`  {
    "from": "member-%d",
    "text": "message %d with a text of a usual length, which is about a line or two of what people say",
    "timestamp": "2026-11-20T12:00:%02d.%03dZ",
    "color": "blue",
    "msgV": 1,
    "msg_id": "7ae6f78c-15a9-4321-ad26-7c4f5f94%04d",
    "type": "message",
    "read": false
  }`, i%10, i, i%60, i, i))
	}
	content := "[\n" + strings.Join(rows, ",\n") + "\n]"
	old := time.Now().Add(-time.Minute)
	for team := range 100 {
		for box := range 10 {
			path := inbox(team, box)
			err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, old, old))
			if box == 0 {
				err = errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(path), "..", "config.json"), []byte(config), 0o600))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	root, err := teams.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { root.Close() })
	return root, inbox
}

func openFeeds(b *testing.B, root *teams.Root) []*Feed {
	b.Helper()
	var feeds []*Feed
	for team := range 100 {
		t, err := root.Team(fmt.Sprintf("team-%d", team))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { t.Close() })
		feeds = append(feeds, NewFeed(t))
	}
	return feeds
}

func refreshAll(b *testing.B, feeds []*Feed) (entries int) {
	for _, f := range feeds {
		changed, err := f.Refresh(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if len(changed) > 0 {
			entries += len(f.Entries())
		}
	}
	return entries
}

// The bar is 1 s for 100 teams of 10 inboxes of 100 rows, read for the first
// time.
func BenchmarkFeedCold(b *testing.B) {
	root, _ := manyTeams(b)
	for b.Loop() {
		if n := refreshAll(b, openFeeds(b, root)); n != 100_000 {
			b.Fatalf("%d entries", n)
		}
	}
}

// The bar is 10 ms for the same after one change.
func BenchmarkFeedAfterOneChange(b *testing.B) {
	root, inbox := manyTeams(b)
	feeds := openFeeds(b, root)
	refreshAll(b, feeds)
	content, err := os.ReadFile(inbox(7, 7))
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		b.StopTimer()
		i++
		next := strings.Replace(string(content), "message 1 with", fmt.Sprintf("message %d with", i+1000), 1)
		at := time.Now().Add(-time.Minute).Add(time.Duration(i) * time.Millisecond)
		if err := errors.Join(os.WriteFile(inbox(7, 7), []byte(next), 0o600), os.Chtimes(inbox(7, 7), at, at)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if n := refreshAll(b, feeds); n != 1000 {
			b.Fatalf("%d entries", n)
		}
	}
}
