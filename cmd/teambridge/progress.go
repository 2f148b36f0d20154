package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// progress is a line on a terminal that says what a command waits for, and how long it has
// waited. It appears after a second, and is gone when something else is printed, and at the
// end. A nil *progress shows nothing.
type progress struct {
	w       io.Writer
	columns func() int // of the terminal
	style   func(string) string

	mu     sync.Mutex // held while anything is written to the terminal
	active bool
	shown  int // the columns that the line takes
}

const (
	unnoticed = time.Second            // so long a wait needs no word
	frame     = 100 * time.Millisecond // of the spinner
)

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// working shows that the command does what text says, until done is called. That has to be
// before anything long is printed, which may be read in a pager on the same terminal.
func (a *app) working(format string, args ...any) (done func()) {
	return a.progress.start(escape(fmt.Sprintf(format, args...), false))
}

// start shows text until done is called. Within it, another start does nothing.
func (p *progress) start(text string) (done func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active {
		return func() {}
	}
	p.active = true
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.run(text, time.Now(), end)
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-ended
		p.mu.Lock()
		defer p.mu.Unlock()
		p.erase()
		p.active = false
	})
}

func (p *progress) run(text string, since time.Time, end <-chan struct{}) {
	select {
	case <-end:
		return
	case <-time.After(unnoticed):
	}
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for i := 0; ; i++ {
		p.mu.Lock()
		p.erase()
		line := fmt.Sprintf("%c %s… %s", spinner[i%len(spinner)], text, time.Since(since).Truncate(time.Second))
		line = cut(line, p.columns()-1) // a full line would wrap
		p.shown = width(line)
		_, _ = io.WriteString(p.w, p.style(line)) // a terminal that is gone is noticed elsewhere
		p.mu.Unlock()
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// erase removes the line, without escape sequences. p.mu is held.
func (p *progress) erase() {
	if p.shown > 0 {
		_, _ = io.WriteString(p.w, "\r"+strings.Repeat(" ", p.shown)+"\r")
		p.shown = 0
	}
}

// aside calls write, which writes to the terminal, where the line is not.
func (p *progress) aside(write func()) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.erase()
	}
	write()
}

// cut shortens s to a number of columns, with an ellipsis.
func cut(s string, columns int) string {
	if width(s) <= columns {
		return s
	}
	if columns <= 0 {
		return ""
	}
	n := 0
	for i, r := range s {
		if n += runeWidth(r); n > columns-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}

// width is how many columns s takes on a terminal.
func width(s string) (n int) {
	if len(s) == utf8.RuneCountInString(s) {
		return len(s)
	}
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}
