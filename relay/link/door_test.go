package link

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
)

// Only the faulty parts of a frame are refused, with a reason for the sender, and the other parts are taken.
func TestDoor(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxName+1)
	good := `{"id":"good","team":"team","member":"worker","from":"user@team","text":"text","sent":"2026-11-27T10:00:00Z"}`
	of := func(field, value string) string {
		return strings.Replace(`{"id":"bad","team":"team","member":"worker","from":"user@team","text":"text","summary":"s"}`, fmt.Sprintf("%q:", field), fmt.Sprintf("%q:%s,%q:", field, value, field+" that was"), 1)
	}
	for _, c := range []struct{ message, reason string }{
		{of("team", `" "`), "it has no team"},
		{of("team", `""`), "it has no team"},
		{of("team", `null`), "it has no team"},
		{of("member", `"\t"`), "it has no recipient"},
		{of("from", `"\u00a0"`), "it has no sender"},
		{of("text", `"\n \n"`), "it has no text"},
		{of("team", `"`+long+`"`), "its team has 1025 bytes, over 1024"},
		{of("summary", `"`+long+`"`), "its summary has 1025 bytes, over 1024"},
		{of("from", `"a\nb@team"`), "its sender holds a control character"},
		{of("member", `"a\u0000"`), "its recipient holds a control character"},
		{of("team", `5`), "cannot unmarshal number"},
		{of("sent that was", `1`), ""},
		{`{"id":"bad","team":"a","team":"b","member":"worker","from":"user@team","text":"text"}`, `"team" occurs twice`},
		{`{"id":"bad","team":"team","member":"worker","from":"user@team","Text":"lost","text":"text"}`, `"text" occurs twice`},
		{`{"id":"bad","team":"team","member":"worker","from":"user@team","text":"\ud800"}`, "half of a surrogate pair"},
		{"{\"id\":\"bad\",\"team\":\"team\",\"member\":\"worker\",\"from\":\"user@team\",\"text\":\"\xff\"}", "not valid UTF-8"},
	} {
		o, err := openFrame([]byte(`{"v":1,"ledger":"x","messages":[` + c.message + `,` + good + `]}`))
		if c.reason == "" {
			if err != nil || len(o.list) != 2 {
				t.Errorf("%s: %v, %+v", c.message, err, o.refused)
			}
			continue
		}
		if err != nil || len(o.list) != 1 || o.list[0].ID != "good" || len(o.refused) != 1 || o.refused[0].ID != "bad" || o.refused[0].Stage != ledger.StageRefused {
			t.Errorf("%s: %v, %+v", c.message, err, o)
		} else if !strings.Contains(o.refused[0].Reason, c.reason) {
			t.Errorf("%s: %q, want %q", c.message, o.refused[0].Reason, c.reason)
		}
	}
	for _, frame := range []string{
		`{"v":1,"v":1}`, `{"v":1,"messages":[],"Messages":[]}`, `{"v":1,"messages":[],"meſſages":[]}`, `{"v":1,"ledger":" "}`, `{"v":1,"ledger":"` + long + `"}`, `{"v":1,"for":"a\nb"}`, `{"v":1,"messages":5}`, `{"v":1}x`,
		`{"v":1,"pad":"` + strings.Repeat(" ", maxFrame) + `"}`,
	} {
		if o, err := openFrame([]byte(frame)); err == nil {
			t.Errorf("%.80s is %+v", frame, o)
		}
	}
	// More than a program sends is left out, and so are fields that only a sender knows.
	var f frame
	f.Version = Version
	for i := range 3 * maxAnswers {
		f.Messages = append(f.Messages, message{ID: fmt.Sprint("m", i), Team: "team", Member: "worker", From: "user", Text: "text"})
		f.Receipts = append(f.Receipts, ledger.Receipt{ID: fmt.Sprint("r", i), Stage: ledger.StageRefused, Reason: strings.Repeat("\x1b\n", 2)})
		f.Query = append(f.Query, fmt.Sprint("q", i))
	}
	f.Receipts[0].Stage, f.Receipts[1].Stage, f.Receipts[2].ID = ledger.StageStored, "quoted", " "
	text, err := json.Marshal(f)
	must(t, err)
	o, err := openFrame(text)
	if err != nil || len(o.list) != maxMessages || len(o.refused) != maxAnswers || len(o.Query) != maxAnswers || len(o.Receipts) != maxAnswers-3 {
		t.Errorf("%v: %d messages, %d refused, %d ids, %d receipts", err, len(o.list), len(o.refused), len(o.Query), len(o.Receipts))
	}
	if reason := o.Receipts[0].Reason; strings.ContainsAny(reason, "\x1b\n") {
		t.Errorf("a reason is %q", reason)
	}
}

// The size of a machine's presence is limited, so that each query stays quick.
func TestPresenceIsBounded(t *testing.T) {
	t.Parallel()
	p := Presence{Version: Version, Instance: "i", Ledger: "x"}
	for i := range 150 {
		team := Team{Team: fmt.Sprint("t", i)}
		for j := range 250 {
			team.Members = append(team.Members, Member{Member: fmt.Sprint("m", j)})
		}
		p.Teams = append(p.Teams, team)
	}
	p.Teams[0].Members[0] = Member{Member: "worker", Word: "work\x1b[2Jing", Why: strings.Repeat("why ", 1000), Since: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), WaitsSince: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -12*3600))}
	p.Teams[0].Members[1] = p.Teams[0].Members[0]
	p.Teams[0].Members[2].Member = "\n"
	p.Teams[1].Team, p.Teams[2].Team = "../etc", p.Teams[0].Team
	text, err := json.Marshal(p)
	must(t, err)
	got, ok := PresenceOf(ledger.Machine{Presence: text})
	total := 0
	for _, team := range got.Teams {
		if total += len(team.Members); len(team.Members) > MaxMembers {
			t.Errorf("%s has %d members", team.Team, len(team.Members))
		}
	}
	if !ok || len(got.Teams) != MaxTeams || total != MaxOffered || got.Teams[1].Team != "t3" {
		t.Fatalf("%v: %d teams, %d members", ok, len(got.Teams), total)
	}
	if m := got.Teams[0].Members[0]; m.Word != "work [2Jing" || len(m.Why) > maxWords+len("…") || !m.Since.IsZero() || !m.WaitsSince.IsZero() {
		t.Errorf("%+v", m)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"v":1,"instance":"a","instance":"b"}`, `{"v":1,"instance":"a","Instance":"b"}`, `{"v":1,"instance":"\ud800"}`, `{"v":1,"ledger":" "}`, `{"v":1,"program":"\u001b"}`, `{"v":1,"teams":{}}`, `[]`} {
		if p, ok := PresenceOf(ledger.Machine{Presence: []byte(bad)}); ok {
			t.Errorf("%s is %+v", bad, p)
		}
	}
}

// A bad frame delays neither the next one of its machine nor those of others, and a person is warned.
func TestBadFramesHoldNothingUp(t *testing.T) {
	t.Parallel()
	dir, h := t.TempDir(), newHub(1, faults{})
	a, b := newMachine(t, dir, "a", h, "b"), newMachine(t, dir, "b", h, "a", "bad")
	bad := newMachine(t, dir, "bad", h, "b")
	for _, m := range []*machine{a, b, bad} {
		t.Cleanup(func() {
			if m.stop != nil {
				m.stop()
			}
			m.ledger.Close()
		})
	}
	self, _, err := bad.ledger.Links.Link(t.Context())
	bad.must(err)
	h.raw("bad", "b", frame{Version: Version, Ledger: self.Incarnation, Messages: []message{{ID: "blank", Team: " ", Member: "worker", From: "user", Text: "text"}, {ID: "next", Team: "team", Member: "worker", From: "user", Text: "next", Sent: time.Now()}}})
	a.start()
	b.start()
	a.await(t, ledger.StageSeen, a.send("b", "worker", "honest"))
	got := strings.Join(b.texts(), "; ")
	if !strings.Contains(got, "honest") || !strings.Contains(got, "next") {
		t.Errorf("b has %s", got)
	}
	h.until(t, "bad", func(list []frame) bool {
		for _, f := range list {
			for _, r := range f.Receipts {
				if r.ID == "blank" && r.Stage == ledger.StageRefused && r.Reason == "it has no team" {
					return true
				}
			}
		}
		return false
	})
	if r := b.link.Refused("bad"); r.Count != 1 || !strings.Contains(r.Why, "it has no team") {
		t.Errorf("%+v", r)
	}
	if r := b.link.Refused("a"); r.Count != 0 {
		t.Errorf("%+v", r)
	}
	// A message that the ledger cannot store, even if the door lets it pass, is refused alone.
	list := []ledger.Incoming{{ID: "x", Team: "team", Member: " ", From: "user", Raw: []byte("{}")}, {ID: "y", Team: "team", Member: "worker", From: "user", Raw: []byte("{}"), Sent: time.Now()}}
	refused, err := b.link.receive(context.Background(), "bad", list)
	if err != nil || len(refused) != 1 || refused[0].ID != "x" {
		t.Errorf("%+v, %v", refused, err)
	}
}
