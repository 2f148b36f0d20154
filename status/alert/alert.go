// Package alert tells a person elsewhere what waits: it posts to ntfy, Slack, Telegram, or any other webhook.
//
//	a, err := alert.Open(alert.Options{To: destination, State: stateDir, Root: root})
//	go a.Update(list)  // whenever what waits may have changed
//	err = a.Run(ctx)   // says what was not delivered
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
//     [Alerter.Run] say so.
//   - Addresses and tokens are in no error, no log, and no record.
package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/status/api"
	"teambridge/status/signals"
	"teambridge/teams/lockedfile"
)

// Options configures an [Alerter]. Team, Gather, Text and Transport may be left out.
type Options struct {
	To    Destination
	State string // the state directory
	Root  string // the Claude directory
	Team  string // that is watched; empty: all

	// Gather is how long an alert waits for other things that come with the first, and how long after a first failure it
	// is sent again; 0 is 1 s.
	Gather time.Duration

	LookupEnv func(string) (string, bool)
	Text      func(context.Context, api.Attention) string // what to tell of a thing besides its kind; nil: nothing
	Warn      func(error)                                 // is told of the first failure, and of refusals
	Note      func(string)                                // is told that it works again

	Transport http.RoundTripper // nil: that of net/http, with the proxy of the environment
}

// Times of an [Alerter].
const (
	mostWait  = 5 * time.Minute  // between two attempts, unless the server says more
	patience  = 30 * time.Second // for one attempt
	lastWords = 3 * time.Second  // for the attempt that is under way at the end
)

// Alerter sends alerts to one destination.
type Alerter struct {
	opts    Options
	name    string // of the record
	release func() error
	client  *http.Client
	news    chan struct{}

	mu      sync.Mutex
	record  Record
	waiting []api.Attention // as of the last update
	looked  bool            // there was one
	last    error           // of the last attempt
}

// Open takes the alerts to a destination, and reads what was told before. It sends nothing. If another
// process has them, the error is [lockedfile.ErrLocked]. Run gives them up.
func Open(opts Options) (*Alerter, error) {
	opts.Gather = cmp.Or(opts.Gather, time.Second)
	name := opts.name()
	release, err := lockedfile.Hold(locks(opts.State), lockKey(name))
	if err != nil {
		return nil, fmt.Errorf("alerts to %s: %w", opts.To, err)
	}
	a := &Alerter{opts: opts, name: name, release: release, news: make(chan struct{}, 1), client: &http.Client{
		Transport:     opts.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if a.record, err = readRecord(opts.State, name); err != nil {
		a.record = Record{} // there is none, or it cannot be read; then what waits now is not told
	}
	a.record.To, a.record.Root, a.record.Team = opts.To.String(), opts.Root, opts.Team
	return a, nil
}

// News reports whether something that waits is other than it was, and not just less, as unread messages of which some were read.
func News(w, was api.Attention) bool { return w.Message != was.Message && w.Count >= was.Count }

// Update says what waits now. Until the first alert ever, what waits at the first update is not told one by one.
func (a *Alerter) Update(list []api.Attention) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.looked && a.record.Last.IsZero() {
		a.record.Told = nil
		a.record.add(list, false)
	}
	a.looked, a.waiting = true, slices.Clone(list)
	a.record.look(list)
	signals.Send(a.news)
}

// due returns what has to be told, and how much waited before if nothing was ever delivered, or -1.
func (a *Alerter) due() (list []api.Attention, before int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiting {
		if _, known := a.record.Told[w.ID]; !known {
			list = append(list, w)
		}
	}
	if !a.record.Last.IsZero() || len(list) == 0 && refused(a.last) {
		return list, -1
	}
	return list, len(a.record.Told)
}

// Run sends alerts until ctx ends, and gives them up. The error says what waits and was not told; the next process tells it.
func (a *Alerter) Run(ctx context.Context) error {
	var next <-chan time.Time // nil: there is nothing to tell
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return errors.Join(a.undelivered(), a.release())
		case <-a.news:
			if next == nil {
				next = time.After(a.opts.Gather)
			}
			continue
		case <-next:
			next = nil
		}
		list, before := a.due()
		if len(list) == 0 && before < 0 {
			continue
		}
		err := a.attempt(ctx, list, before)
		a.conclude(list, err)
		if err == nil || refused(err) {
			failures = 0
			continue
		}
		wait := min(a.opts.Gather<<min(failures, 9), mostWait)
		wait = wait/2 + rand.N(wait/2+1)
		if answer, ok := errors.AsType[*answerError](err); ok {
			wait = max(wait, answer.after)
		}
		failures++
		next = time.After(wait)
	}
}

// attempt sends an alert. If ctx ends, it has a moment left.
func (a *Alerter) attempt(ctx context.Context, list []api.Attention, before int) error {
	to, err := a.opts.To.load(a.opts.LookupEnv) // each time: the token may be a new one
	if err != nil {
		return err
	}
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, cancel) })()
	err = to.post(sending, a.client, a.compose(sending, list, before))
	switch {
	case err == nil || sending.Err() == nil:
		return err
	case ctx.Err() != nil:
		return errors.New("there was no answer before the end; it may have arrived")
	}
	return fmt.Errorf("no answer within %s", patience)
}

// conclude records what became of an attempt, and tells what a person should know of it.
func (a *Alerter) conclude(list []api.Attention, err error) {
	a.mu.Lock()
	now, before := time.Now().UTC(), a.record.Problem
	if a.last = err; err == nil || refused(err) {
		a.record.add(list, refused(err))
		a.record.look(a.waiting) // what has come meanwhile is newer than what was told
	}
	if err == nil {
		a.record.Last, a.record.Problem = now, nil
	} else if before == nil || before.Refused || refused(err) {
		a.record.Problem = &Problem{Since: now, Why: err.Error(), Refused: refused(err)}
	}
	failed := a.record.write(a.opts.State, a.name, len(a.waiting))
	a.mu.Unlock()
	switch { // a log may take its time
	case err == nil && before != nil:
		a.opts.Note(fmt.Sprintf("alerts are delivered again to %s", a.opts.To))
	case refused(err):
		a.opts.Warn(fmt.Errorf("an alert to %s was %w; it is not sent again", a.opts.To, err))
	case err != nil && (before == nil || before.Refused): // else it was told, and the file says it
		a.opts.Warn(fmt.Errorf("an alert to %s was not delivered, and is sent again: %w", a.opts.To, err))
	}
	if failed != nil {
		a.opts.Warn(fmt.Errorf("what was alerted is not recorded, so a later process may tell it again: %w", failed))
	}
}

// undelivered says what waits and was not told.
func (a *Alerter) undelivered() error {
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
	if len(things) == 0 && a.looked && a.record.Last.IsZero() {
		things = []string{"the first alert"}
	}
	if len(things) == 0 {
		return nil
	}
	err := fmt.Errorf("not alerted to %s: %s", a.opts.To, strings.Join(things, ", "))
	if a.last != nil {
		err = fmt.Errorf("%w: %w", err, a.last)
	}
	return err
}
