package hub

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// logger passes on the server's messages for an administrator.
type logger struct {
	log  *slog.Logger
	last *lastError
}

// lastError keeps the last error that the server logged: the server reports in no other way why it did not
// start.
type lastError struct {
	mu   sync.Mutex
	text string
}

func (l *lastError) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		return nil
	}
	return errors.New(l.text)
}

func (l logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l logger) Debugf(format string, v ...any)  {}
func (l logger) Tracef(format string, v ...any)  {}
func (l logger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l logger) Errorf(format string, v ...any)  { l.fail(fmt.Sprintf(format, v...)) }
func (l logger) Fatalf(format string, v ...any)  { l.fail(fmt.Sprintf(format, v...)) }

func (l logger) fail(text string) {
	l.last.mu.Lock()
	l.last.text = text
	l.last.mu.Unlock()
	l.log.Error(text)
}
