package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"teambridge/inbox"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const paneRoot = "/home/ann/.claude"

func aPane(name string, n int) Pane {
	return Pane{InboxKey: inbox.InboxKey{Root: paneRoot, Inbox: name}, Socket: "/tmp/tmux-1/default", Server: 100, ID: fmt.Sprint("%", n), PID: 1000 + n, Profile: "claude", At: monday}
}

func mustAddPane(t testing.TB, l *Ledger, name string, n int) Pane {
	t.Helper()
	p, err := l.Panes.Add(t.Context(), aPane(name, n), false)
	must(t, err)
	return p
}

func aPaneMessage(k inbox.InboxKey, uuid, policy string) PaneMessage {
	d := anInput(uuid)
	d.InboxKey, d.ID, d.At = k, "id-"+uuid, monday
	return PaneMessage{Delivery: d, Policy: policy, Notify: true}
}

func put(t testing.TB, l *Ledger, m PaneMessage) PaneMessage {
	t.Helper()
	got, again, err := l.PaneMessages.Add(t.Context(), m, [32]byte{1})
	if err != nil || again {
		t.Fatalf("put %s: again %t, %v", m.UUID, again, err)
	}
	return got
}

func paneFrame(k inbox.InboxKey, uuid string) Frame {
	return Frame{UUID: uuid, InboxKey: k, Kind: FrameCommand, Bytes: []byte(`"hello"`), At: tuesday}
}

func mustPaneMessage(t testing.TB, l *Ledger, uuid string) PaneMessage {
	t.Helper()
	m, found, err := l.PaneMessages.Message(t.Context(), uuid)
	if err != nil || !found {
		t.Fatalf("%s: found %t, %v", uuid, found, err)
	}
	return m
}

func TestAddPane(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	first := mustAddPane(t, l, "worker", 1)
	if first.Team != PaneTeam || first.CreatedAt != monday.UnixMilli() {
		t.Errorf("got %v", first.InboxKey)
	}
	later := aPane("tester", 2)
	later.At = tuesday
	second, err := l.Panes.Add(t.Context(), later, false)
	if err != nil || second.CreatedAt != first.CreatedAt {
		t.Errorf("the second pane: %v, %v, want one team instance", second.InboxKey, err)
	}
	for what, p := range map[string]Pane{"the name": aPane("worker", 9), "the pane": aPane("other", 1)} {
		var exists *PaneExistsError
		if _, err := l.Panes.Add(t.Context(), p, false); !errors.As(err, &exists) || exists.Pane.Inbox != "worker" || !errors.Is(err, ErrConflict) {
			t.Errorf("%s is in use: %v", what, err)
		}
	}
	if _, err := l.Panes.Add(t.Context(), aPane("tester", 1), true); err == nil {
		t.Error("another name was given a registered pane")
	}
	elsewhere := aPane("worker", 1)
	elsewhere.Root = "/elsewhere"
	if _, err := l.Panes.Add(t.Context(), elsewhere, false); err != nil {
		t.Errorf("in another root: %v", err)
	}
	put(t, l, aPaneMessage(first.InboxKey, "a", "queued"))
	replaced, err := l.Panes.Add(t.Context(), aPane("worker", 7), true)
	if err != nil || replaced.ID != "%7" || replaced.InboxKey != first.InboxKey {
		t.Errorf("replaced: %+v, %v", replaced, err)
	}
	if m := mustPaneMessage(t, l, "a"); m.State != Claimed {
		t.Errorf("the message is %s, want it to wait for the new pane", m.State)
	}
	all, err := l.Panes.List(t.Context(), paneRoot)
	if err != nil || len(all) != 2 || all[0].Inbox != "tester" || all[1].ID != "%7" {
		t.Errorf("got %v, %v", all, err)
	}
	var bad *ValueError
	if _, err := l.Panes.Add(t.Context(), Pane{InboxKey: inbox.InboxKey{Root: paneRoot, Inbox: "x"}}, false); !errors.As(err, &bad) {
		t.Errorf("a pane without an id: %v", err)
	}
}

func TestRemovePane(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := mustAddPane(t, l, "worker", 1)
	for _, uuid := range []string{"done", "flying", "waiting"} {
		put(t, l, aPaneMessage(p.InboxKey, uuid, "queued"))
	}
	must(t, l.PaneMessages.PasteFrame(t.Context(), paneFrame(p.InboxKey, "f1"), "done"))
	must(t, l.PaneMessages.ConfirmFrame(t.Context(), "f1", "", TaskArmed, ""))
	must(t, l.PaneMessages.PasteFrame(t.Context(), paneFrame(p.InboxKey, "f2"), "flying"))
	dropped, err := l.Panes.Remove(t.Context(), p.InboxKey, "it was removed")
	if err != nil || dropped != 1 {
		t.Fatalf("dropped %d, %v", dropped, err)
	}
	for uuid, want := range map[string]DeliveryState{"done": Done, "flying": Failed, "waiting": Dropped} {
		if m := mustPaneMessage(t, l, uuid); m.State != want || m.Task.Open() {
			t.Errorf("%s is %s, task %s, want %s", uuid, m.State, m.Task, want)
		}
	}
	if m := mustPaneMessage(t, l, "done"); m.Lost != "it was removed" {
		t.Errorf("its task: %q", m.Lost)
	}
	if ended, err := l.PaneMessages.EndedTasks(t.Context(), paneRoot); err != nil || len(ended) != 1 {
		t.Errorf("%d senders are to be told, %v, want 1", len(ended), err)
	}
	if _, err := l.Panes.Remove(t.Context(), p.InboxKey, ""); !errors.Is(err, ErrUnknown) {
		t.Errorf("a second time: %v", err)
	}
	// The team is as old as its first pane, and this pane is the first one again.
	next := aPane("worker", 1)
	next.At = tuesday
	if again, err := l.Panes.Add(t.Context(), next, false); err != nil || again.CreatedAt != tuesday.UnixMilli() {
		t.Errorf("added again: %v, %v", again.InboxKey, err)
	}
}

func TestPaneMessagesAreSentOnce(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := mustAddPane(t, l, "worker", 1)
	m := aPaneMessage(p.InboxKey, "a", "important")
	m.SaveDraft, m.NotifyTo = true, bob
	got := put(t, l, m)
	if got.Policy != "important" || !got.SaveDraft || got.NotifyTo != bob || !got.Notify || string(got.Raw) != string(m.Raw) || !got.Since.Equal(monday) {
		t.Errorf("recorded as %+v", got)
	}
	again, repeated, err := l.PaneMessages.Add(t.Context(), m, [32]byte{1})
	if err != nil || !repeated || again.Seq != got.Seq {
		t.Errorf("again: %t, %v", repeated, err)
	}
	if _, _, err := l.PaneMessages.Add(t.Context(), m, [32]byte{2}); !errors.Is(err, ErrConflict) {
		t.Errorf("another message with its id: %v", err)
	}
	nobody := aPaneMessage(bob, "b", "queued")
	if _, _, err := l.PaneMessages.Add(t.Context(), nobody, [32]byte{1}); !errors.Is(err, ErrUnknown) {
		t.Errorf("an inbox without a pane: %v", err)
	}
	s := aSession()
	s.State = RelayRunning
	must(t, l.Sessions.SetSession(t.Context(), s))
	member := aPane("", 5)
	member.InboxKey = s.InboxKey
	must(t, l.Panes.Set(t.Context(), member))
	if _, _, err := l.PaneMessages.Add(t.Context(), aPaneMessage(s.InboxKey, "c", "queued"), [32]byte{1}); !errors.Is(err, ErrConflict) {
		t.Errorf("an inbox with a relay: %v", err)
	}
	if list, err := l.Deliveries.Waiting(t.Context(), p.InboxKey); err != nil || len(list) != 0 {
		t.Errorf("a relay would get %v, %v", list, err)
	}
}

func TestPaneMessagesInOrder(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := mustAddPane(t, l, "worker", 1)
	for _, m := range [][2]string{{"a", "queued"}, {"b", "when-idle"}, {"c", "important"}, {"d", "urgent"}, {"e", "queued"}} {
		put(t, l, aPaneMessage(p.InboxKey, m[0], m[1]))
	}
	order := func() (got []string) {
		list, err := l.PaneMessages.List(t.Context(), p.InboxKey)
		must(t, err)
		for _, m := range list {
			got = append(got, m.UUID)
		}
		return got
	}
	if diff := cmp.Diff([]string{"c", "d", "a", "b", "e"}, order()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	must(t, l.PaneMessages.PasteFrame(t.Context(), paneFrame(p.InboxKey, "f"), "e"))
	if diff := cmp.Diff([]string{"e", "c", "d", "a", "b"}, order()); diff != "" {
		t.Errorf("with one in flight (-want +got):\n%s", diff)
	}
	open, err := l.PaneMessages.Open(t.Context(), paneRoot)
	if err != nil || len(open) != 5 {
		t.Errorf("%d are open, %v", len(open), err)
	}
	if open, err := l.PaneMessages.Open(t.Context(), "/elsewhere"); err != nil || len(open) != 0 {
		t.Errorf("%d are open elsewhere, %v", len(open), err)
	}
}

// A step of a frame is accepted or refused in each state of the frame.
func TestPaneFrames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		before string
		step   string
		want   DeliveryState // "": refused
		task   Task
	}{
		{"waits", "paste", FrameWritten, ""}, {"pasted", "paste", "", ""}, {"dropped", "paste", "", ""},
		{"pasted", "return", Claimed, ""}, {"entered", "return", "", ""}, {"confirmed", "return", "", ""},
		{"pasted", "confirm", Done, TaskArmed}, {"entered", "confirm", Done, TaskArmed}, {"confirmed", "confirm", "", ""}, {"failed", "confirm", "", ""},
		{"failed", "retry", Claimed, ""}, {"confirmed", "retry", "", ""}, {"failed", "drop", Dropped, ""}, {"waits", "drop", Dropped, ""},
		{"pasted", "drop", "", ""},
	} {
		t.Run(test.before+" "+test.step, func(t *testing.T) {
			l := newLedger(t)
			p := mustAddPane(t, l, "worker", 1)
			put(t, l, aPaneMessage(p.InboxKey, "a", "queued"))
			steps := map[string]func(string) error{
				"paste":   func(f string) error { return l.PaneMessages.PasteFrame(t.Context(), paneFrame(p.InboxKey, f), "a") },
				"enter":   func(f string) error { return l.Frames.Advance(t.Context(), f, Accepted, "") },
				"return":  func(f string) error { return l.PaneMessages.ReturnFrame(t.Context(), f, "in_mode") },
				"confirm": func(f string) error { return l.PaneMessages.ConfirmFrame(t.Context(), f, "", TaskArmed, "") },
				"fail":    func(f string) error { return l.Frames.Advance(t.Context(), f, Failed, "unknown: gone") },
				"drop":    func(string) error { return l.Deliveries.Drop(t.Context(), "a") },
				"retry":   func(string) error { return l.Deliveries.Retry(t.Context(), "a") },
			}
			for _, step := range map[string][]string{
				"pasted": {"paste"}, "entered": {"paste", "enter"}, "confirmed": {"paste", "enter", "confirm"}, "failed": {"paste", "fail"}, "dropped": {"drop"},
			}[test.before] {
				must(t, steps[step]("f"))
			}
			was := dump(t, l)
			frame := "f"
			if test.step == "paste" {
				frame = "g"
			}
			err := steps[test.step](frame)
			if test.want == "" {
				var refused *StateError
				if !errors.As(err, &refused) || dump(t, l) != was {
					t.Errorf("got %v, want it refused and nothing changed", err)
				}
				return
			}
			must(t, err)
			m := mustPaneMessage(t, l, "a")
			if m.State != test.want || m.Task != test.task || m.SentAt.IsZero() != (test.step == "return" || test.before == "waits" && test.step != "paste") {
				t.Errorf("it is %s, task %q, sent at %v", m.State, m.Task, m.SentAt)
			}
		})
	}
}

func TestHeldPaneMessages(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := mustAddPane(t, l, "worker", 1)
	put(t, l, aPaneMessage(p.InboxKey, "a", "queued"))
	must(t, l.PaneMessages.Hold(t.Context(), "a", "draft", "typed", tuesday))
	first := mustPaneMessage(t, l, "a")
	if first.Held != "draft" || first.Detail != "typed" || first.Tries != 1 || !first.NextTry.Equal(tuesday) || first.HeldSince.IsZero() {
		t.Errorf("held as %+v", first)
	}
	must(t, l.PaneMessages.Hold(t.Context(), "a", "draft", "typed more", tuesday))
	second := mustPaneMessage(t, l, "a")
	if !second.HeldSince.Equal(first.HeldSince) || second.Tries != 2 || second.Detail != "typed more" {
		t.Errorf("for the same reason: %+v", second)
	}
	must(t, l.PaneMessages.Hold(t.Context(), "a", "dialog", "asks", tuesday))
	if third := mustPaneMessage(t, l, "a"); !third.HeldSince.After(first.HeldSince) {
		t.Errorf("for another reason since %v, before that %v", third.HeldSince, first.HeldSince)
	}
	must(t, l.Deliveries.End(t.Context(), Failed, "not sent", "a"))
	must(t, l.Deliveries.Retry(t.Context(), "a"))
	if m := mustPaneMessage(t, l, "a"); m.Held != "" || m.Tries != 0 || !m.NextTry.IsZero() || !m.Since.After(tuesday) {
		t.Errorf("retried: %+v", m)
	}
}

// sentToPane adds a message, pastes it in a frame and confirms the frame.
func sentToPane(t testing.TB, l *Ledger, p Pane, uuid string, task Task) {
	t.Helper()
	put(t, l, aPaneMessage(p.InboxKey, uuid, "queued"))
	must2 := func(err error) {
		must(t, err)
	}
	must2(l.PaneMessages.PasteFrame(context.Background(), paneFrame(p.InboxKey, "f-"+uuid), uuid))
	must2(l.PaneMessages.ConfirmFrame(context.Background(), "f-"+uuid, "", task, ""))
}

func TestTwoPhases(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := mustAddPane(t, l, "worker", 1)
	turn := func(want string) {
		t.Helper()
		if got, err := l.PaneMessages.NextTurnEnded(t.Context(), p.InboxKey, ""); err != nil || got != want {
			t.Errorf("the turn ended %q, %v, want %q", got, err, want)
		}
	}
	turn("")
	sentToPane(t, l, p, "a", TaskStaged) // to a busy agent
	turn("")                             // the end of its previous work
	turn("a")
	sentToPane(t, l, p, "b", TaskArmed) // to an idle agent
	turn("b")
	turn("")
	// Of three messages in a row, each ends with a turn of its own.
	sentToPane(t, l, p, "c", TaskArmed)
	sentToPane(t, l, p, "d", TaskArmed)
	sentToPane(t, l, p, "e", TaskStaged)
	if m := mustPaneMessage(t, l, "d"); m.Task != TaskStaged {
		t.Errorf("the second is %s at once", m.Task)
	}
	turn("c")
	turn("d")
	turn("e")
}

func TestAnswerToPaneMessages(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := mustAddPane(t, l, "worker", 1)
	sentToPane(t, l, p, "a", TaskSent)
	sentToPane(t, l, p, "b", TaskSent)
	sentToPane(t, l, p, "c", TaskSent)
	given, said, over := monday.Add(time.Hour), monday.Add(2*time.Hour), monday.Add(3*time.Hour)
	must(t, l.PaneMessages.TaskGiven(t.Context(), "a", given, "/t.jsonl"))
	must(t, l.PaneMessages.TaskGiven(t.Context(), "b", time.Time{}, "/t.jsonl"))
	ended, err := l.PaneMessages.EndTasks(t.Context(), p.InboxKey, TaskEnd{At: over, Answer: "All done.", Said: said}, "a", "b")
	if err != nil || !slices.Equal(ended, []string{"a", "b"}) {
		t.Fatalf("ended %v, %v", ended, err)
	}
	for _, uuid := range ended {
		m := mustPaneMessage(t, l, uuid)
		var row answer
		if err := json.Unmarshal(m.Answer, &row); err != nil || row.Text != "All done." || row.From != "worker" || !slices.Equal(row.InReplyTo, []string{"id-a", "id-b"}) {
			t.Errorf("the answer to %s: %s, %v", uuid, m.Answer, err)
		}
	}
	sentToPane(t, l, p, "late", TaskSent)
	if _, err := l.PaneMessages.EndTasks(t.Context(), p.InboxKey, TaskEnd{At: time.Now().Add(time.Hour)}, "late"); err != nil || mustPaneMessage(t, l, "late").TaskAt.After(time.Now()) {
		t.Errorf("a task ended at a time to come: %v", err)
	}
	if again, err := l.PaneMessages.EndTasks(t.Context(), p.InboxKey, TaskEnd{Answer: "Again."}, "a", "b"); err != nil || len(again) > 0 {
		t.Errorf("a second time ended %v, %v", again, err)
	}
	events, err := l.Events.After(t.Context(), 0, 100)
	must(t, err)
	var answers [][]byte
	times := map[string][]time.Time{}
	for _, e := range events {
		if e.Answer != "" {
			answers, times["answer"] = append(answers, e.Row), append(times["answer"], e.At)
		} else if e.State == EventGiven && e.Delivery == "a" || e.State == EventFinished && e.Delivery != "late" {
			times[string(e.State)] = append(times[string(e.State)], e.At)
		}
	}
	if diff := cmp.Diff(map[string][]time.Time{"given": {given}, "answer": {said}, "finished": {over, over}}, times); diff != "" {
		t.Errorf("the times of the events (-want +got):\n%s", diff)
	}
	if len(answers) != 1 || !bytes.Equal(answers[0], mustPaneMessage(t, l, "a").Answer) {
		t.Errorf("events have %q, want one answer", answers)
	}
	if m := mustPaneMessage(t, l, "c"); m.Task != TaskSent {
		t.Errorf("the other is %s", m.Task)
	}
}

func TestEndedTasksUntilNotified(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := mustAddPane(t, l, "worker", 1)
	for _, uuid := range []string{"agent", "person", "quiet"} {
		m := aPaneMessage(p.InboxKey, uuid, "queued")
		m.Notify = uuid != "quiet"
		if uuid == "agent" {
			m.NotifyTo = bob
		}
		put(t, l, m)
		must(t, l.PaneMessages.PasteFrame(t.Context(), paneFrame(p.InboxKey, "f-"+uuid), uuid))
		must(t, l.PaneMessages.ConfirmFrame(t.Context(), "f-"+uuid, "", TaskSent, "/t"))
	}
	list := func(want ...string) {
		t.Helper()
		ended, err := l.PaneMessages.EndedTasks(t.Context(), paneRoot)
		var got []string
		for _, m := range ended {
			got = append(got, m.UUID)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("to be notified: %v, %v, want %v", got, err, want)
		}
	}
	list()
	must(t, l.PaneMessages.LoseTasks(t.Context(), p.InboxKey, "gone"))
	list("agent", "person")
	must(t, l.PaneMessages.Notified(t.Context(), "agent"))
	list("person")
	must(t, l.Person.Dismiss(t.Context(), paneRoot, "person", time.Now()))
	list()
}

// Prune removes the rows of messages with their deliveries, and keeps open ones.
func TestPrunePaneMessages(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	p := mustAddPane(t, l, "worker", 1)
	sentToPane(t, l, p, "old", TaskSent)
	put(t, l, aPaneMessage(p.InboxKey, "waits", "queued"))
	if _, err := l.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n, err := number(l, "SELECT count(*) FROM pane_messages"); err != nil || n != 1 {
		t.Errorf("%d rows are left, %v, want that of the message that waits", n, err)
	}
	mustPaneMessage(t, l, "waits")
	if all, err := l.Panes.List(t.Context(), paneRoot); err != nil || len(all) != 1 {
		t.Errorf("panes: %v, %v", all, err)
	}
}

// No message is reported as ended before a turn that had it has ended, in whatever order messages are sent, turns end
// and hooks are lost. The model agent either adds a message that is sent in mid-turn to the same turn, or starts
// another turn for each.
func TestStopNotificationIsNeverEarly(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++ // each case has a pane of its own
		p, err := l.Panes.Add(context.Background(), aPane(fmt.Sprint("worker", n), n), false)
		if err != nil {
			r.Fatal(err)
		}
		joins := rapid.Bool().Draw(r, "messages of mid-turn join")
		busy, sentCount := false, 0
		var queue, turn []string // the messages that the agent keeps, and those in its turn
		over := map[string]bool{}
		said := map[string]bool{}
		send := func() {
			uuid := fmt.Sprintf("m%d-%d", n, sentCount)
			sentCount++
			task := TaskArmed
			if busy {
				task = TaskStaged
				queue = append(queue, uuid)
			} else {
				busy, turn = true, append(turn, uuid)
			}
			if _, _, err := l.PaneMessages.Add(context.Background(), aPaneMessage(p.InboxKey, uuid, "queued"), [32]byte{1}); err != nil {
				r.Fatal(err)
			}
			if err := errors.Join(l.PaneMessages.PasteFrame(context.Background(), paneFrame(p.InboxKey, "f-"+uuid), uuid), l.PaneMessages.ConfirmFrame(context.Background(), "f-"+uuid, "", task, "")); err != nil {
				r.Fatal(err)
			}
		}
		end := func(hook bool) {
			if !busy {
				return
			}
			for _, uuid := range turn {
				over[uuid] = true
			}
			turn, busy = nil, false
			if hook {
				ended, err := l.PaneMessages.NextTurnEnded(context.Background(), p.InboxKey, "")
				if err != nil {
					r.Fatal(err)
				}
				if ended != "" && !over[ended] {
					r.Fatalf("%s was told to have ended, and it has not", ended)
				}
				if said[ended] && ended != "" {
					r.Fatalf("%s was told to have ended twice", ended)
				}
				said[ended] = true
			}
			if len(queue) > 0 { // the next turn begins
				n := 1
				if joins {
					n = len(queue)
				}
				busy, turn, queue = true, queue[:n:n], queue[n:]
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"send":         func(*rapid.T) { send() },
			"own task":     func(*rapid.T) { busy = true },
			"turn ends":    func(*rapid.T) { end(true) },
			"hook is lost": func(*rapid.T) { end(false) },
			"taken mid-turn": func(*rapid.T) {
				if busy && joins {
					turn, queue = append(turn, queue...), nil
				}
			},
		})
		// Every task ends at some time: enough turns end all of them.
		for range 2*sentCount + 2 {
			busy = true
			end(true)
		}
		for uuid := range over {
			if !said[uuid] {
				r.Fatalf("nobody was told that %s has ended", uuid)
			}
		}
	})
}

func TestPaneErrorsSayWhat(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	mustAddPane(t, l, "worker", 1)
	_, err := l.Panes.Add(t.Context(), aPane("worker", 1), false)
	if err == nil || !strings.Contains(err.Error(), "worker") || !strings.Contains(err.Error(), "%1") {
		t.Errorf("got %v", err)
	}
}

// No session takes the record of another one, whatever their ids are.
func TestSessionsOfOneName(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	names := map[string]string{} // by id
	for i, id := range []string{"5e55104e-0000-4000-8000-000000000001", "5e5", "5", "5e55104e-0000-4000-8000-000000000002"} {
		p := aPane("work", i)
		p.ID, p.Server, p.Team = id, 0, SessionTeam
		got, err := l.Panes.AddSession(t.Context(), p)
		must(t, err)
		names[id] = got.Inbox
	}
	all, err := l.Panes.List(t.Context(), paneRoot)
	if err != nil || len(all) != len(names) {
		t.Errorf("%d of %d sessions are recorded, %v", len(all), len(names), err)
	}
	for _, p := range all {
		if names[p.ID] != p.Inbox {
			t.Errorf("%s is called %s, want %s", p.ID, p.Inbox, names[p.ID])
		}
	}
}

// A renamed session keeps the messages to and from it, and the id of a message still sends it once.
func TestRenameSession(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	session := func(name, id string, pid int) Pane {
		p, err := l.Panes.AddSession(t.Context(), Pane{InboxKey: inbox.InboxKey{Root: paneRoot, Inbox: name}, ID: id, PID: pid, Start: "1", Profile: "session", At: monday})
		must(t, err)
		return p
	}
	web, api := session("web", "s-1", 1), session("api", "s-2", 2)
	m := aPaneMessage(web.InboxKey, "a", "queued")
	put(t, l, m)
	you := inbox.InboxKey{Root: paneRoot, Team: SessionTeam, CreatedAt: SessionTeamCreated, Inbox: "user"}
	for _, from := range []string{"web", "api"} {
		_, err := l.Person.AddSaid(t.Context(), you, from, "said-"+from, "hello", "")
		must(t, err)
	}
	if err := l.Panes.RenameSession(t.Context(), web.InboxKey, "shop"); !errors.Is(err, ErrConflict) {
		t.Errorf("renamed while a message is on its way: %v", err)
	}
	must(t, l.PaneMessages.PasteFrame(t.Context(), paneFrame(web.InboxKey, "f"), "a"))
	must(t, l.PaneMessages.ConfirmFrame(t.Context(), "f", "", TaskArmed, ""))
	if err := l.Panes.RenameSession(t.Context(), web.InboxKey, api.Inbox); !errors.Is(err, ErrConflict) {
		t.Errorf("two have a name: %v", err)
	}
	must(t, l.Panes.RenameSession(t.Context(), web.InboxKey, "shop"))
	if err := l.Panes.RenameSession(t.Context(), web.InboxKey, "shop"); !errors.Is(err, ErrUnknown) {
		t.Errorf("nobody has the old name: %v", err)
	}
	// Another process with the same session id is the session, resumed.
	if again := session("web", "s-1", 7); again.Inbox != "shop" {
		t.Errorf("resumed, it is %s", again.Inbox)
	}
	if got := mustPaneMessage(t, l, "a"); got.Inbox != "shop" {
		t.Errorf("the message is one to %s", got.Inbox)
	}
	m.Inbox, m.UUID = "shop", "b"
	if got, again, err := l.PaneMessages.Add(t.Context(), m, [32]byte{1}); err != nil || !again || got.UUID != "a" {
		t.Errorf("sent again under its id: %s, again %t, %v", got.UUID, again, err)
	}
	said, err := l.Person.Said(t.Context(), paneRoot)
	if err != nil || len(said) != 2 || said[0].From != "shop" || said[1].From != "api" {
		t.Errorf("said %v, %v", said, err)
	}
}

// Sessions with one id in two directories are two sessions.
func TestSessionsOfTwoHomes(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	add := func(home string, pid int) Pane {
		t.Helper()
		p := aPane("codex-1", 1)
		p.ID, p.PID, p.Server, p.Team, p.Home = "5e55104e-0000-4000-8000-000000000001", pid, 0, SessionTeam, home
		got, err := l.Panes.AddSession(t.Context(), p)
		must(t, err)
		return got
	}
	first, second := add("/a", 11), add("/b", 22)
	if again := add("/a", 33); again.Inbox != first.Inbox || second.Inbox == first.Inbox {
		t.Errorf("the first is %s, resumed it is %s, and the second is %s", first.Inbox, again.Inbox, second.Inbox)
	}
	if p, found, err := l.Panes.Pane(t.Context(), second.InboxKey); err != nil || !found || p.Home != "/b" || p.PID != 22 {
		t.Errorf("the second is recorded as %+v, %v", p, err)
	}
}
