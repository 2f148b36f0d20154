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
	"time"

	"teambridge/teams"
)

// Memory is the transcript of a session, and the uuids that are known from it. Each process that has the session has one
// of its own, and does not see what another adds to the transcript.
type Memory struct {
	path    string
	session string
	known   map[string]bool // frames that are not run again
	last    string          // uuid of the last record, the parent of the next
}

// transcriptPath is where the real ones have it, as long as the directory's name has under 200 plain characters.
func transcriptPath(state, session string) string {
	dir, err := os.Getwd()
	if err != nil {
		dir = state
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return filepath.Join(state, "projects", strings.Map(alphanumeric, dir), session+".jsonl")
}

// alphanumeric returns letters and digits as they are, and a hyphen for others.
func alphanumeric(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
		return r
	}
	return '-'
}

// echoedPath is where newer versions keep which frames they echoed. The real one knows it in
// another way, but only what it echoed does it not run again.
func (m *Memory) echoedPath() string { return strings.TrimSuffix(m.path, ".jsonl") + ".echoed" }

// echoed notes that a frame is known from now on, also to later processes.
func (m *Memory) echoed(uuid string) error { return appendLine(m.echoedPath(), uuid) }

// Remember opens the memory of a session as a version of Claude Code has it; found is false if there is none.
func Remember(state, session string, v teams.Version) (m *Memory, found bool, err error) {
	return remember(state, session, kindOf(v))
}

// Session is the id of the conversation.
func (m *Memory) Session() string { return m.session }

// Empty reports whether nothing was said in the conversation.
func (m *Memory) Empty() bool { return m.last == "" }

// Store appends a record that continues the conversation. It is known from now on: as a frame, it is not run again.
func (m *Memory) Store(kind, uuid string, fields map[string]any) error {
	return errors.Join(m.store(kind, uuid, fields), m.echoed(uuid))
}

// Note appends a record that is no part of the conversation.
func (m *Memory) Note(fields map[string]any) error {
	r := object{"sessionId": m.session, "timestamp": time.Now().UTC().Format(stamp)}
	maps.Copy(r, fields)
	return appendLine(m.path, r)
}

// remember opens the memory of a session. found is false if there is none. Older
// versions know every frame that is in the conversation.
func remember(state, session string, kind kind) (m *Memory, found bool, err error) {
	m = &Memory{path: transcriptPath(state, session), session: session, known: map[string]bool{}}
	data, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	} else if err != nil {
		return nil, false, err
	}
	for line := range bytes.Lines(data) {
		var r struct {
			Type string `json:"type"`
			UUID string `json:"uuid"`
		}
		if json.Unmarshal(line, &r) != nil || r.UUID == "" {
			continue // torn by a kill
		}
		m.last = r.UUID
		if r.Type == "user" && !kind.runsUnechoed {
			m.known[r.UUID] = true
		}
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

// store appends a record.
func (m *Memory) store(kind, uuid string, fields object) error {
	r := object{
		"parentUuid": m.last, "isSidechain": false, "type": kind, "uuid": uuid, "sessionId": m.session,
		"timestamp": time.Now().UTC().Format(stamp),
	}
	if m.last == "" {
		r["parentUuid"] = nil
	}
	maps.Copy(r, fields)
	m.last = uuid
	return appendLine(m.path, r)
}

const stamp = "2006-01-02T15:04:05.000Z"

type object = map[string]any
