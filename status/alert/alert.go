// Package alert notifies a person who is away of things that need the person: it posts to ntfy, Slack, Telegram, or any
// other webhook.
//
//	a, err := alert.Open(alert.Options{To: destination, State: stateDir, Root: root})
//	go a.Update(list)  // whenever the list may have changed
//	err = a.Run(ctx)   // the error names what was not delivered
//
// An alert names the agent and the kind of thing. Texts of agents leave this machine only if [Options.Text] is set.
//
// # Guarantees
//
//   - Each thing is sent once. Every delivery is recorded before the next alert, so that a later process sends only
//     what is new or was not delivered. A thing is sent twice only if the process is killed before the record, or the
//     server's answer is lost.
//   - A thing that no longer waits is not sent. While an alert cannot be delivered, new things join the next one, so
//     the queue is never longer than the current list.
//   - If a server is away or overloaded, the alert is tried again for as long as the thing waits, at growing intervals
//     and not before the time that the server names. If a server refuses, it is not tried again: [Options.Warn] and the
//     error of [Alerter.Run] report that.
//   - Addresses and tokens appear in no error, log or record.
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
	Team  string // the team to send alerts about; empty: all

	// Gather is how long an alert waits for further things, and the delay before the second attempt; 0 is 1 s.
	Gather time.Duration

	LookupEnv func(string) (string, bool)
	Text      func(context.Context, api.Attention) string // returns the text of a thing; nil: alerts have no texts
	Warn      func(error)                                 // reports the first failure, and refusals
	Note      func(string)                                // reports that delivery works again

	Transport http.RoundTripper // nil: that of net/http, with the proxy of the environment
}

// Times of an [Alerter].
const (
	mostWait = 5 * time.Minute  // the longest time between two attempts, unless the server asks for more
	patience = 30 * time.Second // the timeout of an attempt
	afterEnd = 3 * time.Second  // the time left for an attempt when Run ends
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
	waiting []api.Attention // the list of the last update
	looked  bool            // there was an update
	last    error           // the error of the last attempt
}

// Open locks the alerts to a destination, and reads the record of earlier ones. It sends nothing. The error is
// [lockedfile.ErrLocked] if another process sends these alerts. Run releases the lock.
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
		a.record = Record{} // missing or unreadable: start a new record, without alerts about the present list
	}
	a.record.To, a.record.Root, a.record.Team = opts.To.String(), opts.Root, opts.Team
	return a, nil
}

// News reports whether w is news after what was told, by id, and returns its earlier state. If messages were only read,
// it is not news.
func News(w api.Attention, told map[string]Told) (was Told, news bool) {
	was, known := told[w.ID]
	if !known && w.Kind == api.WaitsUnread { // the id has the first message: if that was read, it is another one
		of := strings.Join([]string{w.Kind, w.Team, w.Member, w.From, ""}, "/")
		for id, t := range told {
			if t.Message == w.Message && strings.HasPrefix(id, of) {
				was, known = t, true
			}
		}
	}
	return was, !known || w.Message != was.Message && w.Count >= was.Count
}

// Update sets the current list. If no alert was ever delivered, the things in the first list are only counted, not
// named.
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

// due returns the things to send. If no alert was ever delivered, before is the number of things in the first list;
// otherwise it is -1.
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

// Run sends alerts until ctx ends, and releases the lock. The error names the things that were not delivered. The next
// process sends them.
func (a *Alerter) Run(ctx context.Context) error {
	var next <-chan time.Time // nil: nothing to send
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

// attempt sends an alert. After the end of ctx, it has afterEnd left.
func (a *Alerter) attempt(ctx context.Context, list []api.Attention, before int) error {
	to, err := a.opts.To.load(a.opts.LookupEnv) // load it each time: the person may have changed the token
	if err != nil {
		return err
	}
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(afterEnd, cancel) })()
	err = to.post(sending, a.client, a.compose(sending, list, before))
	switch {
	case err == nil || sending.Err() == nil:
		return err
	case ctx.Err() != nil:
		return errors.New("there was no answer before the end; it may have arrived")
	}
	return fmt.Errorf("no answer within %s", patience)
}

// conclude records the result of an attempt, and reports it if the person should know.
func (a *Alerter) conclude(list []api.Attention, err error) {
	a.mu.Lock()
	now, before := time.Now().UTC(), a.record.Problem
	if a.last = err; err == nil || refused(err) {
		a.record.add(list, refused(err))
		a.record.look(a.waiting) // the list may have changed during the attempt
	}
	if err == nil {
		a.record.Last, a.record.Problem = now, nil
	} else if before == nil || before.Refused || refused(err) {
		a.record.Problem = &Problem{Since: now, Why: err.Error(), Refused: refused(err)}
	}
	failed := a.record.write(a.opts.State, a.name, len(a.waiting))
	a.mu.Unlock()
	switch { // without the mutex: logging can be slow
	case err == nil && before != nil:
		a.opts.Note(fmt.Sprintf("alerts are delivered again to %s", a.opts.To))
	case refused(err):
		a.opts.Warn(fmt.Errorf("an alert to %s was %w; it is not sent again", a.opts.To, err))
	case err != nil && (before == nil || before.Refused): // a later failure was reported before, and is in the record
		a.opts.Warn(fmt.Errorf("an alert to %s was not delivered, and is sent again: %w", a.opts.To, err))
	}
	if failed != nil {
		a.opts.Warn(fmt.Errorf("what was alerted is not recorded, so a later process may tell it again: %w", failed))
	}
}

// undelivered returns an error that names the things that were not delivered.
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
