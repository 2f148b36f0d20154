package opencode

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// marksFile returns the file that records, one per line, our actions on a session that its events do not
// show: the messages of stopped turns, and denied tool calls, as named by deniedCall.
func (o Options) marksFile(session string) string {
	return filepath.Join(o.marksDir(), SessionID(session))
}

func (o Options) marksDir() string { return filepath.Join(o.State, "opencode", "interrupted") }

// deniedCall names a denied tool call. It includes the message, because the model chooses call ids and may
// repeat them.
func deniedCall(message, call string) string {
	return url.PathEscape(message) + "/" + url.PathEscape(call)
}

// mark records that a turn is being stopped, or that a tool call is denied.
func (o Options) mark(session, what string) error {
	if o.State == "" {
		return nil
	}
	path := o.marksFile(session)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("opencode: %w", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opencode: %w", err)
	}
	_, err = fmt.Fprintln(f, what)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("opencode: %w", err)
	}
	return nil
}

func (o Options) marked(session, what string) (bool, error) {
	if o.State == "" {
		return false, nil
	}
	data, err := os.ReadFile(o.marksFile(session))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return slices.Contains(strings.Fields(string(data)), what), nil
	}
	return false, fmt.Errorf("opencode: %w", err)
}
