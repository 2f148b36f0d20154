package ledger

import (
	"path/filepath"
	"teambridge/inbox"
	"testing"
	"time"
)

// Each turn that ends while the relay answers for its agent is owed one reply, whether its frame or a nudge about it
// ended it, and is forgotten with old deliveries.
func TestOwed(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	ctx := t.Context()
	key := inbox.InboxKey{Root: "/r", Team: "demo", CreatedAt: 1, Inbox: "worker"}
	must(t, l.Sessions.SetAnswers(ctx, key, true)) // there is no session yet
	must(t, l.Sessions.SetSession(ctx, Session{InboxKey: key, ID: "s"}))
	n := 0
	frame := func(kind FrameKind, parent string) string {
		t.Helper()
		n++
		id := string(kind) + string(rune('0'+n))
		f := Frame{UUID: id, InboxKey: key, Kind: kind, Parent: parent, Bytes: []byte("x")}
		if kind == FrameNudge {
			must(t, l.Frames.Commit(ctx, f))
			return id
		}
		d := Delivery{UUID: "d" + id, InboxKey: key, Key: id, Occurrence: 1, From: "boss", Kind: "message"}
		must(t, l.Deliveries.Claim(ctx, d))
		must(t, l.Deliveries.Mark(ctx, d.UUID))
		must(t, l.Frames.Commit(ctx, f, d.UUID))
		return id
	}
	owed := func(want ...string) []Reply {
		t.Helper()
		list, err := l.Replies.Owed(ctx, key)
		must(t, err)
		var got []string
		for _, r := range list {
			got = append(got, r.Frame+" "+string(r.State)+" "+r.Text)
			if len(r.Senders) != 1 || r.Senders[0] != (Sender{"boss", "message", false}) || r.At.IsZero() {
				t.Errorf("%+v", r)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("owed are %q, want %q", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("owed are %q, want %q", got, want)
			}
		}
		return list
	}
	must(t, l.Frames.Finish(ctx, frame(FrameMessage, ""), Done, "", "no one hears it"))
	owed()
	must(t, l.Sessions.SetAnswers(ctx, key, true))
	must(t, l.Frames.Finish(ctx, frame(FrameMessage, ""), Done, "", "well"))
	must(t, l.Frames.Finish(ctx, frame(FrameMessage, ""), Failed, "no", ""))
	cut := frame(FrameMessage, "")
	must(t, l.Frames.Finish(ctx, frame(FrameNudge, cut), Done, "", "done in the end"))
	must(t, l.Frames.Finish(ctx, cut, Done, "", "")) // again
	list := owed("message2 done well", "message3 failed ", "message4 done done in the end")
	must(t, l.Replies.Replied(ctx, list[0].Frame))
	owed("message3 failed ", "message4 done done in the end")
	must(t, l.Sessions.SetAnswers(ctx, key, false))
	must(t, l.Frames.Finish(ctx, frame(FrameMessage, ""), Done, "", "no one hears it"))
	owed("message3 failed ", "message4 done done in the end")
	_, err := l.Prune(ctx, time.Now().Add(time.Hour))
	must(t, err)
	owed()
	if n, err := l.db.Number(ctx, "owed", "SELECT count(*) FROM owed"); n != 0 || err != nil {
		t.Errorf("%d are kept, %v", n, err)
	}
}

// If the relay answers for its agent, a shutdown request and all rows after it go into no frame. The request is
// answered once everything before it has ended.
func TestShutdownAsked(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	ctx := t.Context()
	key := inbox.InboxKey{Root: "/r", Team: "demo", CreatedAt: 1, Inbox: "worker"}
	must(t, l.Sessions.SetSession(ctx, Session{InboxKey: key, ID: "s"}))
	for _, d := range []Delivery{{UUID: "a", Kind: "message"}, {UUID: "b", Kind: "shutdown_request"}, {UUID: "c", Kind: "message"}, {UUID: "p", Person: true}} {
		if d.InboxKey = key; !d.Person {
			d.Key, d.Occurrence = d.UUID, 1
		}
		must(t, l.Deliveries.Claim(ctx, d))
		must(t, l.Deliveries.Mark(ctx, d.UUID))
	}
	waiting := func(want string) {
		t.Helper()
		list, err := l.Deliveries.Waiting(ctx, key)
		must(t, err)
		got := ""
		for _, d := range list {
			got += d.UUID
		}
		if got != want {
			t.Errorf("waiting are %q, want %q", got, want)
		}
	}
	waiting("pabc")
	must(t, l.Sessions.SetAnswers(ctx, key, true))
	waiting("a")
	asked := func(want bool) {
		t.Helper()
		if d, ok, err := l.Replies.ShutdownAsked(ctx, key); ok != want || ok && d.UUID != "b" || err != nil {
			t.Errorf("asked %v by %q, %v; want %v", ok, d.UUID, err, want)
		}
	}
	asked(false)
	must(t, l.Frames.Commit(ctx, Frame{UUID: "f", InboxKey: key, Kind: FrameMessage, Bytes: []byte("x")}, "a"))
	asked(false)
	must(t, l.Frames.Finish(ctx, "f", Done, "", ""))
	asked(true)
	for range 2 {
		must(t, l.Replies.EndShutdown(ctx, key, "b", "boss asked"))
	}
	asked(false)
	waiting("pc")
	if s, _, err := l.Sessions.Session(ctx, key); err != nil || s.ShutDown != "boss asked" {
		t.Errorf("%q, %v", s.ShutDown, err)
	}
	must(t, l.Sessions.SetSession(ctx, Session{InboxKey: key, ID: "s"}))
	if s, _, err := l.Sessions.RelayInfo(ctx, key); err != nil || s.ShutDown != "boss asked" || s.Open != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	must(t, l.Sessions.Revive(ctx, key))
	if s, _, err := l.Sessions.Session(ctx, key); err != nil || s.ShutDown != "" {
		t.Errorf("%q, %v", s.ShutDown, err)
	}
	if err := l.Replies.EndShutdown(ctx, key, "a", "no"); err == nil {
		t.Error("what is in a frame was ended")
	}
}
