// Package wake sends messages to sessions of Claude Code that have the waiting hook: a process of ours that Claude
// Code starts next to a session. When the process ends, the model is woken.
//
// It serves sessions whose socket for messages is switched off. It can serve others, too. A session that asks its
// person about each message on its socket does not ask about a hook's output.
//
//   - A hook with asyncRewake runs in the background of the session. If it ends with status 2, its standard error is
//     queued in the session at once, even if the session works, and the transcript records that. The model gets it at
//     the end of the call of the API or of the tool. An idle session begins a turn with it.
//   - A turn runs the hook again, at its beginning and at its end, so the next process waits soon.
//   - The hook belongs to the process of the session, not to the conversation: after /clear, the new conversation
//     gets its messages.
//   - A headless session would not end while the hook waits.
//
// [Wait] is that process, one for each session. It listens on a socket in the state directory and sleeps until it has
// a message, or the session ends. [Hand] sends it one. The process acknowledges the message right before it ends with
// it. If the connection closes without an acknowledgment, the session certainly has not got the message; after a
// timeout, it may have. With one, the transcript soon records it, unless one of the two was killed in between.
package wake

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"teambridge/relay/delivery"
	"teambridge/relay/process"
	"teambridge/teams/atomicfile"
	"teambridge/teams/flock"
	"teambridge/teams/socket"
	"teambridge/teams/transcript"
)

// Session is the record that a hook keeps of its session.
type Session struct {
	PID   int    `json:"pid"`             // of Claude Code
	Start string `json:"start,omitempty"` // when that pid started, as in [transcript.Process]; empty if unknown
	Root  string `json:"root"`            // the Claude directory

	Unasked bool `json:"unasked,omitempty"` // the person prefers the hook even if the session has a socket
}

// Of returns the record of a process's hook, and whether it has one.
func Of(state string, p transcript.Process) (s Session, ok bool) {
	data, err := os.ReadFile(place(state, p.PID).record())
	if err != nil || json.Unmarshal(data, &s) != nil {
		return Session{}, false
	}
	// If both were killed, the record of an earlier process with this pid may remain.
	return s, s.PID == p.PID && s.Root == filepath.Dir(filepath.Dir(p.Path)) && (s.Start == "" || p.ProcStart == "" || s.Start == p.ProcStart)
}

// Waits reports whether a hook waits next to a session. It is false while the session is being woken.
func Waits(state string, pid int) bool {
	held, err := flock.Held(place(state, pid).lock())
	return err == nil && held
}

// at is the path of a hook's files, without their extension.
type at string

func place(state string, pid int) at { return at(filepath.Join(state, "waiters", strconv.Itoa(pid))) }

func (a at) record() string { return string(a) + ".json" }
func (a at) lock() string   { return string(a) + ".lock" }
func (a at) socket() string { return string(a) + ".sock" }

// envelope is a message to the hook, on one line. receipt is the hook's answer.
type envelope struct {
	Text string `json:"text"`
}

const receipt = "taken\n"

// within limits the time of an exchange on the socket.
const within = 5 * time.Second

// Wait waits next to a session for a message and returns its text, which the caller must write to Claude Code at
// once. It returns "" if another process waits there already, or when ended returns, which must be when the session
// or ctx has ended. In the latter case it removes its files from the state directory.
func Wait(ctx context.Context, state string, s Session, ended func(context.Context)) (text string, err error) {
	here := place(state, s.PID)
	if err := os.MkdirAll(filepath.Dir(string(here)), 0o700); err != nil {
		return "", err
	}
	sweep(state)
	s.Start = process.Ticks(s.PID)
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	// Even if another process waits: the person's choice may have changed.
	if was, err := os.ReadFile(here.record()); err != nil || string(was) != string(data) {
		if err := atomicfile.Write(here.record(), data); err != nil {
			return "", err
		}
	}
	unlock, ok, err := flock.TryLock(here.lock())
	if err != nil || !ok {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := os.Remove(here.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a killed process
		return "", err
	}
	l, err := socket.Listen(here.socket())
	if err != nil {
		return "", fmt.Errorf("wait for messages: %w", err)
	}
	defer l.Close() // removes the socket, too
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		ended(waiting)
		_ = l.Close()
	}()
	debug.SetGCPercent(-1) // no collection every two minutes
	process.GiveBack()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			<-over
			return "", errors.Join(remove(here.record()), remove(here.lock()))
		}
		if err != nil {
			return "", err
		}
		if text, ok := take(c); ok {
			return text, nil
		}
	}
}

// Taken waits until the reader of a pipe or a socket has read everything, for at most a second. A reader that stopped
// at the end of the hook would give the model an empty message.
func Taken(f *os.File) {
	for end := time.Now().Add(time.Second); unread(f) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// take reads a message, and acknowledges it. It rejects an incomplete message.
func take(c net.Conn) (text string, ok bool) {
	defer c.Close()
	const most = 1 << 20
	if c.SetDeadline(time.Now().Add(within)) != nil {
		return "", false
	}
	line, err := bufio.NewReader(io.LimitReader(c, most)).ReadBytes('\n')
	var e envelope
	if err != nil || json.Unmarshal(line, &e) != nil || e.Text == "" {
		return "", false
	}
	_, err = io.WriteString(c, receipt)
	return e.Text, err == nil
}

func unsent(err error) error { return &delivery.UnsentError{Err: err} }

// Hand sends a text to the hook that waits next to a session. After an error other than a [*delivery.UnsentError],
// the hook may have got it.
func Hand(ctx context.Context, state string, pid int, text string) error {
	line, err := json.Marshal(envelope{text})
	if err != nil {
		return unsent(err)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", place(state, pid).socket())
	if err != nil {
		return unsent(fmt.Errorf("no hook waits at the session with pid %d: %w", pid, err))
	}
	defer c.Close()
	until := time.Now().Add(within)
	if end, ok := ctx.Deadline(); ok && end.Before(until) {
		until = end
	}
	if err := c.SetDeadline(until); err != nil {
		return unsent(err)
	}
	if _, err := c.Write(append(line, '\n')); err != nil {
		return unsent(err) // the hook rejects an incomplete message
	}
	answer, err := io.ReadAll(io.LimitReader(c, int64(len(receipt))))
	switch {
	case string(answer) == receipt:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("the hook does not say whether it has the message: %w", err)
	}
	return unsent(cmp.Or(err, errors.New("the hook ended before it had the message")))
}

// sweep removes the files of hooks that were killed together with their sessions. It ignores errors: such files are
// harmless.
func sweep(state string) {
	files, _ := os.ReadDir(filepath.Join(state, "waiters"))
	for _, f := range files {
		name, _, _ := strings.Cut(f.Name(), ".")
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		here := place(state, pid)
		var s Session
		if data, err := os.ReadFile(here.record()); err != nil || json.Unmarshal(data, &s) != nil || s.PID != pid {
			s = Session{PID: pid}
		}
		if !gone(s) {
			continue
		}
		if unlock, ok, err := flock.TryLock(here.lock()); err == nil && ok {
			_, _, _ = remove(here.socket()), remove(here.record()), remove(here.lock())
			_ = unlock()
		}
	}
}
