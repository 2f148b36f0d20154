package nats

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"teambridge/relay/link"
)

// pulled is how many frames a pull requests. The hub still delivers one at a time; with more in a pull, the
// acknowledgment of a frame fetches the next one.
const pulled = 64

// A reader takes frames from the queue of this machine.
//
// A reader does not use package jetstream. That package mistakes a stored message with a header Status and no
// body for an answer of the server, and never acknowledges it, so a peer could block the queue. It also
// listens only to its own pulls (see pulls).
type reader struct {
	*Wire
	unpin   bool
	met     bool // meet has given an older service time to answer
	listens *nats.Subscription
	pin     string             // the hub's name for the client that reads the queue
	sub     *nats.Subscription // to the replies to pulls
	msgs    chan *nats.Msg
}

// receive takes frames until ctx ends.
func (w *Wire) receive(ctx context.Context) {
	r := reader{Wire: w, unpin: w.Unpin}
	wait := time.NewTimer(0)
	for {
		select {
		case <-wait.C:
		case <-w.relinked:
		case <-ctx.Done():
			return
		}
		if !w.nc.IsConnected() {
			// Before the first connect, nats.go calls no handler for a refusal.
			if err := w.nc.LastError(); unknown(err) {
				w.disconnected(err)
			}
			wait.Reset(w.retry)
			continue
		}
		pause := w.retry
		err := r.read(ctx)
		switch {
		case errors.Is(err, link.ErrTwin):
			r.unlisten() // leave pulled frames to the other service
			w.update(func() { w.state.Err, w.state.Waiting, w.frame = err.Error(), -1, nil })
			pause = min(max(w.older(), time.Millisecond), w.retry)
		case err == nil:
			pause = 0 // the connection is new
		case w.nc.IsConnected() && ctx.Err() == nil:
			w.fail(err)
		}
		wait.Reset(pause)
	}
}

// request asks the hub about this machine's queue.
func (r *reader) request(ctx context.Context, what string, body string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	m, err := r.nc.RequestWithContext(ctx, asks(what, r.Name), []byte(body))
	if err != nil {
		return err
	}
	var failed struct{ Error *apiError }
	if err = json.Unmarshal(m.Data, &failed); err == nil && failed.Error != nil {
		return failed.Error
	}
	if err == nil && answer != nil {
		err = json.Unmarshal(m.Data, answer)
	}
	if err != nil {
		return fmt.Errorf("the hub's answer is not valid: %w", err)
	}
	return nil
}

// meet subscribes to texts. It returns [link.ErrTwin] if an older service has this identity.
func (r *reader) meet(ctx context.Context) error {
	if !r.met {
		somebody, err := r.somebody(ctx)
		if err != nil {
			return err
		}
		if r.listens == nil {
			if r.listens, err = r.nc.Subscribe("tb.p."+r.Name+".*", r.onTold); err != nil {
				return err
			}
		}
		if err := r.tell(helloKind, r.Name, r.twins.hello()); err != nil {
			return err
		}
		if somebody {
			select {
			case <-time.After(r.answer):
			case <-r.yield:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		r.met = true
	}
	select {
	case <-r.yield:
	default:
	}
	if r.older() > 0 {
		return link.ErrTwin
	}
	return nil
}

// somebody reports whether another client listens to this machine's subjects. If none does, the hub says so
// at once, so a normal start does not wait.
func (r *reader) somebody(ctx context.Context) (bool, error) {
	if r.listens != nil {
		return true, nil
	}
	answer, err := r.nc.SubscribeSync(r.nc.NewInbox())
	if err != nil {
		return false, err
	}
	defer answer.Unsubscribe()
	if err := r.nc.PublishRequest("tb.p."+r.Name+"."+r.Name, answer.Subject, nil); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := r.nc.FlushWithContext(ctx); err != nil {
		return false, err
	}
	n, _, err := answer.Pending() // the hub's reply, if any, came before its answer to the flush
	return n == 0, err
}

// read receives frames until something fails. It returns nil if the connection fails.
func (r *reader) read(ctx context.Context) error {
	// This read serves every connection made so far.
	select {
	case <-r.relinked:
	default:
	}
	if err := r.meet(ctx); err != nil {
		return err
	}
	if r.unpin {
		if err := r.request(ctx, "UNPIN", `{"group":"`+Group+`"}`, nil); err != nil {
			return err
		}
		r.unpin = false
	}
	if err := r.listen(); err != nil {
		return err
	}
	// The reset makes unacknowledged frames of a lost connection arrive again, before all others.
	var queue struct {
		Created time.Time
		Pending int `json:"num_pending"`
	}
	if err := r.request(ctx, "RESET", "", &queue); err != nil {
		return err
	}
	r.update(func() {
		r.state.Queue, r.state.Waiting, r.state.Err = queue.Created.UTC().Format(time.RFC3339Nano), queue.Pending, ""
	})
	var pull string // the reply subject of the current pull
	const beat = 2  // heartbeats of a pull
	silence := time.NewTimer(r.expires)
	defer silence.Stop()
	for left := 0; ; {
		if left == 0 {
			left = pulled
			pull = pulls(r.Name) + rand.Text()
			body, _ := json.Marshal(map[string]any{"batch": pulled, "expires": r.expires, "idle_heartbeat": r.expires / (beat + 1), "group": Group, "id": r.pin})
			if err := r.nc.PublishRequest(asks("NEXT", r.Name), pull, body); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.relinked:
			notify(r.relinked) // for the next read
			return nil
		case <-r.yield:
			if r.older() > 0 {
				return link.ErrTwin
			}
		case <-silence.C:
			return errors.New("the hub does not answer: it sends neither frames nor heartbeats")
		case m := <-r.msgs:
			silence.Reset(r.expires)
			// Only the server sets a reply subject under $JS.ACK on a message under tb.m. So this message was
			// stored, whatever its headers say.
			if strings.HasPrefix(m.Reply, "$JS.ACK.") && strings.HasPrefix(m.Subject, "tb.m.") {
				left--
				// The server appends its own header, so a header that a peer forged comes before it.
				if pins := m.Header["Nats-Pin-Id"]; len(pins) > 0 {
					r.pin = pins[len(pins)-1]
				}
				r.take(m)
				continue
			}
			if m.Subject != pull {
				continue // it belongs to an earlier pull
			}
			switch status, text := m.Header.Get("Status"), m.Header.Get("Description"); status {
			case "100": // heartbeat
			case "408": // expired
				left = 0
			case "423": // the queue is pinned to another client, or its pin has expired
				r.pin, left = "", 0
			default:
				return fmt.Errorf("the hub ends a pull: %s %s", status, text)
			}
		}
	}
}

// pulls is the common prefix of the reply subjects of all pulls of a machine, earlier ones included.
//
// A pull stays at the hub for some time after its client has gone. If no client listened to its subject, the
// server would pin the queue to it, and no reader would get a frame until that pin expires (10 s; nats-server
// 2.15.2, consumer.nextWaiting). So a reader listens to all pulls of its machine.
func pulls(name string) string { return inbox(name) + ".pull." }

func (r *reader) listen() (err error) {
	if r.sub == nil {
		r.msgs = make(chan *nats.Msg, 4*pulled)
		r.sub, err = r.nc.ChanSubscribe(pulls(r.Name)+"*", r.msgs)
	}
	return err
}

func (r *reader) unlisten() {
	if r.sub != nil {
		r.sub.Unsubscribe()
		r.sub = nil
	}
}

// take passes a frame to Next, or drops it if it cannot be opened.
func (r *reader) take(m *nats.Msg) {
	from := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	behind, err := strconv.Atoi(m.Reply[strings.LastIndexByte(m.Reply, '.')+1:])
	if err != nil {
		behind = 0
	}
	var frame []byte
	card, ok := r.card(from)
	if ok = ok && from != r.Name; ok {
		frame, err = r.Key.open(frameKind, card, r.Name, m.Data)
		ok = err == nil
	}
	if !ok {
		r.nc.Publish(m.Reply, []byte("+TERM")) // if this is lost, the frame arrives again
		r.update(func() { r.state.Unreadable, r.state.Waiting = r.state.Unreadable+1, behind })
		return
	}
	reply := m.Reply
	r.update(func() {
		r.state.Waiting = behind + 1
		// A frame that Next has not returned yet can only be this one, sent earlier.
		r.frame = &link.Arrival{From: from, Frame: frame, Ack: func(context.Context) error {
			if err := r.nc.Publish(reply, []byte("+ACK")); err != nil {
				return r.describe(err)
			}
			r.update(func() {
				if r.state.Waiting == behind+1 {
					r.state.Waiting = behind
				}
			})
			return nil
		}}
	})
}
