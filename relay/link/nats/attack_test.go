package nats_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"teambridge/relay/link"
	"teambridge/relay/link/nats"
)

// thief connects with the stolen key of a machine, and returns the refusals of the hub.
func (b *bench) thief(name string) (*natsgo.Conn, <-chan error) {
	b.t.Helper()
	refused := make(chan error, 100)
	nc, err := natsgo.Connect(b.url, natsgo.Nkey(b.keys[name].Card(name).Key, b.keys[name].Sign), natsgo.CustomInboxPrefix("_INBOX_"+name),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { refused <- err }))
	must(b.t, err)
	b.t.Cleanup(nc.Close)
	return nc, refused
}

// A thief of a machine's key can neither read the queues of others, nor listen to them, nor
// change anything of the hub.
func TestStolenKeyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	nc, refused := b.thief("a")
	check := func(what string) {
		t.Helper()
		select {
		case err := <-refused:
			if !errors.Is(err, natsgo.ErrPermissionViolation) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience):
			t.Errorf("%s is not refused", what)
		}
	}
	for _, subject := range []string{
		"tb.m.b.c", "tb.p.b.c", "tb.m.b.a.x", "tb.m._.probe", "_INBOX_b.x", "_INBOX.x",
		"$JS.API.CONSUMER.INFO.TB.b", "$JS.API.CONSUMER.RESET.TB.b", "$JS.API.CONSUMER.UNPIN.TB.b", "$JS.API.CONSUMER.MSG.NEXT.TB.b",
		"tb.q.INFO.b", "tb.q.RESET.b", "tb.q.UNPIN.b", "tb.q.NEXT.b", "$JS.API.CONSUMER.DELETE.TB.b", "$JS.API.CONSUMER.PAUSE.TB.b", "$JS.API.CONSUMER.DELETE.TB.a",
		"$JS.API.CONSUMER.CREATE.TB", "$JS.API.CONSUMER.CREATE.TB.x.tb.m.b.>", "$JS.API.CONSUMER.DURABLE.CREATE.TB.x",
		"$JS.API.CONSUMER.LIST.TB", "$JS.API.CONSUMER.NAMES.TB",
		"$JS.API.STREAM.DELETE.TB", "$JS.API.STREAM.PURGE.TB", "$JS.API.STREAM.UPDATE.TB", "$JS.API.STREAM.INFO.TB", "$JS.API.STREAM.CREATE.X",
		"$JS.API.STREAM.MSG.GET.TB", "$JS.API.STREAM.MSG.DELETE.TB", "$JS.API.STREAM.SNAPSHOT.TB", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES",
		"$JS.API.DIRECT.GET.TB", "$JS.API.INFO", "$JS.ACK.TB.b.1.1.1.1.1", "$SYS.REQ.SERVER.PING", "x",
	} {
		must(t, nc.Publish(subject, nil))
		check("publish to " + subject)
	}
	for _, subject := range []string{">", "tb.m.>", "tb.m.a.*", "tb.m.*.*", "tb.p.>", "tb.p.b.*", "tb.p.b.a", "_INBOX_b.>", "_INBOX.>", "$JS.>", "$SYS.>"} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		check("subscribe to " + subject)
	}
}

// By a reply subject, a client can make the server send an answer anywhere. Whatever a thief of
// a's key does with that, b's queue and the stream stay, and b gets exactly the frames that c
// sent it, in order.
func TestReplySubjects(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	wc, wb := b.wire("c"), b.wire("b")
	queue := wb.State().Queue
	for i := range 5 {
		send(t, wc, "b", fmt.Sprint(i), fmt.Sprint(i))
	}
	// b has the frame that a thief would acknowledge for it.
	if a := next(t, wb); string(a.Frame) != "0" {
		t.Fatalf("got %q", a.Frame)
	}
	nc, _ := b.thief("a")
	targets := []string{
		"tb.m.b.c", "tb.p.b.c", "_INBOX_b.x",
		"$JS.API.STREAM.DELETE.TB", "$JS.API.STREAM.PURGE.TB", "$JS.API.STREAM.MSG.DELETE.TB", "$JS.API.STREAM.UPDATE.TB", "$JS.API.STREAM.SNAPSHOT.TB",
		"$JS.API.CONSUMER.DELETE.TB.b", "$JS.API.CONSUMER.RESET.TB.b", "$JS.API.CONSUMER.UNPIN.TB.b", "$JS.API.CONSUMER.PAUSE.TB.b",
		"tb.q.RESET.b", "tb.q.UNPIN.b", "$JS.ACK.TB.b.1.1.1.1.0", "$JS.ACK.TB.b.1.2.2.1.0", "$JS.ACK.TB.b.1.3.3.1.0",
	}
	own := "tb.q.%s.a"
	for _, to := range targets {
		ask := func(subject, body string) {
			t.Helper()
			must(t, nc.PublishRequest(subject, to, []byte(body)))
		}
		ask("tb.m.b.a", `{"reply":1}`)                                      // 10: the answer of the stream
		ask("tb.m.b.a", "")                                                 //
		ask(fmt.Sprintf(own, "INFO"), "x")                                  // 12: an answer of the API, or its error
		ask(fmt.Sprintf(own, "INFO"), "")                                   //
		ask(fmt.Sprintf(own, "RESET"), "")                                  //
		ask(fmt.Sprintf(own, "UNPIN"), `{"group":"one"}`)                   //
		ask(fmt.Sprintf(own, "NEXT"), `{"batch":1,"no_wait":true}`)         // 404, without a body
		ask(fmt.Sprintf(own, "NEXT"), `{"batch":1,"expires":1}`)            // 408
		ask(fmt.Sprintf(own, "NEXT"), `{"batch":1,"group":"x"}`)            // 400
		ask(fmt.Sprintf(own, "NEXT"), `{"batch":1,"group":"one","id":"x"}`) // 423
		// 11: a frame to itself, with a text of its choice, as the answer of a pull, and the
		// answer to its acknowledgment, which is empty.
		for _, body := range []string{"", "{}", "+ACK", "+TERM", `{"seq":1}`, `{"filter":">"}`} {
			must(t, nc.Publish("tb.m.a.a", []byte(body)))
			ask(fmt.Sprintf(own, "NEXT"), `{"batch":1,"group":"one","expires":200000000}`)
		}
		for seq := range 40 {
			ask(fmt.Sprintf("$JS.ACK.TB.a.1.%d.%d.1.0", seq, seq), "+ACK")
		}
		// Headers, also such as a tracer has.
		m := natsgo.NewMsg("tb.m.b.a")
		m.Header.Set("Nats-Trace-Dest", to)
		m.Header.Set("Nats-Rollup", "all")
		m.Reply = to
		must(t, nc.PublishMsg(m))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, nc.FlushWithContext(ctx))
	send(t, wc, "b", "last", "last") // after all requests of the thief
	wb.Close()                       // with the first frame unacknowledged
	o := b.options("b")
	o.Unpin = true
	wb = b.dial(o)
	for _, text := range []string{"0", "1", "2", "3", "4", "last"} {
		want(t, wb, "c", text)
	}
	s := wb.State()
	if s.Queue != queue || s.Unreadable == 0 {
		t.Errorf("the queue was %s; state is %+v", queue, s)
	}
}

// A message that b cannot open does not block its queue: no invalid frame, none with headers
// that only the server sets, and none that was sealed for another purpose, machine or version.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	cards := map[string]nats.Card{}
	for n, k := range b.keys {
		cards[n] = k.Card(n)
	}
	seal := func(k *nats.Key, what byte, from string, to nats.Card) []byte {
		t.Helper()
		s, err := k.Seal(what, from, to, []byte("forged"))
		must(t, err)
		return s
	}
	raw := func(text string) []byte {
		t.Helper()
		s, err := b.keys["a"].SealRaw(cards["b"], []byte(text))
		must(t, err)
		return s
	}
	good := seal(b.keys["a"], 'f', "a", cards["b"])
	wa, wb := b.wire("a"), b.wire("b")
	nc, _ := b.thief("a")
	unreadable := 0
	header := func(k, v string) func(*natsgo.Msg) { return func(m *natsgo.Msg) { m.Header.Set(k, v) } }
	for _, tt := range []struct {
		name   string
		data   []byte
		change func(*natsgo.Msg)
	}{
		{"empty", nil, nil},
		{"a status of the server", nil, header("Status", "503")},
		{"a heartbeat of the server", nil, header("Status", "100")},
		{"the end of a pull", nil, header("Status", "409")},
		{"no box", []byte(`{"stream":"TB","seq":1}`), nil},
		{"reflected", seal(b.keys["b"], 'f', "b", cards["a"]), nil}, // the same box: a thief has both directions
		{"of another kind", seal(b.keys["a"], 't', "a", cards["b"]), nil},
		{"a hello", seal(b.keys["a"], 'h', "a", cards["b"]), nil},
		{"of another sender", seal(b.keys["c"], 'f', "c", cards["b"]), nil},
		{"with the name of another sender", seal(b.keys["a"], 'f', "c", cards["b"]), nil},
		{"for another recipient", seal(b.keys["a"], 'f', "a", cards["c"]), nil},
		{"with the name of another recipient", raw("\x01f\x01a\x01cforged"), nil},
		{"of a version that is not known", raw("\x02f\x01a\x01bforged"), nil},
		{"without anything in it", raw(""), nil},
		{"with half a header", raw("\x01f\x01"), nil},
		{"with a long name", raw("\x01f\xffa\x01bforged"), nil},
		{"truncated", good[:len(good)-1], nil},
		{"truncated to its nonce", good[:28], nil},
		{"changed", append(append([]byte{}, good[:40]...), append([]byte{good[40] ^ 1}, good[41:]...)...), nil},
		{"huge", make([]byte, nats.MaxPayload-200), nil},
		{"with a pin of its own", good[:30], header("Nats-Pin-Id", "x")},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "_"), func(t *testing.T) {
			m := natsgo.NewMsg("tb.m.b.a")
			m.Data = tt.data
			if tt.change != nil {
				tt.change(m)
			}
			atOnce(t, func(string) {}, func(try string) {
				if _, err := nc.RequestMsg(m, patience); err != nil {
					t.Fatal(err)
				}
				send(t, wa, "b", tt.name+try, "honest"+try)
				want(t, wb, "a", "honest"+try)
			}, func(string) {
				n := wb.State().Unreadable
				if n <= unreadable { // what is acknowledged late comes again, and counts again
					t.Errorf("%d unreadable, and %d before", n, unreadable)
				}
				unreadable = n
				// It was discarded, and does not come again.
				if s := wb.State(); s.Waiting != 0 {
					t.Errorf("%d wait", s.Waiting)
				}
			})
		})
	}
}

// Texts cannot be forged either, and a frame is not accepted as a text.
func TestToldIsSealed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	wa, wb := b.wire("a"), b.wire("b")
	nc, _ := b.thief("a")
	card := b.keys["b"].Card("b")
	frame, err := b.keys["a"].Seal('f', "a", card, []byte("forged"))
	must(t, err)
	hello, err := b.keys["a"].Seal('h', "a", card, []byte("012345678901234567890123"))
	must(t, err)
	for _, data := range [][]byte{nil, []byte("forged"), frame, hello} {
		must(t, nc.Publish("tb.p.b.a", data))
	}
	must(t, nc.FlushTimeout(patience))
	must(t, wa.Tell(t.Context(), "b", []byte("honest")))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		a, err := wb.Next(ctx)
		must(t, err)
		if a.Text == nil {
			continue
		}
		if string(a.Text) != "honest" {
			t.Errorf("got %q", a.Text)
		}
		break
	}
	if s := wb.State(); s.Err != "" {
		t.Error(s.Err)
	}
	var _ link.Wire = wb
}
