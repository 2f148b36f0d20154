package nats

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"teambridge/relay/link"
)

// twins decides between services with the same identity, such as a machine and its clone. The older one reads
// the queue. The younger one yields as long as it hears the older one.
//
// They compare how long they have been running, so their clocks need not agree. A hello takes time to arrive,
// so each service sees the other a little too young. Two that start together may both think that they are
// older; the hub then pins the queue to one of them. They never both yield.
type twins struct {
	id       [16]byte
	start    time.Time
	older    time.Time // when an older service was heard last
	answered map[[16]byte]bool
}

// maxAnswered limits the number of remembered younger services.
const maxAnswered = 64

func newTwins() twins {
	t := twins{start: time.Now(), answered: map[[16]byte]bool{}}
	rand.Read(t.id[:])
	return t
}

// hello returns a greeting to other services with the same name.
func (t *twins) hello() []byte {
	return binary.BigEndian.AppendUint64(t.id[:], uint64(time.Since(t.start)))
}

// hear processes a greeting. It reports whether the sender is older, or must get an answer: a younger service
// waits for an answer when it starts. Each gets one answer only: two services that both think they are older
// would otherwise answer each other for ever.
func (t *twins) hear(hello []byte) (older, answer bool) {
	if len(hello) != 24 || bytes.Equal(hello[:16], t.id[:]) {
		return false, false
	}
	if time.Duration(binary.BigEndian.Uint64(hello[16:])) > time.Since(t.start) {
		t.older = time.Now()
		return true, false
	}
	id := [16]byte(hello)
	if t.answered[id] {
		return false, false
	}
	if len(t.answered) == maxAnswered {
		clear(t.answered)
	}
	t.answered[id] = true
	return false, true
}

// sayHello greets other services with this name periodically.
func (w *Wire) sayHello(ctx context.Context) {
	tick := time.NewTicker(w.hello)
	defer tick.Stop()
	for {
		w.tell(helloKind, w.Name, w.twins.hello()) // if it is lost, the next one follows
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// older returns how long the older service with this identity still counts as present; not positive if there
// is none.
func (w *Wire) older() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.twins.older.IsZero() {
		return 0
	}
	return w.gone - time.Since(w.twins.older)
}

// onTold handles texts of peers, of this service itself, and of another service with this identity.
func (w *Wire) onTold(m *nats.Msg) {
	from := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	card, ok := w.card(from)
	if !ok {
		return
	}
	if text, err := w.Key.open(toldKind, card, w.Name, m.Data); err == nil {
		w.update(func() { w.keep(link.Arrival{From: from, Text: text}) })
		return
	}
	if from != w.Name {
		return
	}
	if text, err := w.Key.open(helloKind, card, w.Name, m.Data); err == nil {
		w.mu.Lock()
		older, answer := w.twins.hear(text)
		w.mu.Unlock()
		if older {
			notify(w.yield)
		}
		if answer {
			w.tell(helloKind, w.Name, w.twins.hello())
		}
	}
}
