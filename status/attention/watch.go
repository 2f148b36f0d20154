package attention

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/relay/process"
	"teambridge/relay/tmux"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// Watch looks at the registered panes and at the sessions that are in no team, so that no request has to. If
// there are none, it only checks whether the ledger or a process file has changed.
type Watch struct {
	panes *pane.Panes
	poll  func(context.Context) (version string, err error) // of the ledger
	files func() string                                     // of process files: see [pane.Sessions.Processes]

	ledgerVersion string // when list was read
	list          []pane.Pane
	processes     string      // the process files when around was read
	around        []pane.Pane // sessions
	sights        map[tmux.Ref]sight
	ends          map[transcript.Process]func() // stop waiting for the end of a session's process
	ended         func()                        // is called once one has ended
	blind         bool                          // whether the system does not report the end of some session's process
	now           time.Time                     // time of the last look
	failed        bool                          // whether the last look failed

	mu   sync.Mutex
	last map[watched]pane.View
	met  []pane.Pane // around, as of the last look
	news int         // counts the changes that were shown
}

// watched names a pane or session. Two sessions in no team can have the same name, and with it the same inbox.
type watched struct {
	inbox.InboxKey
	tmux.Ref
}

// sight is what was seen of a pane or session at its last close look.
type sight struct {
	seen string // of a pane, see [tmux.Screens]; of a session, the process files, or "" if its process has ended
	at   time.Time
}

const (
	// paneCloser is how often a pane gets a close look although its screen stays the same: its process may
	// report something new. A close look takes three calls of tmux and 200 ms. For a session, of which the process
	// files and its process tell nearly all, it is sessionCloser.
	paneCloser    = 10 * time.Second
	sessionCloser = 30 * time.Second

	// paneLimit limits the time of one look at a pane, and paneLooks the number of concurrent looks.
	paneLimit = 10 * time.Second
	paneLooks = 4

	// paneRefresh is how often a working agent is shown again as working.
	paneRefresh = 30 * time.Second
)

// NewWatch returns a Watch of the panes in a ledger. It calls ended, from any goroutine, once the process of a session
// that it has seen has ended: then call Look. Call Close at the end.
func NewWatch(panes *pane.Panes, l *ledger.Ledger, ended func()) *Watch {
	return &Watch{panes: panes, poll: l.Poll(), files: panes.Sessions.Processes, ended: ended}
}

// Close stops waiting for ends of processes. It must not be called concurrently with Look.
func (w *Watch) Close() {
	for _, stop := range w.ends {
		stop()
	}
	w.ends = nil
}

// view returns the view of a pane from the last look, without its messages.
func (w *Watch) view(p pane.Pane) pane.View {
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if v, ok := w.last[watched{p.InboxKey, p.Ref}]; ok {
			return v
		}
	}
	return pane.View{Pane: p}
}

// version changes after each look with a visible change.
func (w *Watch) version() int {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news
}

// sessions returns the sessions as of the last look.
func (w *Watch) sessions() []pane.Pane {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.met
}

// relist lists the panes and sessions if the ledger or a process file has changed.
func (w *Watch) relist(ctx context.Context) error {
	version, err := w.poll(ctx)
	if err != nil {
		return err
	}
	processes := w.files()
	if version == w.ledgerVersion && processes == w.processes {
		return nil
	}
	if processes != w.processes {
		w.panes.Poke() // so that it listens for a new session, too
	}
	around, err := w.panes.Sessions.Around(ctx)
	if err != nil {
		return err
	}
	list, err := w.panes.Registry.List(ctx)
	if err == nil {
		w.ledgerVersion, w.list, w.processes, w.around = version, list, processes, around
	}
	return err
}

// Regularly reports whether Look has to be called every few seconds: there is a pane, or a session whose end is not
// reported, or a program whose sessions are only found by looking, or the last look failed. Otherwise it suffices to call
// Look when the ledger or the file of a session has changed, when a session has ended, and every 30 s, in case that an
// event was lost. It must not be called concurrently with Look.
func (w *Watch) Regularly() bool {
	return w.failed || w.blind || len(w.list) > 0 || w.panes.Sessions.Others()
}

// Look looks at all panes, and reports whether a visible change was seen. It fails only if they cannot be
// listed. It must not be called concurrently.
func (w *Watch) Look(ctx context.Context) (changed bool, err error) {
	defer func() { w.failed = err != nil }()
	if err := w.relist(ctx); err != nil {
		return false, err
	}
	list := slices.Concat(w.list, w.around)
	views, errs := make([]pane.View, len(list)), make([]error, len(list))
	var all sync.WaitGroup
	slots := make(chan struct{}, paneLooks)
	sights := w.glance(ctx)
	for i, p := range list {
		if now, ok := sights[p.Ref]; ok && !now.at.Equal(w.now) {
			if views[i] = w.view(p); !views[i].At.IsZero() {
				views[i].At = w.now
				continue
			}
		}
		slots <- struct{}{}
		all.Go(func() {
			views[i], errs[i] = w.lookAt(ctx, p)
			<-slots
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			delete(w.sights, list[i].Ref) // look again next time
		}
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[watched]pane.View{}
	for _, v := range views {
		key := watched{v.Pane.InboxKey, v.Pane.Ref}
		was := w.last[key]
		v.Messages = nil // they are in the ledger
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
		now[key] = v
	}
	changed = changed || len(w.last) != len(now)
	w.last, w.met = now, w.around
	if changed {
		w.news++
	}
	return changed, nil
}

// glance returns what is seen of all panes and sessions now. One that looks as it did at a recent close look keeps the
// time of that look; others get the present time.
func (w *Watch) glance(ctx context.Context) map[tmux.Ref]sight {
	ctx, stop := context.WithTimeout(ctx, paneLimit)
	defer stop()
	servers := map[string][]tmux.Ref{}
	for _, p := range w.list {
		servers[p.Ref.Socket] = append(servers[p.Ref.Socket], p.Ref)
	}
	was := w.sights
	w.sights, w.now = map[tmux.Ref]sight{}, time.Now()
	see := func(ref tmux.Ref, shows string, closer time.Duration) {
		now := sight{shows, w.now}
		if last, ok := was[ref]; ok && last.seen == shows && w.now.Sub(last.at) < closer {
			now.at = last.at
		}
		w.sights[ref] = now
	}
	before := w.ends
	w.ends, w.blind = map[transcript.Process]func(){}, false
	for _, p := range w.around {
		shows, of := w.processes, transcript.Process{PID: p.Ref.PID, ProcStart: p.Start}
		reported := w.await(of, before) // before it is looked at, so that no end is missed
		if teams.StateOf(of) == teams.Gone {
			shows = ""
		} else if !reported {
			w.blind = true
		}
		see(p.Ref, shows, sessionCloser)
	}
	for of, stop := range before {
		if w.ends[of] == nil {
			stop()
		}
	}
	for socket, refs := range servers {
		seen, err := tmux.Screens(ctx, socket, refs...)
		if err != nil {
			continue // a close look finds the cause
		}
		for ref, shows := range seen {
			see(ref, shows, paneCloser)
		}
	}
	return w.sights
}

// await has the end of a process reported, and reports whether it will be. before has what was awaited at the last look.
func (w *Watch) await(of transcript.Process, before map[transcript.Process]func()) bool {
	stop, err := w.ends[of], error(nil)
	if stop == nil {
		stop = before[of]
	}
	if stop == nil {
		stop, err = process.OnEnd(of.PID, w.ended)
	}
	if err == nil {
		w.ends[of] = stop
	}
	return err == nil
}

// lookAt takes a close look at one pane, within a time limit. The view is valid even with an error.
func (w *Watch) lookAt(ctx context.Context, p pane.Pane) (pane.View, error) {
	ctx, stop := context.WithTimeout(ctx, paneLimit)
	defer stop()
	v, err := w.panes.Views.Look(ctx, p)
	if err != nil {
		v = pane.View{Pane: p, State: tmux.Unknown, Why: view.Describe(err), At: time.Now()}
	}
	return v, err
}

// sameView reports whether two views have no visible difference.
func sameView(a, b pane.View) bool {
	a.At, a.Messages, a.Process = b.At, b.Messages, b.Process
	return reflect.DeepEqual(a, b)
}
