// Package wake hands messages to sessions of Claude Code that have the waiting hook: a process of ours that Claude
// Code starts at the side of a session, and whose end wakes the model.
//
// It serves sessions whose socket for messages is switched off. It can serve others, too: those that ask their person about each
// message on their socket do not ask about what a hook says.
//
//   - A hook with asyncRewake runs in the background of the session. If it ends with status 2, what it wrote to standard error
//     is queued in the session at once, as the transcript shows, even if the session works, and the model is given it
//     at the end of the call of the API or of the tool. An idle session begins a turn with it.
//   - A turn runs the hook again, at its beginning and at its end. So the next process waits soon.
//   - It belongs to the process of the session, not to the conversation: after /clear, what it hands over
//     comes to the new one.
//   - A headless session would never end while it waits.
//
// [Wait] is that process: one for each session, which listens on a socket in the state directory and sleeps until it has
// a message, or the session ends. [Hand] gives it one. It says that it has the message right before it
// ends with it. If it does not say so, the session certainly has nothing: see [Hand]. If it does, the transcript
// shows within a moment that the session has the message, unless one of the two was killed in between.
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

// Session is a session as its hook knows it.
type Session struct {
	PID   int    `json:"pid"`             // of Claude Code
	Start string `json:"start,omitempty"` // when that pid started, as in [transcript.Process]; empty if the system does not tell
	Root  string `json:"root"`            // the Claude directory

	Unasked bool `json:"unasked,omitempty"` // its person wants it to be the way, even if the session has a socket
}

// Of returns what the hook of a process has said of it, and whether it has one.
func Of(state string, p transcript.Process) (s Session, ok bool) {
	data, err := os.ReadFile(place(state, p.PID).record())
	if err != nil || json.Unmarshal(data, &s) != nil {
		return Session{}, false
	}
	// The process that had the pid before leaves its record behind if both were killed.
	return s, s.PID == p.PID && s.Root == filepath.Dir(filepath.Dir(p.Path)) && (s.Start == "" || p.ProcStart == "" || s.Start == p.ProcStart)
}

// Waits reports whether a hook waits at the side of a session: not while the session is being woken up.
func Waits(state string, pid int) bool {
	held, err := flock.Held(place(state, pid).lock())
	return err == nil && held
}

// at is where a hook waits.
type at string

func place(state string, pid int) at { return at(filepath.Join(state, "waiters", strconv.Itoa(pid))) }

func (a at) record() string { return string(a) + ".json" }
func (a at) lock() string   { return string(a) + ".lock" }
func (a at) socket() string { return string(a) + ".sock" }

// envelope is a line to the hook, and receipt is its answer.
type envelope struct {
	Text string `json:"text"`
}

const receipt = "taken\n"

// within limits what is said on the socket.
const within = 5 * time.Second

// Wait waits at the side of a session until there is a message, and returns its text, which must be handed to Claude
// Code at once. It returns "" if another process waits there already, or when ctx ends or ended returns, which it does
// when the session has ended, or ctx has. Then nothing is left of what was written in the state directory.
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
	// Even if another one waits: what the person wants may have changed.
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
	if err := os.Remove(here.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		return "", err
	}
	l, err := socket.Listen(here.socket())
	if err != nil {
		return "", fmt.Errorf("wait for messages: %w", err)
	}
	defer l.Close() // which removes the socket
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		ended(waiting)
		_ = l.Close()
	}()
	debug.SetGCPercent(-1) // there is no collection every two minutes any more
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

// Taken waits until the reader of a pipe or a socket has taken what was written, for a second at most. A reader that stops when
// the hook has ended would show the model an empty message.
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

// take reads a message, and says that it is taken. What is not whole is not.
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

// Hand hands a text to the hook that waits at the side of a session. After an error other than a [*delivery.UnsentError], it
// may have come there.
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
		return unsent(err) // what is not whole is not taken
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

// sweep removes what was left behind by hooks that were killed together with their sessions. What it cannot remove is in
// nobody's way.
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
