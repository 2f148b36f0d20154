package stdio

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"teambridge/status/plain"
)

// Progress is a line on a terminal that says what a command waits for, and how long it has waited. It appears after a
// second, and is gone when something else is printed, and at the end. A nil *Progress shows nothing.
type Progress struct {
	W       io.Writer
	Columns func() int // of the terminal
	Style   func(string) string

	mu     sync.Mutex // held while anything is written to the terminal
	active bool
	text   string
	shown  int // the columns that the line takes
}

const (
	unnoticed = time.Second            // so long a wait needs no word
	frame     = 100 * time.Millisecond // of the spinner
)

var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// Start shows text until done is called. Within it, another start does nothing.
func (p *Progress) Start(text string) (done func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active {
		return func() {}
	}
	p.active, p.text = true, text
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.run(time.Now(), end)
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

// Say changes what is shown, if something is.
func (p *Progress) Say(text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

func (p *Progress) run(since time.Time, end <-chan struct{}) {
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
		line := fmt.Sprintf("%c %s… %s", spinner[i%len(spinner)], p.text, time.Since(since).Truncate(time.Second))
		line = plain.Cut(line, p.Columns()-1) // a full line would wrap
		p.shown = plain.Width(line)
		_, _ = io.WriteString(p.W, p.Style(line)) // a terminal that is gone is noticed elsewhere
		p.mu.Unlock()
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

// erase removes the line, without escape sequences. p.mu is held.
func (p *Progress) erase() {
	if p.shown > 0 {
		_, _ = io.WriteString(p.W, "\r"+strings.Repeat(" ", p.shown)+"\r")
		p.shown = 0
	}
}

// Aside calls write, which writes to the terminal, where the line is not.
func (p *Progress) Aside(write func()) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.erase()
	}
	write()
}
