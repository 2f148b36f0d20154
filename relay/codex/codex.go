// Package codex finds sessions of the Codex CLI, which it calls threads, writes to them and reads what became of that.
//
// A process that has a thread holds a lock on a file. Terminals of 0.169 share one server, which has their threads and takes
// messages on a socket: as the output of a tool, which carries none of the user's authority. Others have their threads themselves and
// take none: "codex exec", terminals with --no-daemon or -c, and those of 0.149.
//
// Each thread also has a durable queue, whose texts the model takes for the words of the user: see [Enqueue].
//
// The socket has no token: whoever can open it can do all that Codex can. This package sends messages, and nothing else.
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
	Shared bool // that is the shared server, so that it takes messages
	Exec   bool // it is one of "codex exec", or of another program without a person

	Busy    bool
	Changed time.Time // when Busy changed
}

// Home returns the directory of Codex, for a user with that environment; "" if it is not known.
func Home(lookup func(string) (string, bool)) string {
	if dir, _ := lookup("CODEX_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if dir, _ := lookup("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".codex")
	}
	return ""
}

// Threads returns the threads that living processes hold, the oldest first. Those of subagents and those without a transcript, which have no
// prompt yet, are left out. There are none on systems other than Linux, which do not tell who holds a lock.
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
				t.Busy, t.Changed = false, began // the turn was one of a process that was killed
			}
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b Thread) int { return cmp.Or(a.Begun.Compare(b.Begun), strings.Compare(a.ID, b.ID)) })
	return list
}

// known is what was read of a transcript, until that changes: a service looks several times a second.
type known struct {
	info   os.FileInfo
	thread Thread
}

var (
	knownMu sync.Mutex
	knownBy = map[string]known{} // by the directory of Codex and the id
)

// thread returns what the transcript of a thread says of it.
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
		return t, false // an object: a subagent's
	}
	t = Thread{ID: id, Cwd: meta.Payload.Cwd, Version: meta.Payload.Version, Begun: transcript.ValidTime(meta.Payload.Time), Exec: source == "exec"}
	t.Busy, t.Changed = works(file, size)
	return t, true
}

// maxFirst is how long the first line of a transcript may be: it has the instructions of the model.
const maxFirst = 4 << 20

// works reports whether a turn runs, and since when it does or does not, by the last line that says so.
func works(file *os.File, size int64) (busy bool, since time.Time) {
	for _, line := range transcript.Backward(file, size) {
		if e, ok := Parse(line); ok && (e.Kind == Begun || e.Kind == Ended || e.Kind == Aborted) {
			return e.Kind == Begun, e.At
		}
	}
	return false, time.Time{}
}

// Rollout returns the path of the transcript of a thread, which has one once it has a prompt.
func Rollout(home, id string) (path string, ok bool) {
	at, ok := begun(id)
	if !ok {
		return "", false
	}
	for _, day := range []time.Time{at, at.AddDate(0, 0, -1), at.AddDate(0, 0, 1)} { // by the clock of the time zone that it began in
		found, _ := filepath.Glob(filepath.Join(escaped(home), "sessions", day.Format("2006"), day.Format("01"), day.Format("02"), "rollout-*-"+id+".jsonl"))
		if len(found) > 0 {
			return found[len(found)-1], true
		}
	}
	return "", false
}

// IsRollout reports whether a path is a transcript of Codex.
func IsRollout(path string) bool { return strings.HasPrefix(filepath.Base(path), "rollout-") }

// escaped is a path for [filepath.Glob].
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// begun returns when a thread began, which its id tells: it is a UUID of version 7.
func begun(id string) (time.Time, bool) {
	if len(id) != 36 || strings.Trim(id, "0123456789abcdef-") != "" || id[14] != '7' {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(id[:8]+id[9:13], 16, 64)
	return time.UnixMilli(ms).UTC(), err == nil
}

// Kind is what a line of a transcript tells.
type Kind int

// The kinds of lines that are of interest.
const (
	Begun   Kind = iota + 1 // a turn begins
	Ended                   // a turn ended
	Aborted                 // a turn was interrupted
	Mail                    // what was written to the thread by [Send] or [Enqueue]
	Worked                  // the model answered, or called a tool
)

// Event is what a line of a transcript tells.
type Event struct {
	Kind Kind
	Turn string // of Mail, it may be empty
	At   time.Time
	Text string // of Mail, what was written; of Ended, what the agent said last
}

// Parse reads a line of a transcript; ok is false if it tells nothing of interest. Measured on 0.169.0.
//
// A message is two lines, and the first puts it into the conversation. A server that is killed can leave the first without the second.
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

// output is what is recorded of the output of a tool.
type output struct {
	Namespace string
	Output    json.RawMessage
}

// mail takes the output of a tool, if it is one and ours.
func (e *Event) mail(o output, is bool) {
	if is && o.Namespace == namespace && json.Unmarshal(o.Output, &e.Text) == nil {
		e.Kind = Mail
	}
}
