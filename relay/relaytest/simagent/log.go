package simagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrEnded says that an agent has shut down, so that it takes no more rows.
var ErrEnded = errors.New("the agent has shut down")

// log has the rows that an agent took, in order. grown is closed and replaced when
// one is added, which wakes every waiter. A wait for a condition variable would not
// end with a context.
type log struct {
	mu    sync.Mutex
	rows  []Taken
	grown chan struct{}
	ended chan struct{}
}

func newLog() *log { return &log{grown: make(chan struct{}), ended: make(chan struct{})} }

func (l *log) add(rows []Taken) {
	if len(rows) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, rows...)
	close(l.grown)
	l.grown = make(chan struct{})
}

func (l *log) after(n int) ([]Taken, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rows[min(n, len(l.rows)):]), l.grown
}

// wait blocks until more than n rows were taken and returns those after the
// n-th. Rows that are there win over an end.
func (l *log) wait(ctx context.Context, n int) ([]Taken, error) {
	for {
		rows, grown := l.after(n)
		if len(rows) > 0 {
			return rows, nil
		}
		select {
		case <-grown:
		case <-l.ended:
			if rows, _ := l.after(n); len(rows) > 0 {
				return rows, nil
			}
			return nil, ErrEnded
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Log returns every row the agent has taken so far, in the order of the file.
// The rows are the caller's own; their Raw bytes are shared and not to be changed.
func (a *Agent) Log() []Taken {
	rows, _ := a.log.after(0)
	return rows
}

// Wait blocks until the agent has taken at least n rows since it was made, and
// returns all of them. It fails when ctx ends, and with [ErrEnded] when the
// agent has shut down with fewer.
func (a *Agent) Wait(ctx context.Context, n int) ([]Taken, error) {
	for have := 0; have < n; {
		rows, err := a.log.wait(ctx, have)
		if err != nil {
			return nil, fmt.Errorf("simagent: wait until %s has taken %d rows, it has %d: %w", a.opts.Name, n, have, err)
		}
		have += len(rows)
	}
	return a.Log(), nil
}
