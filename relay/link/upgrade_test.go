package link

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"teambridge/inbox/ledger"
)

// newer is the wire of a program that uses the next version of frames and presences, with more fields,
// and that understands our version.
type newer struct {
	Wire
	sent  *atomic.Int64 // messages
	heard *atomic.Int64 // presences of b
}

// shift changes the version of a frame or presence.
func shift(text []byte, by, least int) []byte {
	fields := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		panic(err)
	}
	v, _ := fields["v"].(json.Number).Int64()
	fields["v"] = max(int(v)+by, least)
	if by > 0 {
		fields["novel"] = map[string]any{"x": 1}
		list, _ := fields["messages"].([]any)
		for _, m := range list {
			m.(map[string]any)["novel"] = []any{"y"}
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return text
}

func (w newer) Publish(ctx context.Context, peer, id string, text []byte) error {
	var f frame
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	w.sent.Add(int64(len(f.Messages)))
	return w.Wire.Publish(ctx, peer, id, shift(text, 1, 0))
}

func (w newer) Tell(ctx context.Context, peer string, text []byte) error {
	return w.Wire.Tell(ctx, peer, shift(text, 1, 0))
}

func (w newer) Next(ctx context.Context) (Arrival, error) {
	a, err := w.Wire.Next(ctx)
	switch {
	case a.Frame != nil:
		a.Frame = shift(a.Frame, -1, 1)
	case a.Text != nil:
		a.Text = shift(a.Text, -1, 0)
		if a.From == "b" {
			w.heard.Add(1)
		}
	}
	return a, err
}

// If one machine is upgraded first, the other one reports that, no message is lost, and none is sent to it
// again and again. Once it is upgraded as well, all messages arrive in order.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	_, a, b := two(t)
	var sent, heard, ignored atomic.Int64
	a.wire = func(w Wire) Wire { return newer{w, &sent, &heard} }
	a.start()
	b.start()
	var ids, want []string
	for i := range 5 {
		want = append(want, fmt.Sprint("text ", i))
		ids = append(ids, a.send("b", "worker", want[i]))
		a.await(t, ledger.StageStored, ids[i]) // a frame each
	}
	back := b.send("a", "worker", "back")
	b.warns(t, "a uses version 2 of links, and this program supports 1: its messages wait until this program is upgraded")
	a.until(t, "message of b", func() bool { return len(a.texts()) == 1 })
	n := heard.Load()
	a.until(t, "presence of b", func() bool { return heard.Load() >= n+10 })
	b.wantTexts(t)
	if n = sent.Load(); n != int64(len(ids)) {
		t.Errorf("%d messages were sent to a program that does not understand them, want %d, each once", n, len(ids))
	}
	for _, id := range ids {
		if s := a.stage(id); s != ledger.StageStored {
			t.Errorf("a message is %s before the upgrade, want stored", s)
		}
	}
	b.stop()
	b.wire = func(w Wire) Wire { return newer{w, &ignored, &ignored} }
	b.start()
	a.await(t, ledger.StageSeen, ids...)
	b.await(t, ledger.StageSeen, back)
	b.wantTexts(t, want...)
	a.wantTexts(t, "back")
}

// A receipt with an unknown stage of a later version changes no stage back, and ends no delivery.
func TestUnknownStage(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	a.start()
	id := a.send("b", "worker", "text")
	a.await(t, ledger.StageStored, id)
	h.raw("b", "a", []byte(fmt.Sprintf(`{"v":1,"ledger":"","novel":[1],"receipts":[{"id":%q,"stage":"novel","reason":"x","novel":{}}]}`, id)))
	h.still(t, "a")
	if s := a.stage(id); s != ledger.StageStored {
		t.Errorf("the message is %s, want stored", s)
	}
	b.start()
	a.await(t, ledger.StageSeen, id)
	b.wantTexts(t, "text")
}

// The presence of an earlier program may have fewer fields, and that of a later one more, or others.
func TestPresenceOfOtherVersions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"v":1,"ledger":"L"}`,
		`{"v":1,"ledger":"L","program":"0.9","empty":true,"teams":null,"novel":{"x":[1]}}`,
		`{"v":2,"ledger":"L","instance":"i","novel":1,"teams":[{"team":"ci","novel":1,"members":[{"member":"worker","word":"novel","novel":true}]}]}`,
		`{"v":2,"ledger":"L","instance":7,"teams":{"ci":["worker"]}}`,
	} {
		_, a, _ := two(t)
		a.start()
		must(t, a.link.heard(t.Context(), "b", []byte(text)))
		list, err := a.ledger.Links.Machines(t.Context(), root)
		a.must(err)
		p, ok := PresenceOf(list[0])
		if !ok || list[0].Heard.IsZero() || list[0].Incarnation != "L" || p.Version == 0 {
			t.Errorf("after %s, b is %+v, and says %+v", text, list[0], p)
		}
		if teams := fmt.Sprint(p.Teams); strings.Contains(text, `"team":"ci"`) != strings.Contains(teams, "ci") {
			t.Errorf("after %s, it has the teams %s", text, teams)
		}
	}
}
