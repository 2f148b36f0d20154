// Package qwen finds sessions of Qwen Code, and reads the outcome of messages to them.
//
// A session at a terminal describes itself in a file, and takes messages on a socket: see package peer. The files
// follow the program's published protocol, version 1. The format of its transcripts was tested with 0.24.4.
package qwen

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"teambridge/relay/process"
	"teambridge/teams/proc"
	"teambridge/teams/sharedfile"
	"teambridge/teams/transcript"
)

// Session is a session of Qwen Code in a living process.
type Session struct {
	PID     int
	Start   string // when the process started, as in [transcript.Process]; "" if unknown
	ID      string // the current one: /clear and resuming another session change it
	Cwd     string
	Name    string
	Version string
	Begun   time.Time // when it wrote its file
	Path    string    // of that file
	Chat    string    // its transcript, which exists from its first prompt on

	Socket   string // for messages; "": it takes none
	Terminal bool   // at a person's terminal; other sessions refuse all messages

	// Status is its status according to its transcript, as in [transcript.Process]; "" if unknown. A turn that its
	// person interrupted counts as running until the next one.
	Status  string
	Changed time.Time // when Status changed
}

// Home returns the directory of Qwen Code, according to a user's environment; "" if it is unknown.
func Home(lookup func(string) (string, bool)) string {
	if dir, _ := lookup("QWEN_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if dir, _ := lookup("HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".qwen")
	}
	return ""
}

// record is the file of a session, or of another program that takes messages.
type record struct {
	Schema    int     `json:"schemaVersion"`
	PID       int     `json:"pid"`
	Start     *string `json:"procStart"` // BOOT:TICKS
	Space     *uint64 `json:"pidNs"`
	Session   string  `json:"sessionId"`
	Cwd       string  `json:"cwd"`
	Name      string  `json:"name"`
	StartedAt int64   `json:"startedAt"`
	Version   string  `json:"qwenVersion"`
	Kind      string  `json:"kind"`
	Socket    string  `json:"ipcPath"`
	Token     string  `json:"ipcToken"`
}

// file matches the name of a record.
var file = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d+)(-[0-9a-f]{8})?\.json$`) })

const maxRecord = 64 << 10

// read returns the record in a file, and the start of its process. ok is false unless that lives on this system.
func read(path string) (r record, start string, ok bool) {
	name := file().FindStringSubmatch(filepath.Base(path))
	info, err := os.Lstat(path)
	if name == nil || err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord {
		return r, "", false
	}
	data, err := sharedfile.ReadFile(path)
	if err != nil || json.Unmarshal(data, &r) != nil {
		return r, "", false
	}
	if pid, err := strconv.Atoi(name[1]); err != nil || r.Schema != 1 || r.PID != pid || r.PID <= 0 || r.Session == "" {
		return r, "", false
	}
	if r.Space != nil && fmt.Sprintf("pid:[%d]", *r.Space) != space() {
		return r, "", false
	}
	if r.Start != nil {
		boot, ticks, _ := strings.Cut(*r.Start, ":")
		start = ticks + "@" + boot
	}
	alive, _ := process.Predecessor{PID: r.PID, Start: start}.Alive() // without a start, it may be another process
	start, _, _ = strings.Cut(start, "@")
	return r, start, alive
}

// space returns the pid namespace of this process, on Linux.
var space = sync.OnceValue(func() string {
	name, _ := proc.Namespace()
	return name
})

// Sessions returns the sessions in living processes, the oldest first, without programs that only send, such as ours.
func Sessions(home string) (list []Session) {
	folder := filepath.Join(home, "sessions")
	all, _ := sharedfile.ReadDir(folder) // an unreadable folder has none
	for _, e := range all {
		path := filepath.Join(folder, e.Name())
		r, start, ok := read(path)
		if !ok || r.Kind == "external" {
			continue
		}
		s := Session{
			PID: r.PID, Start: start, ID: r.Session, Cwd: r.Cwd, Name: r.Name, Version: r.Version, Begun: transcript.ValidTime(time.UnixMilli(r.StartedAt)), Path: path,
			Socket: r.Socket, Terminal: r.Kind == "" || r.Kind == "tui",
		}
		s.Chat, _ = Chat(home, s.Cwd, s.ID)
		s.Status, s.Changed = works(s.Chat)
		if s.Status == "" && s.Changed.IsZero() || s.Changed.Before(s.Begun) { // an earlier process's turn
			s.Status, s.Changed = transcript.ProcessIdle, s.Begun
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Session) int { return cmp.Or(a.Begun.Compare(b.Begun), strings.Compare(a.ID, b.ID)) })
	return list
}

// Token returns the token that a session requires of a message, or "": for a person's message, the controller's; else
// the one that [KeepToken] kept, or the file's. ok is false if the file is no longer the session's.
func Token(state, path, session string, person bool) (token string, ok bool) {
	r, start, ok := read(path)
	if !ok || r.Session != session {
		return "", false
	}
	if person {
		if c, ok := ControllerOf(state, filepath.Dir(filepath.Dir(path))); ok {
			return c.Token, true
		}
	}
	return cmp.Or(childToken(state, r, start), r.Token), true
}

var strange = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-zA-Z0-9]`) })

// chats returns the folder of the transcripts of sessions in a directory.
func chats(home, cwd string) string {
	return filepath.Join(home, "projects", strange().ReplaceAllString(cwd, "-"), "chats")
}

// Chat returns the path of the transcript of a session that began in a directory.
func Chat(home, cwd, id string) (path string, ok bool) {
	if id == "" || strange().MatchString(strings.ReplaceAll(id, "-", "")) {
		return "", false
	}
	path = filepath.Join(chats(home, cwd), id+".jsonl")
	_, err := os.Stat(path)
	return path, err == nil
}

// Recent returns the transcripts of sessions in a directory that have changed since a time.
func Recent(home, cwd string, since time.Time) (paths []string) {
	folder := chats(home, cwd)
	all, _ := sharedfile.ReadDir(folder)
	for _, e := range all {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == ".jsonl" && info.Mode().IsRegular() && !info.ModTime().Before(since) {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths
}

// IsChat reports whether a path is a transcript of Qwen Code.
func IsChat(path string) bool { return filepath.Base(filepath.Dir(path)) == "chats" }

// known caches a transcript's facts until it changes, since a service asks several times a second.
type known struct {
	info    os.FileInfo
	status  string
	changed time.Time
}

var (
	knownMu sync.Mutex
	knownBy = map[string]known{} // by path
)

// works returns the status of a session and since when it has it, by the end of its transcript.
func works(path string) (status string, since time.Time) {
	if path == "" {
		return "", time.Time{}
	}
	f, err := sharedfile.Open(path)
	if err != nil {
		return "", time.Time{}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", time.Time{}
	}
	knownMu.Lock()
	old, ok := knownBy[path]
	knownMu.Unlock()
	if ok && info.Size() == old.info.Size() && info.ModTime().Equal(old.info.ModTime()) {
		return old.status, old.changed
	}
	for _, line := range transcript.Backward(f, info.Size()) {
		e, ok := Parse(line)
		if !ok {
			continue
		}
		switch since = e.At; e.Kind {
		case Ended:
			status = transcript.ProcessIdle
		case Failed:
		default:
			status = transcript.ProcessBusy
		}
		break
	}
	knownMu.Lock()
	knownBy[path] = known{info, status, since}
	knownMu.Unlock()
	return status, since
}

// Kind is the kind of a line of a transcript.
type Kind int

// The kinds of lines that matter here.
const (
	Begun  Kind = iota + 1 // a turn begins, but not with Mail
	Mail                   // a turn begins with a message that another process wrote to the session
	Worked                 // the model answered, or a tool finished
	Ended                  // the model answered without a tool call: the turn is over
	Failed                 // the API did not answer
)

// Event is a line of a transcript.
type Event struct {
	Kind Kind
	At   time.Time
	Text string // with Mail, the message, with &lt; for <; with Ended, the agent's answer
}

// envelope begins a message of another process.
const envelope = "<cross_session_message "

// Parse reads a line of a transcript. ok is false if the line does not matter here. Prompts that the person types
// while the agent works do not begin a turn.
func Parse(line []byte) (e Event, ok bool) {
	if bytes.Contains(line, []byte(`"type":"system"`)) && !bytes.Contains(line, []byte("api_error")) {
		return e, false // most lines of a transcript
	}
	var r struct {
		Timestamp time.Time
		Type      string
		Subtype   string
		Message   struct {
			Parts []struct {
				Text    string
				Thought bool
				Call    json.RawMessage `json:"functionCall"`
			}
		}
		Payload struct {
			Event struct {
				Name string `json:"event.name"`
			} `json:"uiEvent"`
		} `json:"systemPayload"`
	}
	if json.Unmarshal(line, &r) != nil {
		return e, false
	}
	var text strings.Builder
	calls := false
	for _, p := range r.Message.Parts {
		if !p.Thought {
			text.WriteString(p.Text)
		}
		calls = calls || p.Call != nil
	}
	e.At = transcript.ValidTime(r.Timestamp)
	switch {
	case r.Type == "tool_result", r.Type == "assistant" && calls:
		e.Kind = Worked
	case r.Type == "assistant":
		e.Kind, e.Text = Ended, text.String()
	case r.Type == "system" && strings.HasSuffix(r.Payload.Event.Name, ".api_error"):
		e.Kind = Failed
	case r.Type != "user" || r.Subtype == "mid_turn_user_message":
	case r.Subtype == "notification" && strings.HasPrefix(text.String(), envelope):
		e.Kind = Mail
		_, e.Text, _ = strings.Cut(text.String(), ">\n")
	default:
		e.Kind = Begun
	}
	return e, e.Kind != 0
}
