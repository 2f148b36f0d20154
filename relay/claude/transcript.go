package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/claude/session"
	"teambridge/relay/wire"
	"teambridge/teams/transcript"
)

// Transcript is the file in which Claude Code keeps a conversation, one JSON record a line. It can be read while Claude
// Code writes it.
//
// Claude Code writes a record about 0.1 s after what it tells: that the model was called with a frame, that it
// answered, that a tool was done. A process that is killed in this gap loses the record, and its successor repeats that
// step.
type Transcript struct {
	Root    string // of Claude Code: $CLAUDE_CONFIG_DIR, or ~/.claude
	Dir     string // the working directory of the process
	Session string // the id of the conversation
}

// recordLimit bounds a line of a transcript. Records with pictures have some MB; longer ones are passed over.
const recordLimit = 64 << 20

// Path is where the transcript is, or an error that wraps [fs.ErrNotExist]. It may be under another directory's name,
// since a process can change its own.
func (t Transcript) Path() (string, error) {
	if t.Session == "" || t.Session != filepath.Base(t.Session) || strings.HasPrefix(t.Session, ".") {
		return "", fmt.Errorf("claude: transcript: %w: session %.60q is no id", ErrInvalid, t.Session)
	}
	projects, file := filepath.Join(t.Root, "projects"), t.Session+".jsonl"
	dir, err := filepath.Abs(t.Dir)
	if err != nil {
		return "", fmt.Errorf("claude: transcript: %w", err)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	path := filepath.Join(projects, transcript.Slug(dir), file)
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return path, wrap(err)
	}
	all, err := os.ReadDir(projects)
	if err != nil {
		return "", wrap(err)
	}
	for _, entry := range all {
		path := filepath.Join(projects, entry.Name(), file)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", wrap(&fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist})
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("claude: transcript: %w", err)
}

// Exists reports whether there is a transcript, which a process writes with its first turn.
func (t Transcript) Exists() (bool, error) {
	_, err := t.Path()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Resumable reports whether a process can resume the session. A session without a
// transcript can be begun. If the transcript has no message, because its process was
// killed while it wrote the first one, Claude Code can do neither, on 2.1.80 to 2.1.329 at
// least: the error is [agent.ErrUnusable].
func (t Transcript) Resumable() (bool, error) {
	path, err := t.Path()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	file, err := os.Open(path)
	if err != nil {
		return false, wrap(err)
	}
	defer file.Close()
	all := newLines(file, recordLimit)
	for {
		line, _, err := all.next()
		if rec, _ := recordOf(line); rec.Type == "user" || rec.Type == "assistant" {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, fmt.Errorf("claude: transcript %s: %w", path, agent.ErrUnusable)
		} else if err != nil {
			return false, wrap(err)
		}
	}
}

// Turn tells what became of a frame; without a transcript the result is zero. It reads the file from its beginning, about
// a second per GB.
//
// The turn is what descends from the frame's record by parentUuid, also over a compaction, up to the next thing that was
// said to the agent, without records of subagents.
func (t Transcript) Turn(ctx context.Context, uuid string) (agent.Turn, error) {
	path, err := t.Path()
	if errors.Is(err, fs.ErrNotExist) {
		return agent.Turn{}, nil
	} else if err != nil {
		return agent.Turn{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return agent.Turn{}, wrap(err)
	}
	defer file.Close()
	turn, err := readTurn(ctx, file, uuid)
	if err != nil {
		return agent.Turn{}, fmt.Errorf("claude: transcript %s: %w", path, err)
	}
	return turn, nil
}

// record is the part of a line that tells whose it is.
type record struct {
	Type          string `json:"type"`
	UUID          string `json:"uuid"`
	Parent        string `json:"parentUuid"`
	LogicalParent string `json:"logicalParentUuid"` // across a compaction
	IsSidechain   bool   `json:"isSidechain"`
	IsMeta        bool   `json:"isMeta"`
	IsSummary     bool   `json:"isCompactSummary"`
	IsAPIError    bool   `json:"isApiErrorMessage"`
	Message       struct {
		ID      string          `json:"id"`
		Stop    string          `json:"stop_reason"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

func readTurn(ctx context.Context, r io.Reader, uuid string) (agent.Turn, error) {
	var turn agent.Turn
	if uuid == "" {
		return turn, nil
	}
	reading := turnReading{members: map[string]bool{}}
	id := []byte(uuid)
	all := newLines(r, recordLimit)
	for n := 0; ; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return agent.Turn{}, context.Cause(ctx)
		}
		line, size, err := all.next()
		// Most of a long conversation precedes the frame and need not be parsed.
		if size == int64(len(line)) && (turn.Stored || bytes.Contains(line, id)) {
			if rec, ok := recordOf(line); ok {
				reading.take(&turn, rec, uuid)
			}
		}
		if errors.Is(err, io.EOF) || turn.Finished {
			if turn.Finished {
				turn.Text = reading.text
			}
			return turn, nil
		} else if err != nil {
			return agent.Turn{}, err
		}
	}
}

// Envelopes tells what the transcript says since a time, and before that from the beginning of the turn that was open a
// minute earlier, with the ids that [agent.Event.Envelopes] had: see package session. If the process is gone, what is open
// has failed. Without a transcript there is nothing.
func (t Transcript) Envelopes(ctx context.Context, since time.Time, gone bool) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		path, err := t.Path()
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				yield(wire.Envelope{}, err)
			}
			return
		}
		for e, err := range session.Read(ctx, path, session.Options{Since: since, Gone: gone}) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// recordOf returns the record of a line; of a torn one behind which a successor has written, the last.
func recordOf(line []byte) (rec record, ok bool) {
	if json.Unmarshal(line, &rec) == nil {
		return rec, true
	}
	for _, start := range []string{`{"parentUuid":`, `{"type":`} {
		if i := bytes.LastIndex(line, []byte(start)); i > 0 {
			rec = record{}
			if json.Unmarshal(line[i:], &rec) == nil {
				return rec, true
			}
		}
	}
	return record{}, false
}

// turnReading is what is known of a turn while it is read.
type turnReading struct {
	members map[string]bool // uuids of its records
	message string          // id of the last message, each block of which can be a record of its own
	text    string          // what that says
}

// take adds a record to the turn, if it belongs to it.
func (r *turnReading) take(t *agent.Turn, rec record, uuid string) {
	if rec.UUID == "" || rec.IsSidechain {
		return
	}
	if rec.UUID == uuid {
		t.Stored = true
		r.members[uuid] = true
		return
	}
	if !r.members[rec.Parent] && !r.members[rec.LogicalParent] {
		return
	}
	switch rec.Type {
	case "user":
		said := blocks(rec.Message.Content)
		switch {
		case strings.HasPrefix(joined(said, "\n"), "[Request interrupted by user"):
			t.Interrupted = true
			return
		case !rec.IsMeta && !rec.IsSummary && !slices.ContainsFunc(said, func(b block) bool { return b.Type == "tool_result" }):
			return // the next thing that was said, and its own turn
		}
	case "assistant":
		t.Stop = rec.Message.Stop
		t.Failed = rec.IsAPIError
		t.Finished = t.Stop == "end_turn" && !t.Failed
		if rec.Message.ID == "" || rec.Message.ID != r.message {
			r.message, r.text = rec.Message.ID, ""
		}
		r.text += joined(blocks(rec.Message.Content), "")
	}
	r.members[rec.UUID] = true
}
