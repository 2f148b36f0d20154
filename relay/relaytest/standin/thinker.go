package standin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"teambridge/relay/relaytest/model"
)

// Thinker is a model that takes its time, as real ones do: the shortest thought
// lasts longer than the 0.1 s that an agent takes to record a prompt.
type Thinker struct {
	// held for reading while an answer is given, for writing while none may be.
	gate sync.RWMutex
}

const thought = 400 * time.Millisecond

// Respond answers as Script does.
func (m *Thinker) Respond(ctx context.Context, r Request) Answer {
	a := model.Script(ctx, r)
	if r.Side {
		return a
	}
	_ = model.Sleep(ctx, max(a.Delay, thought))
	a.Delay = 0
	m.gate.RLock()
	defer m.gate.RUnlock()
	return a
}

// Quiet runs f when the agents of the home have recorded their prompts: there was no call and no answer for 300 ms,
// and the last answer is in a transcript. Claude Code records both about 0.1 s late, and later on a busy machine:
// killed before, it has lost them, and calls the model again for the same turn, without another record.
func (m *Thinker) Quiet(t testing.TB, home *Home, f func()) {
	t.Helper()
	m.gate.Lock()
	defer m.gate.Unlock()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); { // a killed agent records nothing
		var last time.Time
		answer := 0
		for _, r := range home.API.Log() {
			if r.Time.After(last) {
				last = r.Time
			}
			if r.Answered.After(last) {
				last = r.Answered
			}
			if !r.Side && !r.Answered.IsZero() {
				answer = r.Seq
			}
		}
		if rest := 300*time.Millisecond - time.Since(last); rest > 0 {
			<-time.After(rest)
			continue
		}
		written, err := home.wrote(answer)
		if err != nil {
			t.Fatal(err)
		}
		if written || answer == 0 {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	f()
}

// wrote reports whether a transcript has the answer to a call. In a home for Qwen Code it says yes: that program's
// transcripts do not name calls.
func (h *Home) wrote(answer int) (bool, error) {
	if _, err := os.Stat(filepath.Join(h.Dir, ".qwen")); err == nil {
		return true, nil
	}
	id := fmt.Appendf(nil, `"id":"msg_%d"`, answer)
	for _, pattern := range []string{"*/*.jsonl", "*/*/subagents/*.jsonl"} {
		files, err := filepath.Glob(filepath.Join(h.Root, "projects", pattern))
		if err != nil {
			return false, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, err
			}
			if bytes.Contains(text, id) {
				return true, nil
			}
		}
	}
	return false, nil
}
