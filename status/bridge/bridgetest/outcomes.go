package bridgetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/teams/teamstest"
	"teambridge/teams/transcript"
)

// outcomes are the cases of what becomes of a message.
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
		if s := w.follow(older, "outcome-1"); s.NoAnswer {
			w.Errorf("it is %+v", s)
		}
	},
}

// follow sends a message to worker whose outcome will be asked for.
func (w *world) follow(team, id string) api.Sent {
	w.Helper()
	s, err := w.b.Send(w.Context(), team, "worker", id, api.NewMessage{Text: "what becomes of it?", Follow: true})
	w.must(err)
	return s
}
