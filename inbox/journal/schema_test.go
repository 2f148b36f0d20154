package journal

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
)

var update = flag.Bool("update", false, "make the fixture of the newest version, if there is none")

func fixture(version int) string {
	return filepath.Join("testdata", fmt.Sprintf("version%d.db", version))
}

// nextSchema adds a version to the real ones. Run twice, it fails.
func nextSchema() []string {
	return append(schema(), "ALTER TABLE messages ADD COLUMN next TEXT; UPDATE messages SET next='x';")
}

// fixtureWants is what is in the fixture of every version.
func fixtureWants(t *testing.T, j *Journal, version int) {
	t.Helper()
	list, err := j.Changes(t.Context(), 0, 100)
	must(t, err)
	want5 := "1 appeared needle#1, 2 appeared b#1, 3 read needle#1, 4 gone b#1, 5 consumed 1"
	if version >= 2 {
		want7 := want5 + ", 6 relay d1 claimed, 7 relay  running"
		if version >= 3 {
			if version >= 4 {
				last := "11 appeared front#1, 12 appeared ours#1, 13 verified ours"
				if version >= 6 {
					last += ", 14 appeared done#1"
					if m := list[13].Message; m.Answer != "f" || m.Kind() != KindAnswer {
						t.Errorf("what was answered is %+v", m)
					}
				}
				wantChanges(t, list[10:], last)
				keys, err := j.Ahead(t.Context(), aKey("ours"))
				must(t, err)
				if diff := cmp.Diff([]string{file(t, row("front"))[0].Key()}, keys); diff != "" {
					t.Errorf("ahead of ours (-want +got):\n%s", diff)
				}
				list = list[:10]
			}
			wantChanges(t, list[7:], "8 appeared words#1, 9 relay d2 claimed, 10 verified id-d2")
			if m := list[7].Message; m.Prompt != "d2" || m.From != "user" || !m.GoneAt.Equal(at(5)) {
				t.Errorf("what was said is %+v", m)
			}
			list = list[:7]
		}
		wantChanges(t, list, want7)
		if diff := cmp.Diff(RelayEvent{
			Seq: 7, N: 2, Root: root, Team: blue(), Inbox: "bob", At: at(4), State: "running", PID: 4711, Session: "s",
		}, list[6].Relayed); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
	} else {
		wantChanges(t, list, want5)
	}
	raw := row("needle", `"n":1.0`)
	want := Message{Seq: 1, Root: root, Team: blue(), Inbox: "bob", Row: file(t, raw)[0], Occurrence: 1, FirstSeen: at(1), ReadAt: at(2)}
	want.Row.Read = true
	if diff := cmp.Diff(want, list[0].Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if hits := search(t, j, "needle", Query{}); len(hits) != 1 || hits[0].Seq != 1 {
		t.Errorf("found %v, want the first message", hits)
	}
}

func TestFixtureOfTheNewestVersion(t *testing.T) {
	path := fixture(len(schema()))
	_, err := os.Stat(path)
	if err == nil {
		return
	}
	if !*update {
		t.Fatalf("%v; run go test -update, and keep the file", err)
	}
	j := mustOpen(t, path)
	observe(t, j, look(t, 1, row("needle", `"n":1.0`), row("b")))
	observe(t, j, look(t, 2, row("needle", `"n":1.0`, `"read":true`)))
	_, err = j.Consumed(t.Context(), aKey("1"), at(3))
	must(t, err)
	_, err = j.CopyEvents(t.Context(), "a-ledger", anEvent(1, "d1", "claimed"), RelayEvent{
		N: 2, Root: root, Team: blue(), Inbox: "bob", At: at(4), State: "running", PID: 4711, Session: "s",
	}, wordsOf(5, "d2", "words"))
	must(t, err)
	rows := []string{row("needle", `"n":1.0`, `"read":true`), row("front"), row("ours", `"messageId":"ours"`)}
	observe(t, j, look(t, 6, rows...))
	_, err = j.Verified(t.Context(), aKey("ours"), at(7), inbox.Ahead(file(t, rows[:2]...))...)
	must(t, err)
	_, err = j.CopyEvents(t.Context(), "a-ledger", answerTo(8, "f", "d2", "done"))
	must(t, err)
	must(t, j.Close())
	must(t, os.Chmod(path, 0o644)) // Open makes it 0600
	must(t, os.Chmod("testdata", 0o755))
}

func TestMigrateFromEachVersion(t *testing.T) {
	t.Parallel()
	for version := range len(schema()) + 1 {
		for name, schema := range map[string][]string{"newest": schema(), "next": nextSchema()} {
			t.Run(fmt.Sprintf("%d to %s", version, name), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "journal.db")
				var data []byte
				if version > 0 {
					var err error
					data, err = os.ReadFile(fixture(version))
					must(t, err)
				}
				must(t, os.WriteFile(path, data, 0o644))
				for range 2 {
					j, err := open(t.Context(), path, schema)
					must(t, err)
					if n := number(t, j, "PRAGMA user_version"); int(n) != len(schema) {
						t.Errorf("version %d, want %d", n, len(schema))
					}
					if version > 0 {
						fixtureWants(t, j, version)
					}
					must(t, j.Close())
				}
				j, err := open(t.Context(), path, schema)
				must(t, err)
				defer j.Close()
				observe(t, j, look(t, 9, row("new")))
				sound(t, j)
			})
		}
	}
}
