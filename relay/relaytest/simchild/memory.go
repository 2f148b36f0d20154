package simchild

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"teambridge/relay/relaytest/claudedir"
)

// memory is the transcript of a session, and the uuids that are known from it. Each process that has the session has one
// of its own, and does not see what another adds to the transcript.
type memory struct {
	path    string
	session string
	known   map[string]bool // frames that are not run again
	last    string          // uuid of the last record, the parent of the next
	full    bool            // nothing more can be written
}

// transcriptPath returns the path of the transcript, as with the real ones.
func transcriptPath(state, session string) string {
	dir, err := os.Getwd()
	if err != nil {
		dir = state
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return claudedir.Transcript(state, dir, session)
}

// echoedPath returns the path of the list of echoed frames. The real one knows them in another way, but also runs
// only these not again.
func (m *memory) echoedPath() string { return strings.TrimSuffix(m.path, ".jsonl") + ".echoed" }

// echoed records that a frame is known from now on, also to later processes.
func (m *memory) echoed(uuid string) error {
	if m.full {
		return nil
	}
	return claudedir.Append(m.echoedPath(), uuid)
}

// note appends a record that is no part of the conversation.
func (m *memory) note(fields object) error {
	if m.full {
		return nil
	}
	r := object{"sessionId": m.session, "timestamp": claudedir.Now()}
	maps.Copy(r, fields)
	return claudedir.Append(m.path, r)
}

// remember opens the memory of a session. found is false if there is none.
func (p *program) remember(session string) (m *memory, found bool, err error) {
	m = &memory{path: transcriptPath(p.script.State, session), session: session, known: map[string]bool{}}
	data, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	} else if err != nil {
		return nil, false, err
	}
	for line := range bytes.Lines(data) {
		var r struct {
			UUID string `json:"uuid"`
		}
		if json.Unmarshal(line, &r) != nil || r.UUID == "" {
			continue // torn by a kill
		}
		m.last = r.UUID
	}
	echoed, err := os.ReadFile(m.echoedPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	for line := range bytes.Lines(echoed) {
		var uuid string
		if json.Unmarshal(line, &uuid) == nil {
			m.known[uuid] = true
		}
	}
	return m, true, nil
}

// another opens the memory of a new session, as /clear does.
func (p *program) another() *memory {
	m, _, err := p.remember(uuid.NewString())
	p.check(err)
	return m
}

// store appends a record.
func (m *memory) store(kind, uuid string, fields object) error {
	r := object{"parentUuid": m.last, "isSidechain": false, "type": kind, "uuid": uuid}
	if m.last == "" {
		r["parentUuid"] = nil
	}
	maps.Copy(r, fields)
	m.last = uuid
	return m.note(r)
}

type object = claudedir.Object
