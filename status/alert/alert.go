// Package alert tells a person elsewhere what waits: it posts to ntfy, Slack, Telegram, or any other webhook.
//
//	a, err := alert.Open(alert.Options{To: destination, State: stateDir, Root: root})
//	go a.Run(ctx)
//	a.Update(list)  // whenever what waits may have changed
//	err = a.Close() // says what was not delivered
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

// Options configures an [Alerter]. Team, Text and Transport may be left out.
type Options struct {
	To    Destination
	State string // the state directory
	Root  string // the Claude directory
	Team  string // that is watched; empty: all

	LookupEnv func(string) (string, bool)
	Text      func(context.Context, api.Attention) string // what to tell of a thing besides its kind; nil: nothing
	Warn      func(error)                                 // is told of the first failure, and of refusals
	Note      func(string)                                // is told that it works again

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
	waiting []api.Attention // as of the last update
	looked  bool            // there was one
	greet   int             // how many things waited at the first update; -1: somebody was told, or nobody is to be
	last    error           // of the last attempt
}

// Open takes the alerts to a destination, and reads what was told before. It sends nothing. If another
// process has them, the error is [lockedfile.ErrLocked]. Close it.
func Open(opts Options) (*Alerter, error) {
	name := opts.name()
	release, err := lockedfile.Hold(locks(opts.State), lockKey(name))
	if err != nil {
		return nil, fmt.Errorf("alerts to %s: %w", opts.To, err)
	}
	a := &Alerter{
		opts: opts, path: filepath.Join(opts.State, "alerts", name+".json"), release: release, news: make(chan struct{}, 1), greet: -1,
		client: &http.Client{
			Transport:     opts.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if a.record, err = readRecord(a.path); err != nil || a.record.Told == nil {
		a.record = Record{Told: map[string]told{}} // there is none, or it cannot be read; then what waits now is not told
	}
	a.record.To, a.record.Root, a.record.Team = opts.To.String(), opts.Root, opts.Team
	return a, nil
}

// News reports whether something that waits is other than it was, and not just less, as unread messages of which some were read.
func News(w, was api.Attention) bool { return w.Message != was.Message && w.Count >= was.Count }

// Update says what waits now. At the first update of the first process, that is not told one by one.
func (a *Alerter) Update(list []api.Attention) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.looked && a.record.Since.IsZero()
	if a.looked = true; first {
		a.greet = len(list)
		a.record.add(list, false)
	}
	a.waiting = slices.Clone(list)
	a.record.look(list)
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// due returns what has to be told, and in greet what [compose] wants to know.
func (a *Alerter) due() (list []api.Attention, greet int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiting {
		if _, known := a.record.Told[w.ID]; !known {
			list = append(list, w)
		}
	}
	return list, a.greet
}

// Run sends alerts until ctx ends.
func (a *Alerter) Run(ctx context.Context) {
	var next <-chan time.Time // nil: there is nothing to tell
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-a.news:
			if next == nil {
				next = time.After(gather)
			}
			continue
		case <-next:
			next = nil
		}
		list, greet := a.due()
		if len(list) == 0 && greet < 0 {
			continue
		}
		err := a.attempt(ctx, list, greet)
		warnings, note := a.conclude(list, err)
		for _, w := range warnings {
			a.opts.Warn(w)
		}
		if note != "" {
			a.opts.Note(note)
		}
		if answer, ok := errors.AsType[*answerError](err); err != nil && !(ok && answer.refused) {
			wait := min(firstWait<<min(failures, 9), mostWait)
			if wait = wait/2 + rand.N(wait/2+1); ok {
				wait = max(wait, answer.after)
			}
			failures++
			next = time.After(wait)
			continue
		}
		failures = 0
	}
}

// attempt sends an alert. If ctx ends, it has a moment left.
func (a *Alerter) attempt(ctx context.Context, list []api.Attention, greet int) error {
	to, err := a.opts.To.load(a.opts.LookupEnv) // each time: the token may be a new one
	if err != nil {
		return err
	}
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, cancel) })()
	var text func(api.Attention) string
	if a.opts.Text != nil {
		text = func(w api.Attention) string { return a.opts.Text(sending, w) }
	}
	err = to.post(sending, a.client, compose(list, greet, text))
	switch {
	case err == nil:
	case ctx.Err() != nil && sending.Err() != nil:
		err = errors.New("there was no answer before the end; it may have arrived")
	case sending.Err() != nil:
		err = fmt.Errorf("no answer within %s", patience)
	}
	return err
}

// conclude records what became of an attempt. It returns what a person should know of it: warnings, or that it works again.
func (a *Alerter) conclude(list []api.Attention, err error) (warnings []error, note string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now().UTC()
	answer, ok := errors.AsType[*answerError](err)
	refused := ok && answer.refused
	before := a.record.Problem
	if a.last = err; err == nil || refused {
		a.greet = -1
		a.record.add(list, refused)
		a.record.look(a.waiting) // what has come meanwhile is newer than what was told
	}
	switch {
	case err == nil:
		if a.record.Last, a.record.Problem = now, nil; a.record.Since.IsZero() {
			a.record.Since = now
		}
		if before != nil {
			note = fmt.Sprintf("alerts are delivered again to %s", a.opts.To)
		}
	case refused:
		warnings = append(warnings, fmt.Errorf("an alert to %s was %w; it is not sent again", a.opts.To, err))
	case before != nil && !before.Refused:
		return nil, "" // it was told, and the file says it
	default:
		warnings = append(warnings, fmt.Errorf("an alert to %s was not delivered, and is sent again: %w", a.opts.To, err))
	}
	if err != nil {
		a.record.Problem = &Problem{Since: now, Why: err.Error(), Refused: refused}
	}
	if err := a.record.write(a.path, len(a.waiting)); err != nil {
		warnings = append(warnings, fmt.Errorf("what was alerted is not recorded, so a later process may tell it again: %w", err))
	}
	return warnings, note
}

// Close gives up the alerts, after Run has returned. The error says what waits and was not told; the next process tells it.
func (a *Alerter) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var things []string
	for _, w := range a.waiting {
		if t, known := a.record.Told[w.ID]; !known || t.refused {
			things = append(things, who(w)+": "+what(w))
		}
	}
	if more := len(things) - 5; more > 0 {
		things = append(things[:5], fmt.Sprintf("and %d more", more))
	}
	if len(things) == 0 && a.looked && a.record.Since.IsZero() {
		things = []string{"the first alert"}
	}
	err := a.release()
	if len(things) > 0 {
		undelivered := fmt.Errorf("not alerted to %s: %s", a.opts.To, strings.Join(things, ", "))
		if a.last != nil {
			undelivered = fmt.Errorf("%w: %w", undelivered, a.last)
		}
		err = errors.Join(undelivered, err)
	}
	return err
}
