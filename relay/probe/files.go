package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// teamDir is the directory of a team. It writes files in the form that Claude Code requires, with code that
// is independent of the rest of teambridge.
type teamDir struct {
	b    *bench
	name string
}

func (b *bench) teamOf(name string) teamDir { return teamDir{b, name} }

func (t teamDir) dir() string            { return filepath.Join(t.b.home.Root, "teams", t.name) }
func (t teamDir) config() string         { return filepath.Join(t.dir(), "config.json") }
func (t teamDir) inbox(of string) string { return filepath.Join(t.dir(), "inboxes", of+".json") }

// row is a row of an inbox.
type row struct {
	From      string `json:"from,omitempty"`
	Text      string `json:"text"`
	Summary   string `json:"summary,omitempty"`
	Timestamp string `json:"timestamp"`
	Read      bool   `json:"read"`
	MsgID     string `json:"msg_id,omitempty"`
}

// entry returns the entry of a person in a team.
func (t teamDir) entry(name string) map[string]any {
	return map[string]any{
		"agentId": name + "@" + t.name, "name": name, "joinedAt": time.Now().UnixMilli(), "tmuxPaneId": "", "cwd": t.b.home.Work, "subscriptions": []string{},
	}
}

// make makes a team with its first member as the lead.
func (t teamDir) make(session string, members ...string) error {
	var all []map[string]any
	for _, name := range members {
		m := t.entry(name)
		if name != "operator" {
			m["agentType"] = "general-purpose"
		}
		all = append(all, m)
	}
	all[0]["agentType"] = "team-lead"
	data, err := json.MarshalIndent(map[string]any{
		"name": t.name, "createdAt": time.Now().UnixMilli(), "leadAgentId": all[0]["agentId"], "leadSessionId": session, "members": all,
	}, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(t.inbox("x")), 0o700)
	}
	if err == nil {
		err = os.WriteFile(t.config(), data, 0o600)
	}
	return err
}

// lock takes the lock of a file.
func (t teamDir) lock(path string) (unlock func(), err error) {
	err = t.b.wait(t.b.o.Step, "the lock of "+filepath.Base(path), func() bool { return os.Mkdir(path+".lock", 0o700) == nil })
	return func() { _ = os.Remove(path + ".lock") }, err
}

// contend holds the lock of a file until the file was written, for at most o.Hold. Then it leaves the lock
// behind like one of a dead process, which the next process replaces. Call taken once the file was written:
// it reports whether the writer took the lock, however late.
func (t teamDir) contend(path string, written func() bool) (taken func() (bool, error), err error) {
	if _, err := t.lock(path); err != nil {
		return nil, err
	}
	var under bool
	var aged error
	left, old := make(chan struct{}), time.Now().Add(-time.Hour)
	go func() {
		defer close(left)
		under = t.b.wait(t.b.o.Hold, "a write under our lock", written) == nil
		aged = os.Chtimes(path+".lock", old, old)
	}()
	return func() (bool, error) {
		<-left
		lock, err := os.Stat(path + ".lock")
		switch {
		case aged != nil:
			return false, aged
		case errors.Is(err, fs.ErrNotExist), err == nil && lock.ModTime().After(old.Add(time.Minute)):
			return !under, nil
		case err != nil:
			return false, err
		}
		return false, os.Remove(path + ".lock")
	}, nil
}

// edit changes a file under its lock, by a rename. It keeps the lock until the functions in hold have
// returned.
func edit[T any](t teamDir, path string, change func(*T), hold ...func()) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := t.lock(path)
	if err != nil {
		return err
	}
	defer unlock()
	var v T
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &v)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	change(&v)
	if data, err = json.MarshalIndent(v, "", "  "); err != nil {
		return err
	}
	fresh := path + ".probe." + uuid.NewString()[:8]
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	for _, do := range hold {
		do()
	}
	return nil
}

// push appends a row.
func (t teamDir) push(to string, r row) error { return t.append(to, r) }

// pushHeld is push, and keeps the lock afterwards, for limit or until so reports true.
func (t teamDir) pushHeld(to string, r row, limit time.Duration, so func() bool) error {
	return t.append(to, r, func() { _ = t.b.wait(limit, "the end of the time for which a lock is held", so) })
}

func (t teamDir) append(to string, r row, hold ...func()) error {
	r.Timestamp = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	return edit(t, t.inbox(to), func(rows *[]json.RawMessage) {
		data, err := json.Marshal(r)
		if err == nil {
			*rows = append(*rows, data)
		}
	}, hold...)
}

// rows returns the rows of an inbox; ok is false while it cannot be read.
func (t teamDir) rows(of string) (rows []row, ok bool) {
	data, err := os.ReadFile(t.inbox(of))
	if err != nil || json.Unmarshal(data, &rows) != nil {
		return nil, false
	}
	return rows, true
}

// find returns the row with a text.
func (t teamDir) find(of, text string) (row, bool) {
	rows, _ := t.rows(of)
	i := slices.IndexFunc(rows, func(r row) bool { return strings.Contains(r.Text, text) })
	if i < 0 {
		return row{}, false
	}
	return rows[i], true
}

// has reports whether an inbox has an unread row with a text.
func (t teamDir) has(of, text string) bool {
	r, ok := t.find(of, text)
	return ok && !r.Read
}
