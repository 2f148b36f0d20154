package nats

import "time"

// Quick returns options with short times for tests.
func Quick(o Options) Options {
	o.times = times{hello: 100 * time.Millisecond, gone: 5 * time.Second, answer: time.Second, retry: 50 * time.Millisecond, reconnect: 50 * time.Millisecond}
	return o
}

// HearsNobody makes the wire's last notice of older services so old that those count as gone.
func (w *Wire) HearsNobody() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.twins.older = w.twins.older.Add(-w.gone)
}

// Seal seals a frame of another machine, or something else.
func (k *Key) Seal(what byte, from string, to Card, body []byte) ([]byte, error) {
	return k.seal(kind(what), from, to, body)
}

// SealRaw seals a text with a header of its own.
func (k *Key) SealRaw(to Card, text []byte) ([]byte, error) { return k.box.Seal(text, to.Box) }

// Open opens a text that another machine has sealed.
func (k *Key) Open(what byte, from Card, to string, sealed []byte) ([]byte, error) {
	return k.open(kind(what), from, to, sealed)
}

// Answers returns how often a service answers the repeated greetings of a younger
// one.
func Answers(times int) (answers int) {
	a, b := newTwins(), newTwins()
	a.start = a.start.Add(-time.Minute)
	for range times {
		if _, answer := a.hear(b.hello()); answer {
			answers++
		}
	}
	return answers
}
