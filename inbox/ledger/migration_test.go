package ledger

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox/sqlite"
)

var update = flag.Bool("update", false, "make the fixture of the newest version, if there is none")

// nextSchema adds two versions to the real ones. Run twice, the first fails.
func nextSchema() []string {
	return append(schema(),
		"CREATE TABLE ran (n INTEGER); INSERT INTO ran VALUES (1);",
		"INSERT INTO ran VALUES (2); ALTER TABLE sends ADD COLUMN extra TEXT;")
}

func ran(t *testing.T, l *Ledger) {
	t.Helper()
	var got []int64
	must(t, query(l, func(v []sqlite.Value) error {
		got = append(got, v[0].(int64))
		return nil
	}, "SELECT n FROM ran ORDER BY rowid"))
	if diff := cmp.Diff([]int64{1, 2}, got); diff != "" {
		t.Errorf("migrations run (-want +got):\n%s", diff)
	}
	version, err := number(l, "PRAGMA user_version")
	if err != nil || int(version) != len(nextSchema()) {
		t.Errorf("version %d, %v; want %d", version, err, len(nextSchema()))
	}
}

// sentRow is what the messages in the fixtures from version 10 on hold.
func sentRow(s Send) Send {
	s.Row = []byte(`{"from":"user","text":"` + s.ID + `","messageId":"` + s.ID + `"}`)
	return s
}

func fixture(version int) string {
	return filepath.Join("testdata", fmt.Sprintf("version%d.db", version))
}

func copyFixture(t *testing.T, version int, path string) {
	t.Helper()
	data, err := os.ReadFile(fixture(version))
	must(t, err)
	must(t, os.WriteFile(path, data, 0o600))
}

// fixtureSends stand in the fixture of every version.
func fixtureSends() (intent, written Send) {
	intent, written = aSend("intended"), aSend("done")
	intent.State = Intent
	written.State, written.At = Written, tuesday
	return intent, written
}

// fillRelay records what is in the fixtures from version 2 on: a nudge in
// flight with the frame it is about, and a delivery of each other kind.
func fillRelay(t *testing.T, l *Ledger) {
	t.Helper()
	ds := []Delivery{aRow("cut"), aRow("waiting"), aRow("unmarked"), aRow("taken"), anInput("typed")}
	must(t, l.Claim(t.Context(), ds...))
	must(t, l.Mark(t.Context(), "cut", "waiting"))
	must(t, l.EndDeliveries(t.Context(), TakenByAgent, "gone from the file", "taken"))
	must(t, l.Commit(t.Context(), aFrame("f1"), "cut"))
	must(t, l.Tried(t.Context(), "f1", "session-2"))
	_, err := l.Died(t.Context(), "f1")
	must(t, err)
	must(t, l.Commit(t.Context(), aNudge("n1", "f1")))
	must(t, l.SetSession(t.Context(), aSession()))
}

// aRelay is in the fixtures from version 4 on.
func aRelay() Relay {
	return Relay{
		ID: "5f3c6f5e-1111-4222-8333-123456789abc", Root: "/r", Team: "blue", Member: "bob", Command: []string{"claude", "--model", "a b"},
		Plain: true, Dir: "/home/dev", OnCut: "report", Permissions: "allow=Read", Mode: []byte(`{"model":"sonnet"}`), Created: monday,
	}
}

// modal is in the fixtures from version 5 on.
func modal() Session {
	s := aSession()
	s.Inbox, s.Mode = "modal", []byte(`{"permissionMode":"plan"}`)
	return s
}

// aFounding and ownRelay stand in the fixtures from version 7 on.
func aFounding() OwnedTeam {
	return OwnedTeam{Root: "/r", Team: "ours", CreatedAt: 7, Lead: "boss", Session: "s-1", Leaders: []string{"1 2 3 host", "4 5 6 host"}}
}

func ownRelay() Relay {
	r := aRelay()
	r.ID, r.Team, r.Member, r.OwnTeam, r.Created = "own", "ours", "boss", true, tuesday
	return r
}

// aHold is in the fixtures from version 11 on.
func aHold() Hold {
	return Hold{InboxKey: bob, Sender: "worker", Reason: "they answered each other", Since: tuesday}
}

func wantHolds(t *testing.T, l *Ledger, want ...Hold) {
	t.Helper()
	got, err := l.Holds(t.Context(), "")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holds (-want +got):\n%s", diff)
	}
}

func wantFoundings(t *testing.T, l *Ledger, want ...OwnedTeam) {
	t.Helper()
	got, err := l.Teams(t.Context(), "/r", "")
	must(t, err)
	for i := range got {
		got[i].At = time.Time{} // by the clock
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("foundings (-want +got):\n%s", diff)
	}
}

func wantRelays(t *testing.T, l *Ledger, want ...Relay) {
	t.Helper()
	got, err := l.Relays(t.Context(), "/r")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("relays (-want +got):\n%s", diff)
	}
}

func wantRelay(t *testing.T, l *Ledger) {
	t.Helper()
	expected := []Delivery{anInput("typed"), aRow("taken"), aRow("unmarked"), aRow("waiting"), aRow("cut")}
	for i := range expected {
		expected[i].Seq = int64(len(expected) - i)
		expected[i].State = Claimed
	}
	typed, taken, waiting, cut := &expected[0], &expected[1], &expected[3], &expected[4]
	typed.Marked, waiting.Marked, cut.Marked = true, true, true
	taken.State, taken.Reason = TakenByAgent, "gone from the file"
	cut.State, cut.Frame = Cut, "f1"
	got, err := l.Deliveries(t.Context(), DeliveryQuery{})
	must(t, err)
	for i := range got {
		if got[i].UUID == taken.UUID {
			taken.At = got[i].At // the only one that was settled by the clock
		}
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}

	f1, n1 := aFrame("f1"), aNudge("n1", "f1")
	f1.State, f1.Tries, f1.Deaths, f1.Nudges, f1.Session = Cut, 1, 1, 1, "session-2"
	n1.State = FrameWritten
	for _, want := range []Frame{f1, n1} {
		got, found, err := l.Frame(t.Context(), want.UUID)
		must(t, err)
		if diff := cmp.Diff(want, got); !found || diff != "" {
			t.Errorf("frame found %v (-want +got):\n%s", found, diff)
		}
	}
	s, found, err := l.Session(t.Context(), bob)
	must(t, err)
	if diff := cmp.Diff(aSession(), s); !found || diff != "" {
		t.Errorf("session found %v (-want +got):\n%s", found, diff)
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
	l := mustOpen(t, path)
	intent, written := fixtureSends()
	must(t, l.Intend(t.Context(), sentRow(intent)))
	must(t, l.Intend(t.Context(), sentRow(written)))
	must(t, l.Written(t.Context(), written.SendKey, tuesday))
	must(t, l.Joined(t.Context(), Join{Root: "/r", Team: "blue", CreatedAt: 1, Member: "operator", AgentID: "operator@blue", At: monday}))
	fillRelay(t, l)
	_, err = l.AddRelay(t.Context(), aRelay())
	must(t, err)
	must(t, l.SetSession(t.Context(), modal()))
	_, err = l.AddRelay(t.Context(), ownRelay())
	must(t, err)
	must(t, l.AddTeam(t.Context(), aFounding()))
	must(t, l.Hold(t.Context(), aHold()))
	must(t, l.Close())
	// Not 0600: Open makes it so, and the test below sees to that.
	must(t, os.Chmod(path, 0o644))
	must(t, os.Chmod("testdata", 0o755))
}

func TestMigrateFromEachVersion(t *testing.T) {
	t.Parallel()
	for version := range len(schema()) + 1 {
		for _, to := range []struct {
			name   string
			schema []string
		}{{"newest", schema()}, {"next", nextSchema()}} {
			t.Run(fmt.Sprintf("%d to %s", version, to.name), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "ledger.db")
				var data []byte
				if version > 0 {
					var err error
					data, err = os.ReadFile(fixture(version))
					must(t, err)
				}
				must(t, os.WriteFile(path, data, 0o644))

				l, err := open(t.Context(), path, to.schema)
				must(t, err)
				defer l.Close()
				if to.name == "next" {
					ran(t, l)
				}
				info, err := os.Stat(path)
				must(t, err)
				if info.Mode().Perm() != 0o600 {
					t.Errorf("mode %o, want 600", info.Mode().Perm())
				}
				if version > 0 {
					intent, written := fixtureSends()
					want(t, l, intent)
					want(t, l, written)
					joins, err := l.Joins(t.Context(), "/r", "blue", 1)
					must(t, err)
					if diff := cmp.Diff([]Join{{Root: "/r", Team: "blue", CreatedAt: 1, Member: "operator", AgentID: "operator@blue", At: monday}}, joins); diff != "" {
						t.Errorf("joins (-want +got):\n%s", diff)
					}
				}
				var sent []string
				for _, e := range events(t, l) {
					if e.Sent != "" {
						sent = append(sent, string(e.Sent)+" "+string(e.Row))
					}
				}
				if version >= 10 {
					intent, written := fixtureSends()
					if diff := cmp.Diff([]string{"written " + string(sentRow(written).Row), "unknown " + string(sentRow(intent).Row)}, sent); diff != "" {
						t.Errorf("what was sent (-want +got):\n%s", diff)
					}
				} else if len(sent) > 0 {
					t.Errorf("sent out of nowhere: %q", sent)
				}
				if version >= 2 {
					wantRelay(t, l)
				} else {
					fillRelay(t, l)
				}
				old, found, err := l.Session(t.Context(), modal().InboxKey)
				must(t, err)
				if version >= 5 {
					if diff := cmp.Diff(modal(), old); diff != "" {
						t.Errorf("session with a mode, found %v (-want +got):\n%s", found, diff)
					}
				} else if found {
					t.Errorf("a session out of nowhere: %+v", old)
				}
				must(t, l.SetSession(t.Context(), modal()))
				if version < 4 {
					wantRelays(t, l)
					_, err = l.AddRelay(t.Context(), aRelay())
					must(t, err)
				}
				if version < 7 {
					wantRelays(t, l, aRelay())
					wantFoundings(t, l)
					_, err = l.AddRelay(t.Context(), ownRelay())
					must(t, err)
					must(t, l.AddTeam(t.Context(), aFounding()))
				}
				wantRelays(t, l, aRelay(), ownRelay())
				wantFoundings(t, l, aFounding())
				var holds []Hold
				if version >= 11 {
					holds = []Hold{aHold()}
				}
				wantHolds(t, l, holds...)
				must(t, l.Hold(t.Context(), aHold()))
				wantHolds(t, l, aHold())
				must(t, l.Intend(t.Context(), aSend("new")))
			})
		}
	}
}

// A script that was changed after its release would leave the files of that
// version unlike the new ones.
func TestEachVersionBecomesTheSameSchema(t *testing.T) {
	t.Parallel()
	objects := func(path string) (list []string) {
		t.Helper()
		must(t, query(mustOpen(t, path), func(v []sqlite.Value) error {
			list = append(list, text(v[0]))
			return nil
		}, "SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY name"))
		return list
	}
	want := objects(filepath.Join(t.TempDir(), "new.db"))
	for version := 1; version <= len(schema()); version++ {
		data, err := os.ReadFile(fixture(version))
		must(t, err)
		path := filepath.Join(t.TempDir(), "ledger.db")
		must(t, os.WriteFile(path, data, 0o600))
		if diff := cmp.Diff(want, objects(path)); diff != "" {
			t.Errorf("version %d (-new +migrated):\n%s", version, diff)
		}
	}
}

func TestMigratedTwiceIsMigratedOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	for range 2 {
		l, err := open(t.Context(), path, nextSchema())
		must(t, err)
		ran(t, l)
		must(t, l.Close())
	}
	// The program of before meets the newer file.
	_, err := Open(t.Context(), path)
	if want := fmt.Sprintf("version %d", len(nextSchema())); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to say %q", err, want)
	}
}

func TestFailedMigrationLeavesTheVersionBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	broken := append(schema(), "CREATE TABLE half (a); DELETE FROM sends; INSERT INTO nowhere VALUES (1);")
	l := mustOpen(t, path)
	must(t, l.Intend(t.Context(), aSend("1")))
	must(t, l.Close())

	_, err := open(t.Context(), path, broken)
	if err == nil || !strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v, want what failed and where", err)
	}

	l = mustOpen(t, path)
	send := aSend("1")
	send.State = Intent
	want(t, l, send)
	if n, err := number(l, "SELECT count(*) FROM sqlite_schema WHERE name='half'"); err != nil || n != 0 {
		t.Errorf("%d half-made tables, %v; want none", n, err)
	}
}
