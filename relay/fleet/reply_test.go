package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/runtimes"
)

// mute is a runtime whose agents send no messages.
type mute struct{ agent.Runtime }

func (mute) SendsMessages() bool { return false }

// instead replaces agents of OpenCode with simulated ones that send no messages.
func instead(f *Fleet) {
	f.prepare = func(ctx context.Context, opts *relay.Options, l runtimes.Launch, p *PermissionPrompter) error {
		if l.Settings.Runtime != runtimes.OpenCode {
			return Prepare(ctx, opts, l, p)
		}
		l.Settings.Runtime = ""
		err := Prepare(ctx, opts, l, p)
		opts.Runtime = mute{opts.Runtime}
		return err
	}
}

// rows returns the rows from a sender in an inbox.
func (h *harbour) rows(team, member, from string) (rows []inbox.Row) {
	h.t.Helper()
	all, err := h.Inbox(team, member).Read(h.t.Context())
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		h.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(r inbox.Row) bool { return r.From != from })
}

// An agent of OpenCode becomes a member of a team that others made. It answers, and leaves
// with its relay. If it is asked to shut down, it ends, and is not started again until it is
// retried.
func TestOpenCodeMember(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "boss", "worker")
	ctx := t.Context()
	member := func() bool {
		t.Helper()
		c, err := h.Team("red").Config(ctx)
		must(t, err)
		m, ok := c.Member("helper")
		if ok && m.Guest() {
			t.Errorf("helper counts as a person: %+v", m)
		}
		return ok
	}
	f, stop := h.sailWith(instead)
	entry := h.entry("red", "helper")
	entry.Runtime = runtimes.OpenCode
	id := h.add(f, entry)
	if !member() {
		t.Fatal("it is no member")
	}
	if known, err := h.ledger.Teams.Members(ctx, h.Root.Path(), "red"); err != nil || len(known) != 1 || known[0].Member != "helper" {
		t.Errorf("recorded are %+v, %v", known, err)
	}
	if joins, err := h.ledger.Teams.Joins(ctx, h.Root.Path(), "red", 1); err != nil || len(joins) > 0 {
		t.Errorf("joined, as people do, have %+v, %v", joins, err)
	}
	sender, err := mail.New(ctx, mail.Options{Team: h.Team("red"), Locker: h.Locker, Ledger: h.ledger})
	must(t, err)
	if to, err := sender.Audience(nil, false); err != nil || !slices.Equal(to, []string{"worker", "helper"}) {
		t.Errorf("a broadcast goes to %q, %v", to, err)
	}
	h.Send("red", "boss", "helper", "[1]")
	h.until(f, id, "done", func(s Status) bool {
		return s.Now.State == relay.Idle && len(h.rows("red", "boss", "helper")) == 1
	})

	shutdown := func() {
		t.Helper()
		_, err := h.Inbox("red", "helper").Append(ctx, inbox.Message{From: "boss", Text: `{"type":"shutdown_request","requestId":"r","reason":"bye"}`, Own: true}, inbox.AppendOptions{})
		must(t, err)
		s := h.until(f, id, "ended", state(relay.Ended))
		if s.Now.Reason != "boss asked it to shut down: bye" || member() {
			t.Errorf("%+v; member %v", s.Now, member())
		}
	}
	shutdown()
	must(t, stop())
	all, err := h.ledger.Relays.List(ctx, h.Root.Path())
	if must(t, err); len(all) != 1 {
		t.Fatalf("relays are %+v", all)
	}
	if must(t, f.enlist(ctx, &all[0])); member() {
		t.Error("it became a member again, and is shut down")
	}
	c, err := h.Team("red").Config(ctx)
	must(t, err)
	if info, _, err := relay.Stat(ctx, h.ledger, h.State, h.Team("red"), c, "helper"); err != nil || info.State != relay.Ended || info.Reason == "" {
		t.Errorf("%+v, %v", info, err)
	}
	f, stop = h.sailWith(instead)
	h.until(f, id, "still ended", state(relay.Ended))
	h.Send("red", "boss", "helper", "[2]")
	must(t, f.Retry(ctx, id))
	h.until(f, id, "answered again", func(Status) bool { return len(h.rows("red", "boss", "helper")) == 3 })
	if !member() {
		t.Error("it is no member again")
	}
	rows := h.rows("red", "boss", "helper")
	if !strings.Contains(rows[0].Text, "[1]") || rows[1].Kind() != "shutdown_approved" || !strings.Contains(rows[2].Text, "[2]") {
		t.Errorf("boss got %+v", rows)
	}
	shutdown()

	// Removed and added again, it runs again, and leaves with its relay.
	must(t, f.Remove(ctx, id, false))
	id = h.add(f, entry)
	h.until(f, id, "idle", state(relay.Idle))
	must(t, f.Remove(ctx, id, false))
	for deadline := time.Now().Add(2 * time.Minute); member(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has not left")
		}
	}
	must(t, stop())
	if all, err := h.ledger.Deliveries.List(ctx, ledger.DeliveryQuery{Inbox: "helper"}); err != nil || len(all) != 4 {
		t.Errorf("%d deliveries, %v", len(all), err)
	}
}
