package simchild

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Entry is an action of a child.
type Entry struct {
	// Kind is "start" and "exit" of a process (a killed one has no exit), "read" of a frame, "begin" of a turn, "tool": a tool was
	// called, "hold": a fault of that name strikes, and "work": what a turn was for has been done. A message that was worked on twice has two of these.
	Kind    string    `json:"kind"`
	At      time.Time `json:"at"` // UTC
	PID     int       `json:"pid"`
	Session string    `json:"session,omitempty"`
	UUIDs   []string  `json:"uuids,omitempty"` // of the frames of the turn
	Text    string    `json:"text,omitempty"`  // of the turn
	Model   string    `json:"model,omitempty"` // of a turn that begins
	Mode    string    `json:"mode,omitempty"`  // of permissions, at "begin" and "work"
}

// Log returns the actions of the children of a State, in order. A missing log is no error.
func Log(state string) ([]Entry, error) {
	data, err := os.ReadFile(filepath.Join(state, logName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("simchild: log: %w", err)
	}
	var all []Entry
	for line := range bytes.Lines(data) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("simchild: log: %w", err)
		}
		all = append(all, e)
	}
	return all, nil
}

// Works counts, for every text of a turn, how often it was worked on.
func Works(state string) (map[string]int, error) {
	all, err := Log(state)
	works := map[string]int{}
	for _, e := range all {
		if e.Kind == "work" {
			works[e.Text]++
		}
	}
	return works, err
}

const logName = "simchild.log"
