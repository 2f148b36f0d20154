package client_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
)

// A client gets the envelopes of a relay's agent once and in order, page by page and from streams.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := ledger.Open(ctx, filepath.Join(w.State, "ledger.db"))
	must(t, err)
	relay, err := l.Relays.Add(ctx, ledger.Relay{Root: w.Root.Path(), Team: older, Member: "worker", Command: []string{"claude"}, Dir: t.TempDir(), OnCut: "nudge", Permissions: "deny"})
	must(t, err)
	must(t, l.Close())
	readOnly := func(o *server.Options) { o.ReadOnly = true } // it runs no agent
	w.serve(readOnly)
	j, err := journal.Open(ctx, filepath.Join(w.State, "journal.db"))
	must(t, err)
	defer j.Close()
	team, err := w.Root.Team(older)
	must(t, err)
	defer team.Close()
	config, err := team.Config(ctx)
	must(t, err)
	var want []string
	begin := time.Now()
	says := func(count int) {
		t.Helper()
		for range count {
			n := len(want)
			at := begin.Add(time.Duration(n) * time.Second)
			e := journal.Envelope{
				InboxKey: inbox.Key(w.Root.Path(), config.Instance(), "worker"), ID: fmt.Sprint("e", n),
				Session: "s", Turn: "t", Kind: "text", Role: "agent", At: at,
				Raw: fmt.Appendf(nil, `{"id":"e%d","time":%d,"role":"agent","turn":"t","ev":{"t":"text","text":"step %d","thinking":%v}}`, n, at.UnixMilli(), n, n == 0),
			}
			if _, err := j.Envelopes.Record(ctx, e, e); err != nil {
				t.Fatal(err)
			}
			want = append(want, e.Text())
		}
	}
	says(40)
	c := w.find()
	var got []string
	for after := client.After(0); len(got) < len(want); { // in streams that end
		for e, err := range c.EnvelopeEvents(ctx, relay.ID, after) {
			if err != nil || e.Envelope == nil || e.Envelope.Record == nil || e.Name != api.EventEnvelope {
				t.Fatalf("event %s: %s, %v", e.Name, e.Data, err)
			}
			got, after = append(got, e.Envelope.Record.Text), client.After(e.Seq)
			if len(got)%7 == 0 || len(got) == len(want) {
				break
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	var paged []string
	for q, more := (client.MessageQuery{Forward: true, Limit: 7}), true; more; {
		p, err := c.Envelopes(ctx, relay.ID, q)
		if err != nil || len(p.Envelopes) == 0 {
			t.Fatalf("%+v: %+v, %v", q, p, err)
		}
		for _, e := range p.Envelopes {
			paged = append(paged, e.Record.Text)
		}
		q.After, more = p.Envelopes[len(p.Envelopes)-1].Seq, p.More
	}
	if !slices.Equal(paged, want) {
		t.Errorf("in pages %v, want %v", paged, want)
	}
}
