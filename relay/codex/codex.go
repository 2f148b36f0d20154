// Package codex finds sessions of the Codex CLI, called threads, sends messages to them, and reads their outcomes.
//
// A process that has a thread holds a lock on a file. Terminals of 0.169 share one server, which has their threads
// and takes messages on a socket: as the output of a tool, which has no authority of the user. Other programs have
// their own threads, and take no messages: "codex exec", terminals with --no-daemon or -c, and terminals of 0.149.
//
// Each thread also has a durable queue. The model takes its texts for the words of the user: see [Enqueue].
//
// The socket has no token: anyone who can open it can do everything that Codex can. This package only sends messages.
package codex

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"teambridge/teams/sharedfile"
	"teambridge/teams/transcript"
)

// Thread is a session of Codex that a living process holds.
type Thread struct {
	ID      string
	Cwd     string
	Version string // of Codex
	Rollout string // the path of its transcript
	Begun   time.Time

	PID    int  // the process that holds it
	Shared bool // the holder is the shared server, which takes messages
	Exec   bool // the thread of "codex exec", or of another program without a person

	Busy    bool
	Changed time.Time // when Busy changed
}

// Home returns the directory of Codex, according to a user's environment; "" if it is unknown.
func Home(lookup func(string) (string, bool)) string {
	if dir, _ := lookup("CODEX_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if dir, _ := lookup("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".codex")
	}
	return ""
}

// Threads returns the threads of living processes, the oldest first, except those of subagents and those without a
// prompt, which have no transcript. It returns none except on Linux: other systems do not tell who holds a lock.
func Threads(home string) (list []Thread) {
	held := holders(filepath.Join(home, "thread-writer-locks"))
	if len(held) == 0 {
		return nil
	}
	server := serverPID(home)
	for id, pid := range held {
		if t, ok := thread(home, id); ok {
			t.PID, t.Shared = pid, pid == server
			if began := startOf(pid); t.Busy && t.Changed.Before(began) {
				t.Busy, t.Changed = false, began // the turn was running when an earlier process was killed
			}
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b Thread) int { return cmp.Or(a.Begun.Compare(b.Begun), strings.Compare(a.ID, b.ID)) })
	return list
}

// known caches a transcript's facts until it changes, since a service asks several times a second.
type known struct {
	info   os.FileInfo
	thread Thread
}

var (
	knownMu sync.Mutex
	knownBy = map[string]known{} // by the directory of Codex and the id
)

// thread returns a thread, according to its transcript.
func thread(home, id string) (Thread, bool) {
	key := home + "\x00" + id
	knownMu.Lock()
	old, ok := knownBy[key]
	knownMu.Unlock()
	if ok {
		if info, err := os.Stat(old.thread.Rollout); err == nil && info.Size() == old.info.Size() && info.ModTime().Equal(old.info.ModTime()) {
			return old.thread, true
		}
	}
	path, ok := Rollout(home, id)
	if !ok {
		return Thread{}, false
	}
	file, err := sharedfile.Open(path)
	if err != nil {
		return Thread{}, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Thread{}, false
	}
	t, ok := read(file, info.Size(), id)
	if t.Rollout = path; ok {
		knownMu.Lock()
		knownBy[key] = known{info, t}
		knownMu.Unlock()
	}
	return t, ok
}

// read reads a transcript.
func read(file *os.File, size int64, id string) (t Thread, ok bool) {
	first, err := bufio.NewReaderSize(io.LimitReader(file, maxFirst), 64<<10).ReadBytes('\n')
	var meta struct {
		Type    string
		Payload struct {
			ID, Cwd string
			Version string `json:"cli_version"`
			Source  json.RawMessage
			Time    time.Time `json:"timestamp"`
		}
	}
	if err != nil || json.Unmarshal(first, &meta) != nil || meta.Type != "session_meta" || meta.Payload.ID != id {
		return t, false
	}
	var source string
	if json.Unmarshal(meta.Payload.Source, &source) != nil {
		return t, false // an object: the thread of a subagent
	}
	t = Thread{ID: id, Cwd: meta.Payload.Cwd, Version: meta.Payload.Version, Begun: transcript.ValidTime(meta.Payload.Time), Exec: source == "exec"}
	t.Busy, t.Changed = works(file, size)
	return t, true
}

// maxFirst limits the length of a transcript's first line, which has the model's instructions.
const maxFirst = 4 << 20

// works reports whether a turn runs, and since when, by the last line that marks the beginning or the end of one.
func works(file *os.File, size int64) (busy bool, since time.Time) {
	for _, line := range transcript.Backward(file, size) {
		if e, ok := Parse(line); ok && (e.Kind == Begun || e.Kind == Ended || e.Kind == Aborted) {
			return e.Kind == Begun, e.At
		}
	}
	return false, time.Time{}
}

// Rollout returns the path of a thread's transcript. A thread has one from its first prompt on.
func Rollout(home, id string) (path string, ok bool) {
	at, ok := begun(id)
	if !ok {
		return "", false
	}
	for _, day := range []time.Time{at, at.AddDate(0, 0, -1), at.AddDate(0, 0, 1)} { // the local date may differ
		found, _ := filepath.Glob(filepath.Join(escaped(home), "sessions", day.Format("2006"), day.Format("01"), day.Format("02"), "rollout-*-"+id+".jsonl"))
		if len(found) > 0 {
			return found[len(found)-1], true
		}
	}
	return "", false
}

// IsRollout reports whether a path is a transcript of Codex.
func IsRollout(path string) bool { return strings.HasPrefix(filepath.Base(path), "rollout-") }

// escaped escapes a path for [filepath.Glob].
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// begun returns when a thread began. Its id, a UUID of version 7, has the time.
func begun(id string) (time.Time, bool) {
	if len(id) != 36 || strings.Trim(id, "0123456789abcdef-") != "" || id[14] != '7' {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(id[:8]+id[9:13], 16, 64)
	return time.UnixMilli(ms).UTC(), err == nil
}

// Kind is the kind of a line of a transcript.
type Kind int

// The kinds of lines that matter here.
const (
	Begun   Kind = iota + 1 // a turn begins
	Ended                   // a turn ended
	Aborted                 // a turn was interrupted
	Mail                    // a text that [Send] or [Enqueue] wrote to the thread
	Worked                  // the model answered, or called a tool
)

// Event is a line of a transcript.
type Event struct {
	Kind Kind
	Turn string // may be empty with Mail
	At   time.Time
	Text string // with Mail, the written text; with Ended, the agent's last text
}

// Parse reads a line of a transcript. ok is false if the line does not matter here. Tested with 0.169.0.
//
// A message has two lines; the first puts it into the conversation. A killed server may leave the first one alone.
func Parse(line []byte) (e Event, ok bool) {
	if !bytes.Contains(line, []byte(`"event_msg"`)) && !bytes.Contains(line, []byte(`"token_usage_record"`)) &&
		!bytes.Contains(line, []byte(`"`+namespace+`"`)) && !bytes.Contains(line, []byte(queuedMark)) {
		return e, false
	}
	var r struct {
		Timestamp time.Time
		Type      string
		Payload   struct {
			Type   string
			TurnID string `json:"turn_id"`
			Last   string `json:"last_agent_message"`
			output        // of response_item
			input
			Item struct {
				Type string
				output
				input
			}
		}
	}
	if json.Unmarshal(line, &r) != nil {
		return e, false
	}
	e = Event{Turn: r.Payload.TurnID, At: transcript.ValidTime(r.Timestamp)}
	switch {
	case r.Type == "token_usage_record":
		e.Kind = Worked
	case r.Type == "response_item":
		e.mail(r.Payload.output, r.Payload.Type == "function_call_output")
		e.queued(r.Payload.input, r.Payload.Type == "message" && r.Payload.Role == "user")
	case r.Type != "event_msg":
	case r.Payload.Type == "task_started":
		e.Kind = Begun
	case r.Payload.Type == "task_complete":
		e.Kind, e.Text = Ended, r.Payload.Last
	case r.Payload.Type == "turn_aborted":
		e.Kind = Aborted
	case r.Payload.Type != "item_completed":
	case r.Payload.Item.Type == "AgentMessage":
		e.Kind = Worked
	default:
		e.mail(r.Payload.Item.output, r.Payload.Item.Type == "FunctionCallOutput")
		e.queued(r.Payload.Item.input, r.Payload.Item.Type == "UserMessage" && r.Payload.Item.ClientID != "")
	}
	return e, e.Kind == Mail || e.Kind != 0 && e.Turn != ""
}

// output is the record of a tool's output.
type output struct {
	Namespace string
	Output    json.RawMessage
}

// mail sets e to Mail if the line is a tool's output, and that is a message of ours.
func (e *Event) mail(o output, is bool) {
	if is && o.Namespace == namespace && json.Unmarshal(o.Output, &e.Text) == nil {
		e.Kind = Mail
	}
}
