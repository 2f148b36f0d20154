package server

import (
	"context"
	"reflect"
	"sync"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status/view"
)

// paneWatch looks at the registered panes every few seconds, so that no request has to. While
// none is registered, it only looks whether the ledger has changed.
type paneWatch struct {
	*Server
	wake chan struct{}

	files  ledgerFiles
	list   []pane.Pane
	warned bool // that the panes cannot be listed

	mu   sync.Mutex
	last map[ledger.InboxKey]pane.View
	news int // counts what was seen that is shown
}

const (
	// paneLimit is how long one look at a pane may take, and paneLooks how many panes are
	// looked at at once.
	paneLimit = 10 * time.Second
	paneLooks = 4

	// paneRefresh is how often it is shown that an agent works on.
	paneRefresh = 30 * time.Second
)

// view returns what was seen of a pane at the last look, without its messages.
func (w *paneWatch) view(p pane.Pane) pane.View {
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if v, ok := w.last[p.InboxKey]; ok && v.Pane.Ref == p.Ref {
			return v
		}
	}
	return pane.View{Pane: p}
}

// version changes whenever something was seen that is shown.
func (w *paneWatch) version() int {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news
}

// changed takes the report that something was recorded about messages to panes.
func (w *paneWatch) changed(ledger.InboxKey) {
	signal(w.wake)
	w.statuses.look()
}

func (w *paneWatch) run(ctx context.Context) error {
	signal(w.wake)
	return loop(ctx, nil, w.wake, w.limits.tick, func() { w.look(ctx) })
}

func (w *paneWatch) look(ctx context.Context) {
	if !w.files.same(w.opts.State, time.Now()) {
		list, err := w.panes.List(ctx)
		if err != nil {
			if ctx.Err() == nil && !w.warned {
				w.log.Warn("the panes cannot be listed for now", "err", view.Describe(err))
			}
			w.files, w.warned = ledgerFiles{}, true
			return
		}
		w.list, w.warned = list, false
	}
	views := make([]pane.View, len(w.list))
	var all sync.WaitGroup
	slots := make(chan struct{}, paneLooks)
	for i, p := range w.list {
		slots <- struct{}{}
		all.Go(func() {
			views[i] = w.lookAt(ctx, p)
			<-slots
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	changed := len(w.last) != len(views)
	now := map[ledger.InboxKey]pane.View{}
	for _, v := range views {
		was := w.last[v.Pane.InboxKey]
		v.Messages = nil // the ledger has them
		if v.Since.IsZero() {
			v.Since = v.At
			if was.State == v.State {
				v.Since = was.Since
			}
		}
		if v.At.Sub(was.At) < paneRefresh && sameView(was, v) {
			v = was
		} else {
			changed = true
		}
		now[v.Pane.InboxKey] = v
	}
	w.last = now
	if changed {
		w.news++
	}
	w.mu.Unlock()
	if changed {
		w.statuses.look()
	}
}

// lookAt looks at one pane, which has to end.
func (w *paneWatch) lookAt(ctx context.Context, p pane.Pane) pane.View {
	ctx, stop := context.WithTimeout(ctx, paneLimit)
	defer stop()
	v, err := w.panes.Look(ctx, p)
	if err != nil {
		return pane.View{Pane: p, State: pane.Unclear, Why: view.Describe(err), At: time.Now()}
	}
	return v
}

// sameView reports whether two looks saw the same, as far as it is shown.
func sameView(a, b pane.View) bool {
	a.At, a.Messages, a.Process = b.At, b.Messages, b.Process
	return reflect.DeepEqual(a, b)
}
