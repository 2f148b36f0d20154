package bridgetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/teams/teamstest"
	"teambridge/teams/transcript"
)

// outcomes are the cases of the states of a message.
var outcomes = map[string]func(*world){
	"a message that is taken": func(w *world) {
		s := w.follow(older, "outcome-1")
		_, err := w.Inbox(older, "worker").MarkRead(w.Context(), s.ID)
		w.must(err)
		now, err := w.b.Await(w.Context(), s, api.Consumed, 3*time.Minute)
		w.must(err)
		if now.State != api.Consumed || now.ID != s.ID || now.Member != "worker" || now.Error != nil || !now.Recorded {
			w.Errorf("it is %+v", now)
		}
	},
	"a message that the model is given": func(w *world) {
		s := w.follow(newer, "outcome-1")
		own := filepath.Join(w.Root.Path(), "projects", transcript.Slug("/home/dev/project"), "2de3961d-6921-4e4d-8adb-18a75361dbe0")
		w.write(own+".jsonl", "{}")
		own = filepath.Join(own, "subagents", "agent-aworker-1")
		w.write(own+".meta.json", `{"name":"worker"}`)
		w.write(own+".jsonl", fmt.Sprintf(`{"type":"user","uuid":"u","version":"2.1.329","timestamp":%q,"message":{"content":"<teammate-message teammate_id=\"user\" verified=\"false\">\nwhat becomes of it?\n</teammate-message>"}}`,
			time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)))
		_, err := teamstest.Take(w.Context(), w.Inbox(newer, "worker"), func(r inbox.Row) bool { return true })
		w.must(err)
		now, err := w.b.Await(w.Context(), s, api.Seen, 3*time.Minute)
		w.must(err)
		if now.State != api.Seen {
			w.Errorf("it is %+v", now)
		}
	},
	"a message that nobody takes": func(w *world) {
		s := w.follow(newer, "outcome-1")
		now, err := w.b.Await(w.Context(), s, api.Consumed, 50*time.Millisecond)
		w.fails(err, api.CodeTimeout)
		if now.State != api.Verified || now.WaitedMs < s.WaitedMs+50 || now.ID != s.ID {
			w.Errorf("it is %+v", now)
		}
		if err != nil && err.Error() != "timed out after 50ms: worker has not taken the message, which stays in its inbox" {
			w.Errorf("the error is %v", err)
		}
	},
	"a message that another program overwrites": func(w *world) {
		w.follow(older, "in-front")
		s := w.follow(older, "outcome-1")
		gone, err := teamstest.Take(w.Context(), w.Inbox(older, "worker"), func(r inbox.Row) bool { return r.ID() == s.ID })
		if len(gone) != 1 {
			w.Fatalf("%d rows, %v", len(gone), err)
		}
		now, err := w.b.Await(w.Context(), s, api.Consumed, 3*time.Minute)
		w.fails(err, api.CodeLost)
		if now.State != api.Verified {
			w.Errorf("it is %+v", now)
		}
	},
	"a message that its relay gives up": func(w *world) {
		for reason, want := range map[string]api.Code{"agent died": api.CodeLost, ledger.CauseUnknown.Reason("its row is gone"): api.CodeUnknown} {
			s := w.follow(newer, "outcome-"+string(want))
			rows, err := w.Inbox(newer, "worker").Read(w.Context())
			w.must(err)
			l, row := w.ledger(), rows[len(rows)-1]
			d := ledger.Delivery{UUID: uuid.NewString(), InboxKey: w.inboxKey(), Key: row.Key(), Occurrence: 1, ID: row.ID(), From: row.From, Raw: row.Raw}
			w.must(l.Deliveries.Claim(w.Context(), d))
			_, err = w.Inbox(newer, "worker").MarkRead(w.Context(), s.ID)
			w.must(err)
			w.must(l.Deliveries.Mark(w.Context(), d.UUID))
			w.must(l.Deliveries.End(w.Context(), ledger.Failed, reason, d.UUID))
			_, err = w.b.Await(w.Context(), s, api.Seen, 3*time.Minute)
			w.fails(err, want)
		}
	},
	"a message to a team that ends": func(w *world) {
		s := w.follow(newer, "outcome-1")
		w.must(os.RemoveAll(w.Path(newer)))
		_, err := w.b.Await(w.Context(), s, api.Consumed, 3*time.Minute)
		if err == nil || errors.Is(err, api.CodeTimeout) {
			w.Errorf("the error is %v", err)
		}
	},
	"outcomes that are none": func(w *world) {
		s := w.follow(newer, "outcome-1")
		_, err := w.b.Await(w.Context(), s, "read", time.Minute)
		w.fails(err, api.CodeUsage)
		s.ID = "nobody-sent-it"
		_, err = w.b.Await(w.Context(), s, api.Consumed, 3*time.Minute)
		w.fails(err, api.CodeNotFound)
	},
	"who can answer": func(w *world) {
		if s := w.follow(newer, "outcome-1"); !s.NoAnswer {
			w.Errorf("it is %+v", s)
		}
		_, err := w.b.Join(w.Context(), newer, api.NewJoin{})
		w.must(err)
		if s := w.follow(newer, "outcome-2"); s.NoAnswer {
			w.Errorf("once joined, it is %+v", s)
		}
	},
	// A message in the inbox is verified, and a row that is marked as read was taken. Everything else is
	// unknown or refused.
	"an agent that is too old": func(w *world) {
		const old, why = "2.1.200", "is Claude Code 2.1.200, and teambridge needs 2.1.257 or newer: update it with claude update"
		w.write(filepath.Join(w.Root.Path(), "projects", transcript.Slug("/home/dev/project"), "2de3961d-6921-4e4d-8adb-18a75361dbe0.jsonl"),
			`{"type":"user","uuid":"u","version":"2.1.200","timestamp":"2026-11-21T15:04:05Z","message":{"content":"hi"}}`)
		taken, gone := w.follow(newer, "outcome-1"), w.follow(newer, "outcome-2")
		if taken.State != api.Verified || taken.Reachable || taken.Reach != "outdated" || taken.Unlisted != old {
			w.Errorf("sent %+v", taken)
		}
		_, err := w.Inbox(newer, "worker").MarkRead(w.Context(), taken.ID)
		w.must(err)
		if now, err := w.b.Await(w.Context(), taken, api.Consumed, 3*time.Minute); err != nil || now.State != api.Consumed {
			w.Errorf("marked as read, it is %+v, %v", now, err)
		}
		for _, until := range []string{api.Seen, api.Consumed} {
			_, err = w.b.Await(w.Context(), gone, until, 3*time.Minute)
			w.fails(err, api.CodeUnknown)
			if err == nil || !strings.Contains(err.Error(), "worker "+why) {
				w.Errorf("waited until it is %s: %v", until, err)
			}
			if until == api.Seen {
				_, err := teamstest.Take(w.Context(), w.Inbox(newer, "worker"), teamstest.All)
				w.must(err)
			}
		}
		before, err := os.ReadFile(filepath.Join(w.Path(newer), "config.json"))
		w.must(err)
		_, err = w.b.Ask(w.Context(), newer, "worker", "q", api.NewQuestion{NewMessage: api.NewMessage{Text: "how many?"}, Timeout: "20s"})
		w.fails(err, api.CodeRefused)
		if after, err := os.ReadFile(filepath.Join(w.Path(newer), "config.json")); err != nil || string(after) != string(before) {
			w.Errorf("asking has changed config.json, %v", err)
		}
		if rows, err := w.Inbox(newer, "worker").Read(w.Context()); err != nil || len(rows) != 0 {
			w.Errorf("asking has written %d rows, %v", len(rows), err)
		}
		for _, o := range []api.Occasion{{For: api.ForIdle, Member: "worker"}, {For: api.ForReply, Member: "worker"}, {For: api.ForAllIdle}} {
			o.Timeout = 20 * time.Second
			_, err := w.b.Wait(w.Context(), newer, o)
			w.fails(err, api.CodeRefused)
		}
		members, err := w.b.Members(w.Context(), newer)
		w.must(err)
		if i := slices.IndexFunc(members, func(m api.Member) bool { return m.Member == "worker" }); i < 0 || members[i].Version != old || !members[i].Outdated {
			w.Errorf("the members are %+v", members)
		}
		states, err := w.b.Status(w.Context(), newer)
		w.must(err)
		if i := slices.IndexFunc(states, func(s api.Status) bool { return s.Member == "worker" }); i < 0 || states[i].Word != api.WordUnknown || states[i].Why != "it "+why {
			w.Errorf("the states are %+v", states)
		}
	},
}

// follow sends a message to worker whose outcome is asked for later.
func (w *world) follow(team, id string) api.Sent {
	w.Helper()
	s, err := w.b.Send(w.Context(), team, "worker", id, api.NewMessage{Text: "what becomes of it?", Wait: api.Seen})
	w.must(err)
	return s
}
