// Package dialog lets a person answer a question of a Claude Code session from elsewhere than its terminal.
//
// A hook of the session waits with [Ask] while the dialog is open. The dialog can also be answered at the terminal:
// the first answer counts. Other programs list the open questions with [Open], and answer one with [Answer].
//
// Each question is a file below the state directory. It is open for as long as the hook holds the lock next to it, so
// a hook that is killed leaves no open question. An answer is a file, too, which can be written only once. A hook
// that ends records the outcome of its question, for an hour.
package dialog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/fleet"
	"teambridge/teams/atomicfile"
	"teambridge/teams/flock"
)

// A Question is a question of a session.
type Question struct {
	fleet.Question
	Asked []string `json:"asked,omitempty"` // of [agent.AsksPerson]: each needs an answer

	PID          int    `json:"pid"`             // the process of the session
	Start        string `json:"start,omitempty"` // when that process started, as in transcript.Process
	Claude       string `json:"claude"`          // the Claude directory of the session
	Conversation string `json:"conversation"`    // the id of the session
}

// NewQuestion returns a session's question about a tool use.
func NewQuestion(use agent.Use) Question {
	return Question{Question: fleet.NewQuestion(use), Asked: use.Asked}
}

// The outcomes of a question.
const (
	allowed   = "it was allowed"
	denied    = "it was denied"
	elsewhere = "it was answered at the terminal, or withdrawn"
)

const (
	step     = 50 * time.Millisecond // the interval at which a hook and [Answer] check files
	keptFor  = time.Hour             // how long an outcome is kept
	within   = 5 * time.Second       // the time for a hook to take an answer
	dirName  = "dialogs"
	asked    = ".json"
	locked   = ".lock"
	answered = ".answer"
	outcome  = ".outcome"
	turnedOn = "on"
)

// place returns the path of a question's files, without their extension.
func place(state, id string) string { return filepath.Join(state, dirName, id) }

// Ask waits for a person's answer to a question, and calls give with it. Without an answer it returns when ctx ends,
// when over, which it calls repeatedly, returns true, or when the same process asks another question.
func Ask(ctx context.Context, state string, q Question, over func() bool, give func(agent.Decision) error) error {
	at := place(state, q.ID)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	if err := sweep(state); err != nil {
		return err
	}
	unlock, free, err := flock.TryLock(at + locked)
	if err != nil || !free {
		return errors.Join(err, errors.New("dialog: the question is asked already"))
	}
	data, err := json.Marshal(q)
	if err == nil {
		err = atomicfile.Write(at+asked, data)
	}
	became := elsewhere
	if err == nil {
		became, err = wait(ctx, state, q, over, give)
	}
	err = errors.Join(err, atomicfile.Write(at+outcome, []byte(became)), gone(at+asked), unlock())
	return errors.Join(err, gone(at+answered), gone(at+locked))
}

// gone removes a file, if it exists.
func gone(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func wait(ctx context.Context, state string, q Question, over func() bool, give func(agent.Decision) error) (string, error) {
	tick := time.NewTicker(step)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		if n%5 == 0 && (over() || replaced(state, q)) {
			break
		}
		data, err := os.ReadFile(place(state, q.ID) + answered)
		if err == nil {
			var d agent.Decision
			if err := json.Unmarshal(data, &d); err != nil {
				return elsewhere, fmt.Errorf("dialog: the answer cannot be read: %w", err)
			}
			if over() {
				break
			}
			switch err := give(d); {
			case err != nil:
				return elsewhere, err
			case d.Allow:
				return allowed, nil
			}
			return denied, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return elsewhere, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return elsewhere, nil
}

// replaced reports whether the process has asked a later question. It shows one dialog after the other.
func replaced(state string, q Question) bool {
	list, err := Open(state)
	return err == nil && slices.ContainsFunc(list, func(o Question) bool {
		return o.PID == q.PID && o.Start == q.Start && (o.At.After(q.At) || o.At.Equal(q.At) && o.ID > q.ID)
	})
}

// Open returns the open questions, the oldest first.
func Open(state string) (list []Question, err error) {
	files, err := os.ReadDir(filepath.Join(state, dirName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), asked)
		if !ok {
			continue
		}
		if held, herr := flock.Held(place(state, id) + locked); herr != nil || !held {
			err = errors.Join(err, herr)
			continue
		}
		data, rerr := os.ReadFile(place(state, id) + asked)
		if errors.Is(rerr, fs.ErrNotExist) {
			continue // the question has just ended
		}
		var q Question
		if rerr == nil {
			rerr = json.Unmarshal(data, &q)
		}
		if rerr != nil || q.ID != id {
			err = errors.Join(err, rerr)
			continue
		}
		list = append(list, q)
	}
	slices.SortFunc(list, func(a, b Question) int { return a.At.Compare(b.At) })
	return list, err
}

// Of returns the open question of a process with that start. A question that cannot be read is left to the terminal.
func Of(state string, pid int, start string) (q Question, ok bool) {
	list, _ := Open(state)
	i := slices.IndexFunc(list, func(q Question) bool { return q.PID == pid && q.Start == start })
	if i < 0 {
		return q, false
	}
	return list[i], true
}

// Answer answers a question, and returns once the hook has given the answer to its session. After
// [fleet.ErrNoQuestion], [fleet.ErrAnswered], [fleet.ErrOtherInput] and [fleet.ErrAnswer], the question is unchanged.
// After another error, the answer may have counted.
func Answer(ctx context.Context, state string, a fleet.Answer) error {
	fail := func(err error) error { return fmt.Errorf("question %s: %w", a.Question, err) }
	list, err := Open(state)
	i := slices.IndexFunc(list, func(q Question) bool { return q.ID == a.Question })
	if i < 0 {
		if err != nil {
			return err
		}
		if was, known := Became(state, a.Question); known {
			return fail(fmt.Errorf("%w: %s", fleet.ErrAnswered, was))
		}
		return fail(fleet.ErrNoQuestion)
	}
	q := list[i]
	if q.Digest != a.Digest {
		return fail(fmt.Errorf("%w: its digest is not that of the question", fleet.ErrOtherInput))
	}
	d := agent.Decision{Allow: a.Allow, Reason: a.Reason, Session: a.Session, Answers: a.Answers}
	use := agent.Use{Kind: q.Kind, Tool: q.Tool, Asked: q.Asked, Session: q.Question.Session}
	if err := use.Check(d); err != nil {
		return fail(fmt.Errorf("%w: %w", fleet.ErrAnswer, err))
	}
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	at := place(state, q.ID)
	if err := once(at+answered, data); errors.Is(err, fs.ErrExist) {
		return fail(fmt.Errorf("%w: somebody has just answered it", fleet.ErrAnswered))
	} else if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		was, known := Became(state, q.ID)
		switch held, err := flock.Held(at + locked); {
		case known && was == elsewhere:
			return fail(fmt.Errorf("%w: %s", fleet.ErrAnswered, was))
		case known:
			return nil
		case err != nil:
			return err
		case !held:
			if _, known := Became(state, q.ID); known {
				continue // it has just ended
			}
			return fail(errors.New("its hook was killed: see at the terminal whether it still asks"))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fail(fmt.Errorf("its hook has not taken the answer: %w", context.Cause(ctx)))
		}
	}
}

// once creates a file with all its content at once. If the file exists, it fails with [fs.ErrExist].
func once(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "answer-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(f.Name(), path)
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// Became returns the outcome of an ended question, by its id or at least 4 characters of it. known is false if no
// outcome is recorded any more.
func Became(state, id string) (what string, known bool) {
	const enough = 4
	if filepath.Base(id) != id || id == "." { // not the name of a file in the directory
		return "", false
	}
	data, err := os.ReadFile(place(state, id) + outcome)
	if err != nil && len(id) >= enough {
		files, _ := os.ReadDir(filepath.Join(state, dirName)) // an unreadable directory has no outcomes
		for _, f := range files {
			if strings.HasPrefix(f.Name(), id) && strings.HasSuffix(f.Name(), outcome) {
				data, err = os.ReadFile(filepath.Join(state, dirName, f.Name()))
			}
		}
	}
	return string(data), err == nil
}

// sweep removes the remains of killed hooks, and old outcomes.
func sweep(state string) error {
	dir := filepath.Join(state, dirName)
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || time.Since(info.ModTime()) < keptFor {
			continue
		}
		if f.Name() == turnedOn {
			continue
		}
		if id, _, _ := strings.Cut(f.Name(), "."); !strings.HasSuffix(f.Name(), outcome) {
			if held, err := flock.Held(place(state, id) + locked); held || err != nil {
				continue
			}
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Turn turns the questions of sessions on or off. They are off by default: a person must agree that dialogs can be
// answered from elsewhere.
func Turn(state string, on bool) error {
	path := filepath.Join(state, dirName, turnedOn)
	if !on {
		return gone(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, nil)
}

// IsOn reports whether questions are turned on.
func IsOn(state string) bool {
	_, err := os.Stat(filepath.Join(state, dirName, turnedOn))
	return err == nil
}
