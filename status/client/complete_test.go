package client_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
)

// What the document has, the client asks for: a route that is new needs a method here.
func TestEveryRouteHasAMethod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	doc, err := w.find().Document(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	mux := http.NewServeMux()
	var mu sync.Mutex
	asked := map[string]bool{}
	for path, operations := range doc["paths"].(map[string]any) {
		for method := range operations.(map[string]any) {
			pattern := strings.ToUpper(method) + " " + path
			want = append(want, pattern)
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				asked[r.Pattern] = true
				w.Header().Set("Content-Type", api.ProblemType)
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, `{"code":"error","status":418}`)
			})
		}
	}
	h := httptest.NewServer(mux)
	defer h.Close()
	c, err := client.New(client.Options{Address: h.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	for _, ask := range []func(context.Context) error{
		c.Health,
		func(ctx context.Context) error { _, err := c.Version(ctx); return err },
		func(ctx context.Context) error { _, err := c.Document(ctx); return err },
		func(ctx context.Context) error { _, err := c.Teams(ctx); return err },
		func(ctx context.Context) error { _, err := c.Team(ctx, "t"); return err },
		func(ctx context.Context) error { _, err := c.Members(ctx, "t"); return err },
		func(ctx context.Context) error { _, err := c.Status(ctx, "t"); return err },
		func(ctx context.Context) error { _, err := c.Messages(ctx, "t", client.MessageQuery{}); return err },
		func(ctx context.Context) error { _, err := c.Search(ctx, client.SearchQuery{Words: "x"}); return err },
		func(ctx context.Context) error { _, err := c.History(ctx, client.SearchQuery{}); return err },
		func(ctx context.Context) error { _, err := c.Target(ctx, api.Scope{}, "m"); return err },
		func(ctx context.Context) error { _, err := c.EndedTeams(ctx); return err },
		func(ctx context.Context) error { _, err := c.Tasks(ctx, api.TaskQuery{}); return err },
		func(ctx context.Context) error { _, err := c.TaskHistory(ctx, api.TaskHistoryQuery{}); return err },
		func(ctx context.Context) error { _, err := c.Sessions(ctx); return err },
		func(ctx context.Context) error { _, err := c.Agents(ctx); return err },
		func(ctx context.Context) error { _, err := c.Receipt(ctx, "t", "m", "id"); return err },
		func(ctx context.Context) error {
			_, err := c.Send(ctx, "t", "m", "", api.NewMessage{Text: "x"})
			return err
		},
		func(ctx context.Context) error { _, err := c.SendPayloads(ctx, "t", "m", []byte("{}")); return err },
		func(ctx context.Context) error {
			_, err := c.Broadcast(ctx, "t", "", api.NewBroadcast{Text: "x"})
			return err
		},
		func(ctx context.Context) error { _, err := c.MarkRead(ctx, "t", api.MarkRead{}); return err },
		func(ctx context.Context) error { _, err := c.Read(ctx, "t", api.Reading{}); return err },
		func(ctx context.Context) error { _, err := c.Ask(ctx, "t", "m", "", api.NewQuestion{}); return err },
		func(ctx context.Context) error {
			_, err := c.Await(ctx, api.Sent{Team: "t", Member: "m", ID: "id"}, api.Seen, 0)
			return err
		},
		func(ctx context.Context) error {
			_, err := c.Wait(ctx, "t", api.Occasion{For: api.ForReply})
			return err
		},
		func(ctx context.Context) error { _, err := c.Changes(ctx, "t", "m", api.ChangesQuery{}); return err },
		func(ctx context.Context) error { _, err := c.Changes(ctx, "", "s", api.ChangesQuery{}); return err },
		func(ctx context.Context) error { _, err := c.Usage(ctx, api.UsageQuery{}); return err },
		func(ctx context.Context) error { return lines(c.Transcript(ctx, "t", "m", api.TranscriptQuery{})) },
		func(ctx context.Context) error { return lines(c.Transcript(ctx, "", "s", api.TranscriptQuery{})) },
		func(ctx context.Context) error { _, err := c.Join(ctx, "t", api.NewJoin{}); return err },
		func(ctx context.Context) error { _, err := c.Leave(ctx, "t", ""); return err },
		func(ctx context.Context) error { _, err := c.SignIn(ctx, false); return err },
		func(ctx context.Context) error { _, err := c.Attention(ctx, "t"); return err },
		func(ctx context.Context) error { _, err := c.Findings(ctx, "t"); return err },
		func(ctx context.Context) error { _, err := c.Fix(ctx, "t"); return err },
		func(ctx context.Context) error { _, err := c.Dismiss(ctx, "a"); return err },
		func(ctx context.Context) error { _, err := c.Relays(ctx, ""); return err },
		func(ctx context.Context) error {
			_, err := c.Move(ctx, "t", "m", api.NewPlace{To: api.PlaceRemote})
			return err
		},
		func(ctx context.Context) error { _, err := c.Panes(ctx); return err },
		func(ctx context.Context) error { _, err := c.Links(ctx); return err },
		func(ctx context.Context) error { _, err := c.SetLink(ctx, api.NewLink{}); return err },
		func(ctx context.Context) error { _, err := c.AddMachine(ctx, api.NewMachine{}); return err },
		func(ctx context.Context) error { _, err := c.RemoveMachine(ctx, "m"); return err },
		func(ctx context.Context) error { _, err := c.ShareTeam(ctx, "m", api.NewShare{}); return err },
		func(ctx context.Context) error { _, err := c.Pane(ctx, "p"); return err },
		func(ctx context.Context) error { _, err := c.AddPane(ctx, api.NewPane{}); return err },
		func(ctx context.Context) error { _, err := c.RemovePane(ctx, "p"); return err },
		func(ctx context.Context) error { _, err := c.AddRelay(ctx, api.NewRelay{}); return err },
		func(ctx context.Context) error { _, err := c.RemoveRelay(ctx, "r"); return err },
		func(ctx context.Context) error { _, err := c.Interrupt(ctx, "r"); return err },
		func(ctx context.Context) error { _, err := c.RetryRelay(ctx, "r"); return err },
		func(ctx context.Context) error { _, err := c.ReleaseRelay(ctx, "r", "s"); return err },
		func(ctx context.Context) error { _, err := c.Permit(ctx, "r", api.Permit{}); return err },
		func(ctx context.Context) error {
			_, err := c.Deliveries(ctx, "r", client.DeliveryQuery{})
			return err
		},
		func(ctx context.Context) error { _, err := c.Envelopes(ctx, "r", client.EnvelopeQuery{}); return err },
		func(ctx context.Context) error {
			for _, err := range c.EnvelopeEvents(ctx, "r", client.Now) {
				return err
			}
			return nil
		},
		func(ctx context.Context) error {
			_, err := c.Deliveries(ctx, "", client.DeliveryQuery{})
			return err
		},
		func(ctx context.Context) error { _, err := c.Relay(ctx, "t", "r"); return err },
		func(ctx context.Context) error { _, err := c.Release(ctx, "t", "m", "s"); return err },
		func(ctx context.Context) error { _, err := c.Hold(ctx, "t", "m", "s"); return err },
		func(ctx context.Context) error { _, err := c.Questions(ctx, "t"); return err },
		func(ctx context.Context) error { _, err := c.Question(ctx, "t", "q"); return err },
		func(ctx context.Context) error { _, err := c.TestPane(ctx, "p", ""); return err },
		func(ctx context.Context) error { _, err := c.RetryDelivery(ctx, "d"); return err },
		func(ctx context.Context) error { _, err := c.DropDelivery(ctx, "d"); return err },
		func(ctx context.Context) error {
			for _, err := range c.Stream(ctx, "t", client.Now) {
				return err
			}
			return nil
		},
	} {
		if p := view.Explain(ask(ctx)); p.Code != api.CodeError {
			t.Errorf("an answer that is a problem is told as %+v", p)
		}
	}
	for _, pattern := range slices.Sorted(slices.Values(want)) {
		if !asked[pattern] {
			t.Errorf("no method asks %s", pattern)
		}
	}
}

// lines returns the error of a transcript.
func lines(all iter.Seq2[json.RawMessage, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
