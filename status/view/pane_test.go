package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/relay/tmux"
	"teambridge/status/api"
)

func TestPaneMessage(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1)
	for _, c := range []struct {
		name          string
		m             ledger.PaneMessage
		state, reason string
		fate          api.Fate
	}{
		{"waiting", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Claimed, At: at}}, api.Waiting, "", api.Fate{State: "claimed", Outcome: api.Outcome{Word: "waiting"}}},
		{
			"held", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Claimed}, Held: "draft", Detail: "somebody types", HeldSince: at},
			api.Waiting, "somebody types", api.Fate{State: "held", Reason: "somebody types", Outcome: api.Outcome{Word: "waiting", Why: "somebody types"}},
		},
		{"typed", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Accepted, At: at}}, api.Waiting, "it is being delivered", api.Fate{State: "accepted", Outcome: api.Outcome{Word: "waiting", Why: "it is being delivered"}}},
		{"confirmed", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Done, At: at}, Task: ledger.TaskSent}, api.Confirmed, "", api.Fate{State: "done", Outcome: api.Outcome{Word: "received"}}},
		{"given", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Done}, Task: ledger.TaskGiven, TaskAt: at}, api.Confirmed, "", api.Fate{State: "given", Outcome: api.Outcome{Word: "seen"}}},
		{"finished", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Done}, Task: ledger.TaskEnded, TaskAt: at}, api.Confirmed, "", api.Fate{State: "finished", Outcome: api.Outcome{Word: "done"}}},
		{"its end was not seen", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Done, At: at}, Task: ledger.TaskEnded, Lost: "gone"}, api.Confirmed, "", api.Fate{State: "done", Outcome: api.Outcome{Word: "received"}}},
		{
			"unconfirmed", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Failed, Reason: "unknown: no trace", At: at}},
			api.Unconfirmed, "no trace", api.Fate{State: "failed", Reason: "unknown: no trace", Outcome: api.Outcome{Word: "unknown", Why: "no trace"}},
		},
		{
			"not sent", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Failed, Reason: "not sent: a draft", At: at}},
			api.NotSent, "a draft", api.Fate{State: "failed", Reason: "not sent: a draft", Outcome: api.Outcome{Word: "not sent", Why: "a draft"}},
		},
		{"given up", ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Dropped, At: at}}, api.NotSent, "dropped", api.Fate{State: "dropped", Outcome: api.Outcome{Word: "given up"}}},
	} {
		if state, reason := PaneMessage(c.m); state != c.state || reason != c.reason {
			t.Errorf("%s: %q %q, want %q %q", c.name, state, reason, c.state, c.reason)
		}
		c.fate.At, c.fate.Pane = at, true
		if diff := cmp.Diff(&c.fate, paneFate(c.m)); diff != "" {
			t.Errorf("%s: fate (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestPaneStatus(t *testing.T) {
	t.Parallel()
	added, since, seen := time.UnixMilli(1).UTC(), time.UnixMilli(2).UTC(), time.UnixMilli(3).UTC()
	for _, c := range []struct {
		view                     pane.View
		word, why, state, detail string
		look, reason             string
		heard                    time.Time
	}{
		{pane.View{State: tmux.Empty}, api.WordIdle, "", api.StateIdle, api.DetailWaiting, api.PaneEmpty, "", since},
		{pane.View{State: tmux.Draft}, api.WordIdle, "something is typed at its prompt", api.StateIdle, api.DetailWaiting, api.PaneDraft, "draft", since},
		{pane.View{State: tmux.Busy}, api.WordWorking, "", api.StateActive, api.DetailWorking, api.PaneBusy, "", seen},
		{pane.View{State: tmux.Dialog, Why: "Proceed?"}, api.WordWaiting, "Proceed?", api.StateActive, api.DetailWorking, api.PaneDialog, "dialog", since},
		{pane.View{State: tmux.Closed, Why: "bash is in front"}, api.WordEnded, "bash is in front", api.StateTerminated, api.DetailShutDown, api.PaneClosed, "not_agent", since},
		{pane.View{State: tmux.Gone, Why: "gone"}, api.WordEnded, "gone", api.StateTerminated, api.DetailShutDown, api.PaneGone, "gone", since},
		{pane.View{State: tmux.Unknown, Why: "?"}, api.WordUnknown, "?", api.StateIdle, api.DetailWaiting, api.PaneUnknown, "unknown", since},
		{pane.View{State: tmux.Empty, Terminal: tmux.Pane{Mode: "copy-mode"}}, api.WordIdle, "", api.StateIdle, api.DetailWaiting, api.PaneClosed, "in_mode", since},
	} {
		v := c.view
		v.Pane, v.Since, v.At = pane.Pane{InboxKey: inbox.InboxKey{Team: "tmux", Inbox: "build"}, Profile: tmux.Claude, At: added}, since, seen
		v.Messages = []ledger.PaneMessage{{Delivery: ledger.Delivery{State: ledger.Claimed}, Detail: "why"}, {Delivery: ledger.Delivery{State: ledger.Done}}}
		s := PaneStatus(v)
		want := api.Status{
			Team: "tmux", Member: "build", Basis: api.BasisPane, Unread: 1, Word: c.word, Why: c.why, State: c.state, Detail: c.detail,
			WordSince: since, Since: since, Heard: c.heard,
		}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("%s: status (-want +got):\n%s", v.State, diff)
		}
		p := Pane(v)
		if p.Look.State != c.look || p.Look.Reason != c.reason || p.Queue != 1 || p.Reason != "why" {
			t.Errorf("%s: %+v, look %+v; want the state %q and the reason %q", v.State, p, p.Look, c.look, c.reason)
		}
	}
	if p := (Pane(pane.View{})); p.Look != nil {
		t.Errorf("a look at a pane that nobody looked at: %+v", p.Look)
	}
}

// A message that a session holds is not shown as failed, nor twice as unknown.
func TestFateOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	held := paneFate(ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Failed, Reason: ledger.CauseUnknown.Reason("held until its person allows it")}})
	if got, want := FateText(held), "unknown (held until its person allows it), "; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	refused := paneFate(ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Failed, Reason: ledger.CauseNotSent.Reason("its person did not allow it")}})
	if got, want := FateText(refused), "not sent (its person did not allow it), "; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
