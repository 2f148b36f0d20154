package server

import "sync"

// signal tells whoever reads from c, once, that there is something to look at.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it was told, and has not looked yet
	}
}

// hub tells many that there is something to look at.
type hub struct {
	mu   sync.Mutex
	subs map[chan struct{}]bool
}

func newHub() *hub { return &hub{subs: map[chan struct{}]bool{}} }

// subscribe returns a channel that is told of all that comes after. Call done in
// the end.
func (h *hub) subscribe() (news <-chan struct{}, done func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, c)
	}
}

func (h *hub) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.subs {
		signal(c)
	}
}

// size is how many want to be told.
func (h *hub) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}
