package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/wire"
)

// entry is a line in the record of a session. Besides At, exactly one field is set.
type entry struct {
	At time.Time `json:"at"`

	Session  string         `json:"session,omitempty"`  // the agent's session; it replaces earlier sessions, and their entries no longer count
	Begun    string         `json:"begun,omitempty"`    // the message whose prompt is about to be sent
	Found    string         `json:"found,omitempty"`    // a message that the agent's own record has
	Stopping string         `json:"stopping,omitempty"` // a message whose turn is being stopped
	Ended    *ending        `json:"ended,omitempty"`
	Envelope *wire.Envelope `json:"envelope,omitempty"` // an envelope that is reported
}

// ending is the outcome of a message's turn.
type ending struct {
	Message string      `json:"message"`
	State   agent.State `json:"state"`
	Text    string      `json:"text,omitempty"`    // the agent's last text
	Failure string      `json:"failure,omitempty"` // why the turn failed
}

// record is the relay's own record of a session, in a file of the state directory. Only the holder of the
// session's lock appends to it.
type record struct {
	path string

	mu       sync.Mutex
	file     *os.File        // nil if the record is read-only
	torn     bool            // a kill has cut off the last line
	session  string          // the agent's session; "" if there is none
	created  time.Time       // when the agent made the session
	begun    []string        // messages whose prompts were begun in the session, in order
	found    map[string]bool // the begun messages that the agent certainly has
	stopping map[string]bool
	ended    map[string]ending

	turn  string            // the reported turn that is still open; "" if there is none
	told  map[string]bool   // the ids of the turn's envelopes
	calls map[string]string // the turn's open tool calls, with the ids of the envelopes that will end them
}

// readRecord reads the record of a session. If each is not nil, it is called with each envelope.
func readRecord(path string, each func(wire.Envelope) bool) (*record, error) {
	r := &record{path: path, found: map[string]bool{}, stopping: map[string]bool{}, ended: map[string]ending{}}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("acp: %w", err)
	}
	r.torn = len(data) > 0 && data[len(data)-1] != '\n'
	for line := range bytes.Lines(data) {
		var e entry
		if json.Unmarshal(line, &e) != nil {
			continue // a kill cut it off, so the step after it was not taken
		}
		r.take(e)
		if e.Envelope != nil && each != nil && !each(*e.Envelope) {
			break
		}
	}
	return r, nil
}

// openRecord reads the record of a session, and opens it for appending.
func openRecord(path string) (*record, error) {
	r, err := readRecord(path, nil)
	if err != nil {
		return nil, err
	}
	if r.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("acp: %w", err)
	}
	return r, syncDir(filepath.Dir(path))
}

// syncDir flushes a directory, so that a new file in it survives a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("acp: %w", err)
	}
	_ = d.Sync() // not every system supports it
	return d.Close()
}

func (r *record) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// add appends an entry, and flushes all but envelopes to the disk.
func (r *record) add(e entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return fmt.Errorf("acp: %s: %w", r.path, fs.ErrClosed)
	}
	e.At = time.Now().UTC()
	line, err := json.Marshal(e)
	if r.torn {
		line = append([]byte("\n"), line...)
	}
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
		r.torn = err != nil // the next entry must begin a new line
	}
	if err == nil && e.Envelope == nil {
		err = r.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("acp: %w", err)
	}
	r.take(e)
	return nil
}

// take applies an entry.
func (r *record) take(e entry) {
	switch {
	case e.Session != "":
		r.session, r.created, r.begun = e.Session, e.At, nil
		clear(r.found)
	case e.Begun != "":
		r.begun = append(slices.DeleteFunc(r.begun, func(id string) bool { return id == e.Begun }), e.Begun)
		delete(r.stopping, e.Begun)
	case e.Found != "":
		r.found[e.Found] = true
	case e.Stopping != "":
		r.stopping[e.Stopping] = true
	case e.Ended != nil:
		r.ended[e.Ended.Message] = *e.Ended
	case e.Envelope != nil:
		r.tell(*e.Envelope)
	}
}

func (r *record) tell(e wire.Envelope) {
	switch v := e.Event.(type) {
	case *wire.TurnStart:
		r.turn, r.told, r.calls = *e.Turn, map[string]bool{}, map[string]string{}
	case *wire.TurnEnd:
		r.turn = ""
	case *wire.ToolCallStart:
		r.calls[v.Call] = callEnd(r.turn, v.Call)
	case *wire.ToolCallEnd:
		delete(r.calls, v.Call)
	}
	if r.told != nil {
		r.told[e.ID] = true
	}
}

// open returns the messages that the agent may have: their prompts were begun, and their outcome is not
// recorded.
func (r *record) open() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.begun {
		if _, ended := r.ended[id]; !ended && !r.found[id] {
			list = append(list, id)
		}
	}
	return list
}

// empty reports whether the agent need not have kept the session: no turn in it was completed, and none was found.
func (r *record) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.begun, func(id string) bool { return r.found[id] || r.ended[id].State == agent.Done })
}

// hasTold reports whether an envelope of the last turn was already reported.
func (r *record) hasTold(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[id]
}

// answer returns the outcome of a message, as far as it is recorded. known is false if only the agent can
// decide.
func (r *record) answer(id string) (t agent.Turn, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.ended[id]; ok {
		t.Stored = true
		switch e.State {
		case agent.Done:
			t.Finished, t.Text = true, e.Text
		case agent.Cancelled:
			t.Interrupted = true
		default:
			t.Failed, t.Failure = true, e.Failure
		}
		return t, true
	}
	switch {
	case r.stopping[id]: // a stopped message is not sent again, even if the agent lacks it
		return agent.Turn{Stored: true, Interrupted: true}, true
	case r.found[id]:
		return agent.Turn{Stored: true}, true
	}
	return agent.Turn{}, !slices.Contains(r.begun, id)
}
