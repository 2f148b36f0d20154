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

// marksFile holds what we did to a session and its events do not tell, one a line: the messages whose turns
// were stopped, and the tool calls that were denied, as deniedCall names them.
func (o Options) marksFile(session string) string {
	return filepath.Join(o.marksDir(), SessionID(session))
}

func (o Options) marksDir() string { return filepath.Join(o.State, "opencode", "interrupted") }

// deniedCall names a tool call that was denied. The ids of calls are the model's, and may come again.
func deniedCall(message, call string) string {
	return url.PathEscape(message) + "/" + url.PathEscape(call)
}

// mark records that a turn is being stopped, or a tool call denied.
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
