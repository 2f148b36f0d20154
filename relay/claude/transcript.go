package claude

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/claude/session"
	"teambridge/relay/wire"
	"teambridge/teams/transcript"
)

// Transcript is the file in which Claude Code keeps a conversation, with one JSON record per line. It can be read
// while Claude Code writes it.
//
// Claude Code writes a record about 0.1 s after its event: a call of the model, the answer, the end of a
// tool. A process that is killed in this gap loses the record, and its successor repeats that step.
type Transcript struct {
	Root    string // of Claude Code: $CLAUDE_CONFIG_DIR, or ~/.claude
	Dir     string // the working directory of the process
	Session string // the id of the conversation
}

// Path returns the path of the transcript, or an error that wraps [fs.ErrNotExist]. It may be under the name
// of another directory, since a process can change its own.
func (t Transcript) Path() (string, error) {
	path, err := transcript.Find(t.Root, t.Dir, t.Session)
	if err != nil {
		return "", fmt.Errorf("claude: %w", err)
	}
	return path, nil
}

// Exists reports whether there is a transcript. A process writes it with its first turn.
func (t Transcript) Exists() (bool, error) {
	_, err := t.Path()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Resumable reports whether a process can resume the session. A session without a transcript can only be
// begun. If its process was killed while it wrote the first message, the transcript has no message, and Claude
// Code can neither begin nor resume the session: the error is [agent.ErrUnusable].
func (t Transcript) Resumable() (bool, error) {
	path, err := t.Path()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	tail := transcript.Tail{Path: path}
	for line, err := range tail.Lines() {
		if err != nil {
			return false, fmt.Errorf("claude: transcript: %w", err)
		}
		if r, _ := transcript.Parse(line); r.Type == "user" || r.Type == "assistant" {
			return true, nil
		}
	}
	return false, fmt.Errorf("claude: transcript %s: %w", path, agent.ErrUnusable)
}

// Turn returns a frame's turn as far as the transcript has it; zero without a transcript. It reads the file
// from its beginning, at about 1 GB/s.
//
// The turn consists of the descendants of the frame's record by parentUuid, even across a compaction, up to
// the next prompt, without records of subagents.
func (t Transcript) Turn(ctx context.Context, uuid string) (agent.Turn, error) {
	path, err := t.Path()
	if errors.Is(err, fs.ErrNotExist) || err == nil && uuid == "" {
		return agent.Turn{}, nil
	} else if err != nil {
		return agent.Turn{}, err
	}
	turn, tail := turnReading{members: map[string]bool{}}, transcript.Tail{Path: path}
	for line, err := range tail.Lines() {
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return agent.Turn{}, fmt.Errorf("claude: transcript: %w", err)
		}
		// Most of a long conversation precedes the frame and need not be parsed.
		if !turn.Stored && !bytes.Contains(line, []byte(uuid)) {
			continue
		}
		if r, ok := transcript.Parse(line); ok {
			turn.take(&r, uuid)
		}
		if turn.Finished {
			turn.Text = turn.said.Text
			break
		}
	}
	if turn.Failed {
		turn.Failure = turn.said.Text
	}
	return turn.Turn, nil
}

// Envelopes yields the envelopes of the transcript since a time, beginning with the turn that was open one
// minute before. Their ids are the same as in [agent.Event.Envelopes]: see package session. gone means that the
// process has exited, so that its open turn has failed. Without a transcript, Envelopes yields nothing.
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

// turnReading is the state of a turn while its transcript is read.
type turnReading struct {
	agent.Turn
	members map[string]bool // uuids of its records
	said    transcript.Said
}

// take adds a record to the turn if it belongs there.
func (t *turnReading) take(r *transcript.Record, uuid string) {
	if r.UUID == "" || r.Sidechain {
		return
	}
	if r.UUID == uuid {
		t.Stored = true
		t.members[uuid] = true
		return
	}
	if !t.members[r.Parent] && !t.members[r.LogicalParent] {
		return
	}
	switch step := r.Step(); step {
	case transcript.Begins:
		return
	case transcript.Interrupts:
		t.Interrupted = true
		return
	case transcript.Speaks, transcript.Stops, transcript.Fails:
		t.Stop = r.Message.Stop
		t.Failed = step == transcript.Fails
		t.Finished = step == transcript.Stops && t.Stop == "end_turn" // after another reason, Claude Code can go on by itself
		t.said.Add(r)
	}
	t.members[r.UUID] = true
}
