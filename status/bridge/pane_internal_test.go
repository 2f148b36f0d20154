package bridge

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

// Who waits until the model of a session has a message learns that the session lost the message, and that nobody knows
// what became of it.
func TestConfirmedAndLost(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	lg, err := ledger.Open(t.Context(), filepath.Join(f.State, "ledger.db"))
	must(t, err)
	defer lg.Close()
	l := New(Options{
		Root:   func() (*teams.Root, error) { return f.Root, nil },
		Ledger: func(context.Context) (*ledger.Ledger, error) { return lg, nil },
		State:  f.State, Locker: f.Locker, Warn: teamstest.Warn(t), Debug: func(string, ...any) {},
	})
	of, err := lg.Panes.AddSession(t.Context(), ledger.Pane{
		InboxKey: inbox.InboxKey{Root: f.Root.Path(), Inbox: "api"}, ID: "5e55104e-0000-4000-8000-000000000000", PID: 1 << 22, Profile: "session", Cwd: "/work",
	})
	must(t, err)
	for id, tc := range map[string]struct {
		end  func(frame, uuid string) error
		want api.Code
	}{
		"de11fe4a-0000-4000-8000-000000000001": {func(frame, uuid string) error {
			return lg.PaneMessages.FailFrame(t.Context(), frame, ledger.CauseUnknown.Reason("it shows nothing"), "", ledger.TaskNone)
		}, api.CodeUnknown},
		"de11fe4a-0000-4000-8000-000000000002": {func(frame, uuid string) error {
			return lg.PaneMessages.FailFrame(t.Context(), frame, ledger.CauseNotSent.Reason("it refused it"), "refused", ledger.TaskNone)
		}, api.CodeTimeout},
		"de11fe4a-0000-4000-8000-000000000003": {func(frame, uuid string) error {
			return errors.Join(lg.PaneMessages.ReturnFrame(t.Context(), frame, "it has ended"), lg.Deliveries.Drop(t.Context(), uuid))
		}, api.CodeTimeout},
	} {
		_, _, err := lg.PaneMessages.Add(t.Context(), ledger.PaneMessage{Policy: api.PolicyQueued, Delivery: ledger.Delivery{
			UUID: id, InboxKey: of.InboxKey, ID: id, From: "user", Kind: "message", Raw: []byte("hello"), Person: true, Isolated: true,
		}}, [32]byte{id[35]})
		must(t, err)
		paste := func(frame string) {
			must(t, lg.PaneMessages.PasteFrame(t.Context(), ledger.Frame{
				UUID: frame, InboxKey: of.InboxKey, Kind: ledger.FrameCommand, Bytes: []byte(`"hello"`), Session: "s", State: ledger.FrameWritten, At: time.Now(),
			}, id))
		}
		frame := "f" + id[1:]
		paste(frame)
		must(t, lg.PaneMessages.ConfirmFrame(t.Context(), frame, "", ledger.TaskSent, ""))
		m, _, err := lg.PaneMessages.Message(t.Context(), id)
		must(t, err)
		sent := view.PaneSent(m, false)
		must(t, lg.PaneMessages.SendAgain(t.Context(), of.InboxKey, id))
		paste("e" + id[1:])
		must(t, tc.end("e"+id[1:], id))
		now, err := paneWay{l}.given(t.Context(), t.Context(), sent, time.Minute)
		if !errors.Is(err, tc.want) || sent.State != api.Confirmed || now.State == api.Confirmed {
			t.Errorf("it was %s, and is %s: %v; want %s", sent.State, now.State, err, tc.want)
		}
	}
}
