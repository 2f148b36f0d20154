package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/teams/rawjson"
	"teambridge/teams/sharedfile"
)

// leadName is Claude Code's name for the lead of each team.
const leadName = "team-lead"

// agent is a simulated member of a team: it treats its inbox as Claude Code does.
type agent struct {
	name   string
	takes  time.Duration                    // how long a turn takes
	answer func(row) (text, summary string) // answers a message; "": no answer
	said   string                           // the report to the lead at the end of each turn
	color  string
	dir    string // the team's

	mu  sync.Mutex
	log []row // the rows that it has taken
}

// row is a message in an inbox. Of rows by other programs, it has only the fields that agents use.
type row struct {
	From      string `json:"from"`
	Text      string `json:"text"`
	Summary   string `json:"summary,omitempty"`
	Timestamp string `json:"timestamp"`
	Color     string `json:"color,omitempty"`
	MsgV      int    `json:"msgV"`
	MsgID     string `json:"msg_id"`
	Type      string `json:"type"`
	Read      bool   `json:"read"`
	MessageID string `json:"messageId,omitempty"`
}

// createTeam makes a team whose lead is this process, and returns its name.
func createTeam(claude, cwd string, agents []*agent) (name string, err error) {
	session := uuid.NewString()
	name = "session-" + session[:8]
	space, start, err := thisProcess()
	if err != nil {
		return "", err
	}
	at, dir := time.Now().UnixMilli(), filepath.Join(claude, "teams", name)
	members := []object{{
		"agentId": leadName + "@" + name, "name": leadName, "agentType": leadName, "joinedAt": at, "tmuxPaneId": "leader", "cwd": cwd,
		"subscriptions": []string{}, "backendType": "in-process",
	}}
	inboxes := []string{leadName}
	for i, a := range agents {
		a.dir, a.color = dir, []string{"blue", "green", "yellow"}[i]
		members = append(members, object{
			"agentId": a.name + "@" + name, "name": a.name, "color": a.color, "joinedAt": at, "tmuxPaneId": "in-process", "subscriptions": []string{},
			"model": "sonnet", "prompt": "", "planModeRequired": false, "cwd": cwd, "backendType": "in-process",
		})
		inboxes = append(inboxes, a.name)
	}
	if err := os.MkdirAll(filepath.Join(dir, "inboxes"), 0o700); err != nil {
		return "", err
	}
	for _, of := range inboxes {
		if err := os.WriteFile(inboxIn(dir, of), []byte("[]"), 0o600); err != nil {
			return "", err
		}
	}
	return name, os.WriteFile(filepath.Join(dir, "config.json"), indented(object{
		"name": name, "createdAt": at, "leadAgentId": leadName + "@" + name, "leadSessionId": session, "members": members,
		"leadProcess": object{"pid": os.Getpid(), "pidSpace": space, "claimedAt": at, "procStart": start},
	}), 0o600)
}

func inboxIn(team, member string) string { return filepath.Join(team, "inboxes", member+".json") }

// run takes and answers messages, until ctx ends.
func (a *agent) run(ctx context.Context) error {
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	rows, err := a.take(ctx)
	for ctx.Err() == nil {
		if err != nil {
			return fmt.Errorf("the agent %s: %w", a.name, err)
		}
		if len(rows) > 0 {
			rows, err = a.turn(ctx, rows)
			continue
		}
		select {
		case <-look.C:
			rows, err = a.take(ctx)
		case <-ctx.Done():
		}
	}
	return nil
}

// turn answers rows, and returns the rows of the next turn. It takes no rows during the turn.
func (a *agent) turn(ctx context.Context, rows []row) (next []row, err error) {
	select {
	case <-time.After(a.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	idle := object{"type": "idle_notification", "from": a.name}
	for _, r := range rows {
		if !isMessage(r) {
			continue
		}
		if text, summary := a.answer(r); text != "" {
			if err := a.send(ctx, r.From, text, summary); err != nil {
				return nil, err
			}
			idle["summary"] = strings.TrimSpace("[to " + r.From + "] " + summary)
		}
	}
	if next, err = a.take(ctx); err != nil {
		return nil, err
	}
	if idle["timestamp"] = now(); len(next) == 0 {
		idle["idleReason"] = "available"
	}
	if a.said != "" {
		idle["result"] = a.said
	}
	return next, a.send(ctx, leadName, string(encoded(idle)), "")
}

// take removes the rows of its inbox, and returns those that are messages for it.
func (a *agent) take(ctx context.Context) (taken []row, err error) {
	path := inboxIn(a.dir, a.name)
	if data, err := sharedfile.ReadFile(path); err != nil || len(data) <= len("[]") {
		return nil, err
	}
	err = edit(ctx, path, func(rows []json.RawMessage) []json.RawMessage {
		for _, data := range rows {
			var r row
			if json.Unmarshal(data, &r) == nil && r.From != "" && r.Timestamp != "" && !r.Read {
				taken = append(taken, r)
			}
		}
		return []json.RawMessage{}
	})
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, taken...)
	return taken, nil
}

// took returns the messages that it has taken.
func (a *agent) took() []row {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.log)
}

// wait waits until it has taken n rows, and returns all.
func (a *agent) wait(ctx context.Context, n int) (rows []row, err error) {
	err = poll(ctx, func() (bool, error) { rows = a.took(); return len(rows) >= n, nil })
	return rows, err
}

// isMessage reports whether a row is not an object of Claude Code's protocol.
func isMessage(r row) bool {
	var o struct{ Type string }
	return json.Unmarshal([]byte(r.Text), &o) != nil || o.Type == ""
}

func (a *agent) send(ctx context.Context, to, text, summary string) error {
	r := row{From: a.name, Text: text, Summary: summary, Timestamp: now(), Color: a.color, MsgV: 1, MsgID: uuid.NewString(), Type: "message"}
	return edit(ctx, inboxIn(a.dir, to), func(rows []json.RawMessage) []json.RawMessage { return append(rows, encoded(r)) })
}

// edit changes the rows of an inbox under its lock, a directory. It shares no code with the inboxes of teambridge.
func edit(ctx context.Context, path string, change func([]json.RawMessage) []json.RawMessage) error {
	lock := path + ".lock"
	err := poll(ctx, func() (bool, error) {
		err := os.Mkdir(lock, 0o700)
		if info, serr := os.Lstat(lock); err != nil && serr == nil && time.Since(info.ModTime()) > 10*time.Second {
			_ = os.Remove(lock) // its holder was killed
		}
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	data, err := sharedfile.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) { // that member has no message yet
		err = nil
	}
	if err == nil {
		var rows []json.RawMessage
		_ = json.Unmarshal(data, &rows) // an invalid list is empty
		temp := path + ".tmp." + uuid.NewString()[:8]
		if err = os.WriteFile(temp, indented(change(rows)), 0o600); err == nil {
			// On Windows a file that another program has open cannot be replaced.
			err = poll(ctx, func() (bool, error) { return os.Rename(temp, path) == nil, nil })
		}
		if err != nil {
			_ = os.Remove(temp)
		}
	}
	return errors.Join(err, os.Remove(lock))
}

// encoded is JSON.stringify(v), which leaves <, > and & unchanged. JSON has a form for all values in v.
func encoded(v any) json.RawMessage {
	data, err := rawjson.Encode(v)
	if err != nil {
		panic(err)
	}
	return data
}

// indented is JSON.stringify(v, null, 2).
func indented(v any) []byte {
	var out bytes.Buffer
	if err := json.Indent(&out, encoded(v), "", "  "); err != nil {
		panic(err)
	}
	return out.Bytes()
}
