// Package alert tells a person elsewhere what waits: through ntfy, Slack, Telegram, or a webhook.
//
//	a, err := alert.Open(alert.Options{To: destination, State: stateDir, Root: root})
//	go a.Run(ctx)
//	a.Update(list, false) // whenever what waits may have changed
//	err = a.Close()       // says what was not delivered
//
// An alert says who waits and what for, in words of ours. Texts of agents leave this machine only if
// [Options.Text] is set.
//
// # Guarantees
//
//   - Each thing that waits is told once. What was delivered is recorded before the next alert, so that
//     a later process tells only what is new, or what an earlier one could not deliver. A process that is
//     killed between the answer and the record tells it again, and so it is if an answer is lost on its way.
//   - What waits no more is not told. What comes while an alert cannot be delivered is told with the next
//     one, so that what is queued is never more than what waits.
//   - A server that is away, or that has too much to do, is asked again, at longer and longer intervals
//     and not before it says, for as long as the thing waits. One that refuses is not: [Options.Warn] and the error of
//     [Alerter.Close] say so.
//   - Addresses and tokens are in no error, no log, and no record.
package alert

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/status/api"
	"teambridge/teams/lockedfile"
)

// Options configures an [Alerter]. To, State and Root are needed.
type Options struct {
	To    Destination
	State string // the state directory
	Root  string // the Claude directory
	Team  string // that is watched; empty: all

	LookupEnv func(string) (string, bool)
	Text      func(context.Context, api.Attention) string // what to tell of a thing besides its kind; nil: nothing
	Warn      func(error)                                 // is told of the first failure, and of refusals; may be nil
	Note      func(string)                                // is told that it works again; may be nil

	Transport http.RoundTripper // nil: that of net/http, with the proxy of the environment
}

// Times of an [Alerter].
const (
	gather    = time.Second      // from the first thing to its alert, for others that come with it
	firstWait = time.Second      // after a failure; then twice as long each time
	mostWait  = 5 * time.Minute  // between two attempts, unless the server says more
	patience  = 30 * time.Second // for one attempt
	lastWords = 3 * time.Second  // for the attempt that is under way at the end
)

// Alerter sends alerts to one destination.
type Alerter struct {
	opts    Options
	path    string // of the record
	release func() error
	client  *http.Client
	news    chan struct{}

	mu      sync.Mutex
	record  Record
	waiting []api.Attention   // as of the last update
	looked  bool              // there was one
	greet   int               // how many things waited at the first update; -1: somebody was told, or nobody is to be
	refused map[string]string // ids of what was refused, and its last message
	last    error             // of the last attempt
}

// Open takes the alerts to a destination, and reads what was told before. It sends nothing. If another
// process has them, the error is [lockedfile.ErrLocked]. Close it.
func Open(opts Options) (*Alerter, error) {
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	if opts.Note == nil {
		opts.Note = func(string) {}
	}
	if opts.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableKeepAlives = true // they are rare
		opts.Transport = t
	}
	name := opts.name()
	release, err := lockedfile.Hold(locks(opts.State), lockKey(name))
	if err != nil {
		return nil, fmt.Errorf("alerts to %s: %w", opts.To, err)
	}
	a := &Alerter{
		opts: opts, path: filepath.Join(opts.State, "alerts", name+".json"), release: release, news: make(chan struct{}, 1), greet: -1, refused: map[string]string{},
		client: &http.Client{
			Transport:     opts.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if a.record, err = readRecord(a.path); err != nil {
		a.record = Record{} // there is none, or it cannot be read; then what waits now is not told
	}
	a.record.To, a.record.Root, a.record.Team = opts.To.String(), opts.Root, opts.Team
	if a.record.Told == nil {
		a.record.Told = map[string]told{}
	}
	return a, nil
}

// Update says what waits now; with partial, a part of it. At the first update of the first process, what
// waits is not told one by one.
func (a *Alerter) Update(list []api.Attention, partial bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now().UTC()
	list = slices.Clone(list)
	waits := map[string]bool{}
	for _, w := range list {
		waits[w.ID] = true
	}
	if partial { // what is not in it may wait still
		for _, w := range a.waiting {
			if !waits[w.ID] {
				list = append(list, w)
			}
		}
	}
	first := !a.looked && a.record.Since.IsZero()
	if a.looked = true; first {
		a.greet = len(list)
	}
	for _, w := range list {
		was, known := a.record.Told[w.ID]
		switch {
		case known && w.Message != was.Message && w.Count >= was.Count: // and not just one that was read
			delete(a.record.Told, w.ID)
		case known, first:
			a.record.Told[w.ID] = told{w.Message, w.Count, now}
		}
	}
	a.waiting = list
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// due returns what has to be told, and whether that is anything.
func (a *Alerter) due() (list []api.Attention, greet int, any bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiting {
		_, known := a.record.Told[w.ID]
		message, refused := a.refused[w.ID]
		if !known && !(refused && message == w.Message) {
			list = append(list, w)
		}
	}
	return list, a.greet, len(list) > 0 || a.greet >= 0
}

// Run sends alerts until ctx ends.
func (a *Alerter) Run(ctx context.Context) {
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.news:
		}
		for pause := gather; ; {
			if _, _, any := a.due(); !any {
				break
			}
			if !sleep(ctx, pause) {
				return
			}
			list, greet, any := a.due() // which may be less now, or more
			if !any {
				break
			}
			pause = gather
			err := a.attempt(ctx, list, greet)
			if _, refused := errors.AsType[*refusedError](err); err == nil || refused {
				failures = 0
			} else {
				pause = backoff(failures, err)
				failures++
			}
			a.conclude(list, greet, err)()
		}
	}
}

// backoff is how long to wait after an error, the first being 0.
func backoff(failures int, err error) time.Duration {
	wait := mostWait
	if failures < 9 {
		wait = min(firstWait<<failures, mostWait)
	}
	wait = wait/2 + rand.N(wait/2+1)
	if later, ok := errors.AsType[*laterError](err); ok {
		wait = max(wait, later.after)
	}
	return wait
}

// attempt sends an alert. If ctx ends, it has a moment left.
func (a *Alerter) attempt(ctx context.Context, list []api.Attention, greet int) error {
	to, err := a.opts.To.load(a.opts.LookupEnv) // each time: the token may be a new one
	if err != nil {
		return err
	}
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if sleep(sending, lastWords) {
			cancel()
		}
	})
	defer stop()
	var text func(api.Attention) string
	if a.opts.Text != nil {
		text = func(w api.Attention) string { return a.opts.Text(sending, w) }
	}
	err = a.opts.To.send(sending, a.client, to, compose(list, greet, text))
	switch {
	case err == nil:
	case ctx.Err() != nil && sending.Err() != nil:
		err = errors.New("there was no answer before the end; it may have arrived")
	case sending.Err() != nil:
		err = fmt.Errorf("no answer within %s", patience)
	}
	return err
}

// conclude records what became of an attempt. tell says what a person should know of it.
func (a *Alerter) conclude(list []api.Attention, greet int, err error) (tell func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	tell = func() {}
	now := time.Now().UTC()
	_, refused := errors.AsType[*refusedError](err)
	before := a.record.Problem
	a.last = err
	switch {
	case err == nil:
		for _, w := range list {
			a.record.Told[w.ID] = told{w.Message, w.Count, now}
		}
		a.record.Last, a.record.Problem = now, nil
		if a.record.Since.IsZero() {
			a.record.Since = now
		}
		a.greet = -1
		if before != nil {
			tell = func() { a.opts.Note(fmt.Sprintf("alerts are delivered again to %s", a.opts.To)) }
		}
		// What has come meanwhile is newer than what was told.
		for _, w := range a.waiting {
			if t, ok := a.record.Told[w.ID]; ok && w.Message != t.Message && w.Count >= t.Count {
				delete(a.record.Told, w.ID)
			}
		}
	case refused:
		for _, w := range list {
			a.refused[w.ID] = w.Message
		}
		if greet >= 0 {
			a.greet = -1
		}
		tell = func() { a.opts.Warn(fmt.Errorf("an alert to %s was %w; it is not sent again", a.opts.To, err)) }
		a.record.Problem = &Problem{Since: now, Why: err.Error(), Refused: true}
	default:
		if before == nil || before.Refused {
			a.record.Problem = &Problem{Since: now, Why: err.Error()}
			tell = func() {
				a.opts.Warn(fmt.Errorf("an alert to %s was not delivered, and is sent again: %w", a.opts.To, err))
			}
		} else {
			before.Why = err.Error()
			return tell // the file says it already
		}
	}
	waits := func(id string) bool {
		return slices.ContainsFunc(a.waiting, func(w api.Attention) bool { return w.ID == id })
	}
	if err := a.record.write(a.path, waits, now); err != nil {
		also := tell
		tell = func() {
			also()
			a.opts.Warn(fmt.Errorf("what was alerted is not recorded, so a later process may tell it again: %w", err))
		}
	}
	return tell
}

// UndeliveredError says what was not delivered.
type UndeliveredError struct {
	To     string
	Things []string // the first ones
	Count  int      // of all; 0 if it is only the first alert
	Err    error    // of the last attempt; nil if there was none
}

func (e *UndeliveredError) Error() string {
	what := "the first alert"
	if e.Count > 0 {
		what = strings.Join(e.Things, ", ")
		if more := e.Count - len(e.Things); more > 0 {
			what += fmt.Sprintf(", and %d more", more)
		}
	}
	why := ""
	if e.Err != nil {
		why = ": " + e.Err.Error()
	}
	return fmt.Sprintf("not alerted to %s: %s%s", e.To, what, why)
}

func (e *UndeliveredError) Unwrap() error { return e.Err }

// Close gives up the alerts, after Run has returned. The error is an *[UndeliveredError] if things wait
// that were not told; the next process tells them.
func (a *Alerter) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &UndeliveredError{To: a.opts.To.String(), Err: a.last}
	for _, w := range a.waiting {
		if _, known := a.record.Told[w.ID]; known {
			continue
		}
		if e.Count++; len(e.Things) < 5 {
			e.Things = append(e.Things, who(w)+": "+what(w))
		}
	}
	err := a.release()
	if e.Count > 0 || a.looked && a.record.Since.IsZero() {
		err = errors.Join(e, err)
	}
	return err
}

// sleep waits, and reports whether ctx is still going on.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
