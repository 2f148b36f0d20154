package standin

import (
	"context"
	"sync"
	"time"

	"teambridge/relay/sim/model"
)

// Thinker is a model that takes its time, as real ones do: the shortest thought
// lasts longer than the 0.1 s that an agent takes to write down what it was asked.
type Thinker struct {
	// held for reading while an answer is given, for writing while none may be.
	gate sync.RWMutex
}

const thought = 400 * time.Millisecond

// Respond answers as Script does.
func (m *Thinker) Respond(ctx context.Context, r Request) Answer {
	a := model.Script(ctx, r)
	if r.Side {
		return a
	}
	_ = model.Sleep(ctx, max(a.Delay, thought))
	a.Delay = 0
	m.gate.RLock()
	defer m.gate.RUnlock()
	return a
}

// Quiet runs f at an instant at which no answer has been given for 300 ms. Claude
// Code writes down what it was told about 0.1 s late: killed before, it has it no
// longer, asks again for the same turn, and nobody else can know.
func (m *Thinker) Quiet(api *API, f func()) {
	m.gate.Lock()
	defer m.gate.Unlock()
	for {
		var last time.Time
		for _, r := range api.Log() {
			if r.Answered.After(last) {
				last = r.Answered
			}
		}
		rest := 300*time.Millisecond - time.Since(last)
		if rest <= 0 {
			break
		}
		<-time.After(rest)
	}
	f()
}
