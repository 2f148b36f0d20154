package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite/sqlitex"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/simcodex"
	"teambridge/relay/relaytest/simsession"
	"teambridge/relay/wire"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// patience limits the waits of a script; only a failure waits so long.
const patience = 2 * time.Minute

// exits runs a command that must end with a given status:
//
//	exits STATUS COMMAND...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	wantStatus(ts, args[0], runs(ts, args[1], args[2:]...))
}

// inside is the key of a bool: whether workers may run the command lines of the script.
type inside struct{}

// each runs each command line of a file, with --json, and keeps its output and its status in a directory:
//
//	each DIR FILE
func each(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: each DIR FILE")
	}
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		result := runsIn(ts, append(strings.Fields(line), "--json"))
		result.Stdout = fmt.Appendf(result.Stdout, "status %d\n", result.Status)
		file := filepath.Join(ts.MkAbs(args[0]), strings.NewReplacer(" ", "_", "/", "_").Replace(strings.TrimSpace(line)))
		ts.Check(errors.Join(os.WriteFile(file, result.Stdout, 0o600), os.WriteFile(file+".err", result.Stderr, 0o600)))
	}
}

// wantStatus fails the script unless err is the error of a command with that exit status.
func wantStatus(ts *testscript.TestScript, want string, err error) {
	got := 0
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		got = ee.ExitCode()
	} else if status, ok := errors.AsType[exitError](err); ok {
		got = int(status)
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != want {
		ts.Fatalf("exit status %d, want %s", got, want)
	}
}

// fixture copies the captured teams of a Claude Code version:
//
//	fixture claude-2.1.80 [CLAUDE-DIR]
func fixture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: fixture VERSION [DIR]")
	}
	dir := ts.Getenv("CLAUDE_CONFIG_DIR")
	if len(args) > 1 {
		dir = ts.MkAbs(args[1])
	}
	from := os.DirFS(filepath.Join("..", "..", "testdata", args[0], "teams"))
	ts.Check(os.CopyFS(filepath.Join(dir, "teams"), from))
}

// session starts a simulated session, until the end of the script:
//
//	session ID NAME [VERSION]
//
// or tells it to do something, as [simsession.Session.Tell], or ends it:
//
//	session -tell ID WORD
//	session -end ID
func session(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: session ID NAME [VERSION] | -tell ID WORD | -end ID")
	}
	all := ts.Value(sessions{}).(map[string]*simsession.Process)
	switch args[0] {
	case "-tell":
		ts.Check(all[args[1]].Do(args[2]))
		return
	case "-end":
		all[args[1]].End()
		return
	}
	s, err := simsession.Begin(ts.Getenv("CLAUDE_CONFIG_DIR"), args[0], args[1], strings.Join(args[2:], ""))
	ts.Check(err)
	ts.Defer(s.End)
	all[args[0]] = s
}

// sessions is the key of the simulated sessions of a script, by id.
type sessions struct{}

// codexSession starts a simulated session of Codex, until the end of the script, and sets $THREAD to its id and
// $CODEX_HOME. The session is in the shared server, has a server of its own, or is a session of codex exec:
//
//	codex [alone|exec]
func codexSession(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: codex [alone|exec]")
	}
	c := simcodex.New(scriptTB{ts: ts})
	id := c.Thread(map[bool]string{true: "exec", false: "vscode"}[slices.Contains(args, "exec")])
	if len(args) > 0 {
		c.Kill()
		c.Hold(id)
	}
	ts.Setenv("CODEX_HOME", c.Home)
	ts.Setenv("THREAD", id)
}

// scriptTB is a script as the testing.TB of simulations.
type scriptTB struct {
	testing.TB
	ts *testscript.TestScript
}

func (scriptTB) Helper()             {}
func (s scriptTB) Cleanup(f func())  { s.ts.Defer(f) }
func (s scriptTB) Fatal(args ...any) { s.ts.Fatalf("%s", fmt.Sprint(args...)) }

// team creates a team of simulated agents, created on 2020-01-02 or another day. They do nothing without
// further commands:
//
//	team [-version VERSION] [-lead alive|gone|away|unnamed] [-day 2020-01-02] [-cwd DIR] [-root DIR] NAME MEMBER...
//
// The transcript of its lead has this version. If the lead is unnamed, config.json has no leadProcess.
func team(ts *testscript.TestScript, neg bool, args []string) {
	founded := time.Date(2020, 1, 2, 15, 4, 5, 0, time.UTC)
	opts := simagent.TeamOptions{
		Root: ts.Getenv("CLAUDE_CONFIG_DIR"), Cwd: "/home/dev/project",
		SessionID: "2de3961d-6921-4e4d-8adb-18a75361dbe0",
		Now:       func() time.Time { return founded },
	}
	var err error
	version := ""
	opts.Process, err = simagent.CurrentProcess()
	ts.Check(err)
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		value := args[1]
		switch flag := args[0]; {
		case flag == "-version":
			version = value
		case flag == "-lead" && value == "alive":
		case flag == "-lead" && value == "gone":
			opts.Process.Start = "1" // the pid belongs to another process by now
		case flag == "-lead" && value == "unnamed":
			opts.NoProcess = true
		case flag == "-lead" && value == "away":
			opts.Process.Space = "elsewhere#pid:[1]"
		case flag == "-day":
			day, err := time.Parse(time.DateOnly, value)
			ts.Check(err)
			founded = day
		case flag == "-cwd":
			opts.Cwd = ts.MkAbs(value)
		case flag == "-root":
			opts.Root = ts.MkAbs(value)
		default:
			ts.Fatalf("team: bad flag %s %s", flag, value)
		}
		args = args[2:]
	}
	if neg || len(args) == 0 {
		ts.Fatalf("usage: team [-version VERSION] [-lead alive|gone|away|unnamed] [-day DAY] [-cwd DIR] [-root DIR] NAME MEMBER...")
	}
	opts.Name = args[0]
	for _, name := range args[1:] {
		opts.Members = append(opts.Members, simagent.Member{Name: name, Prompt: "the token is hunter2", Model: "sonnet"})
	}
	_, err = simagent.Create(context.Background(), opts)
	ts.Check(err)
	if version != "" {
		dir := filepath.Join(opts.Root, "projects", transcript.Slug(opts.Cwd))
		ts.Check(os.MkdirAll(dir, 0o700))
		record := fmt.Sprintf(`{"type":"user","uuid":"u","version":%q,"timestamp":"2020-01-02T15:04:05Z","message":{"content":"hi"}}`+"\n", version)
		ts.Check(os.WriteFile(filepath.Join(dir, opts.SessionID+".jsonl"), []byte(record), 0o600))
	}
}

// take runs the agent of a member until it has taken COUNT messages, and prints them:
//
//	take TEAM MEMBER COUNT
func take(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: take TEAM MEMBER COUNT")
	}
	count, err := strconv.Atoi(args[2])
	ts.Check(err)
	agent, err := simagent.New(simagent.Options{
		Dir:  filepath.Join(ts.Getenv("CLAUDE_CONFIG_DIR"), "teams", args[0]),
		Name: args[1], Poll: time.Millisecond,
	})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(running) }()
	taken, err := agent.Wait(ctx, count)
	stop()
	ts.Check(errors.Join(err, <-ended))
	for _, t := range taken {
		fmt.Fprintf(ts.Stdout(), "%s: %s\n", t.From, t.Text)
	}
}

// given records in the transcript of a member of "team" that its model was given a message:
//
//	given TEAM MEMBER FROM TEXT
func given(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: given TEAM MEMBER FROM TEXT")
	}
	lead := filepath.Join(ts.Getenv("CLAUDE_CONFIG_DIR"), "projects", transcript.Slug("/home/dev/project"), "2de3961d-6921-4e4d-8adb-18a75361dbe0")
	ts.Check(os.MkdirAll(filepath.Join(lead, "subagents"), 0o700))
	own := filepath.Join(lead, "subagents", "agent-a"+args[1]+"-1")
	ts.Check(os.WriteFile(own+".meta.json", fmt.Appendf(nil, `{"name":%q}`, args[1]), 0o600))
	for path, record := range map[string]string{
		lead + ".jsonl": "{}\n",
		own + ".jsonl": fmt.Sprintf(`{"type":"user","uuid":%q,"version":"2.1.329","timestamp":%q,"message":{"content":%q}}`+"\n",
			uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano),
			fmt.Sprintf("<teammate-message teammate_id=%q verified=\"false\">\n%s\n</teammate-message>", args[2], args[3])),
	} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		ts.Check(err)
		_, err = f.WriteString(record)
		ts.Check(errors.Join(err, f.Close()))
	}
}

// age sets the modification time of files back:
//
//	age DURATION PATH...
func age(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: age DURATION PATH...")
	}
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	for _, path := range args[1:] {
		at := time.Now().Add(-d)
		ts.Check(os.Chtimes(ts.MkAbs(path), at, at))
	}
}

// grow makes a file of BYTES bytes, with zeros that take no space:
//
//	grow BYTES PATH
func grow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: grow BYTES PATH")
	}
	n, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[1]), os.O_WRONLY|os.O_CREATE, 0o600)
	ts.Check(err)
	ts.Check(errors.Join(f.Truncate(n), f.Close()))
}

// envelopes checks that each line of a file is an envelope of the session protocol, and that there is one:
//
//	envelopes FILE
func envelopes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: envelopes FILE")
	}
	n := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		n++
		if err := new(wire.Envelope).UnmarshalJSON([]byte(line)); err != nil {
			ts.Fatalf("line %d: %v", n, err)
		}
	}
	if n == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
}

// repeat creates a file with COUNT copies of a text, which may have Go's escapes:
//
//	repeat COUNT TEXT FILE
func repeat(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: repeat COUNT TEXT FILE")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.Repeat(text, n)), 0o600))
}

// replace replaces the first OLD in a file:
//
//	replace FILE OLD NEW
func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace FILE OLD NEW")
	}
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	if !bytes.Contains(data, []byte(args[1])) {
		ts.Fatalf("%s is not in %s", args[1], data)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.Replace(data, []byte(args[1]), []byte(args[2]), 1), 0o600))
}

// intend leaves the records in the ledger of a sender that died between its record and the rename, and whose inbox
// another process has changed afterwards:
//
//	intend TEAM MEMBER ID TEXT
func intend(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: intend TEAM MEMBER ID TEXT")
	}
	l, key := ledgerFor(ts, args[0], args[1])
	m := inbox.Message{ID: args[2], From: "user", DefaultFrom: true, Text: args[3]}
	ts.Check(errors.Join(l.Sends.Intend(context.Background(), inbox.Send{
		SendKey: inbox.SendKey{InboxKey: key, ID: m.ID},
		Digest:  m.Digest(), Before: "another state of the file", At: time.Now(),
	}), l.Close()))
}

// unsettled gives the last sent message the state of one whose sender was killed, 2 minutes ago, before it knew
// whether the message was written:
//
//	unsettled ID
func unsettled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: unsettled ID")
	}
	db := open(ts, filepath.Join(ts.Getenv("TEAMBRIDGE_STATE"), "ledger.db"))
	const message = "(SELECT message FROM sends WHERE id=?1)"
	var err error
	for _, query := range []string{
		"UPDATE sends SET state='intent' WHERE id=?1",
		"INSERT INTO pending (message, at) SELECT message, at-120000000 FROM events WHERE message=" + message,
		"DELETE FROM events WHERE message=" + message,
	} {
		err = errors.Join(err, sqlitex.ExecuteTransient(db, query, &sqlitex.ExecOptions{Args: []any{args[0]}}))
	}
	ts.Check(errors.Join(err, db.Close()))
}

// dead records that the agent of a relay did not stay alive:
//
//	dead TEAM MEMBER REASON
func dead(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: dead TEAM MEMBER REASON")
	}
	l, key := ledgerFor(ts, args[0], args[1])
	s, found, err := l.Sessions.Session(context.Background(), key)
	ts.Check(err)
	if !found {
		ts.Fatalf("%s@%s has no relay", args[1], args[0])
	}
	s.Dead = args[2]
	ts.Check(errors.Join(l.Sessions.SetSession(context.Background(), s), l.Close()))
}

// held holds SENDER's messages to a member, like a relay that detects a loop:
//
//	held TEAM MEMBER SENDER REASON
func held(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: held TEAM MEMBER SENDER REASON")
	}
	l, key := ledgerFor(ts, args[0], args[1])
	since := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	ts.Check(errors.Join(l.Holds.Hold(context.Background(), ledger.Hold{InboxKey: key, Sender: args[2], Reason: args[3], Since: since}), l.Close()))
}

type launchers struct{} // map[inbox.InboxKey]*relay.Held, in the values of a script

// launcher plays the launcher of a session: at a place, where it may be held for a reason; granting or refusing the
// next request to move; ending; or killed:
//
//	launcher TEAM MEMBER local|remote [HELD]
//	launcher TEAM MEMBER grants|refuses [REASON]
//	launcher TEAM MEMBER ends|killed
func launching(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: launcher TEAM MEMBER local|remote|grants|refuses|ends|killed [REASON]")
	}
	l, key := ledgerFor(ts, args[0], args[1])
	ctx, reason := context.Background(), strings.Join(args[3:], "")
	set := func(at ledger.Place) {
		h, _, err := l.Sessions.Handoff(ctx, key)
		ts.Check(err)
		state := ledger.RelayRunning
		if h.At = at; at == ledger.AtTerminal {
			state = ledger.RelayLocal
		}
		if h.InboxKey, h.To, h.Reason = key, "", reason; reason != "" {
			h.To = map[ledger.Place]ledger.Place{ledger.AtTerminal: ledger.AtRelay, ledger.AtRelay: ledger.AtTerminal}[at]
		}
		ts.Check(l.Sessions.SetSession(ctx, ledger.Session{InboxKey: key, ID: "s-1", Command: "agent", State: state, Relay: os.Getpid(), Mode: []byte{}}))
		ts.Check(l.Sessions.SetHandoff(ctx, h))
	}
	all := ts.Value(launchers{}).(map[inbox.InboxKey]*relay.Held)
	release := func() {
		if h := all[key]; h != nil {
			ts.Check(h.Release())
			delete(all, key)
		}
	}
	switch args[2] {
	case string(ledger.AtTerminal), string(ledger.AtRelay):
		if all[key] == nil {
			root, err := teams.Open(key.Root)
			ts.Check(err)
			t, err := root.Team(key.Team)
			ts.Check(err)
			all[key], err = relay.Hold(ctx, ts.Getenv("TEAMBRIDGE_STATE"), t, key.Inbox, 0)
			ts.Check(errors.Join(err, t.Close(), root.Close()))
			ts.Defer(release)
		}
		set(ledger.Place(args[2]))
	case "grants", "refuses":
		ctx, cancel := context.WithCancel(ctx)
		var answering sync.WaitGroup
		answering.Go(func() {
			for ctx.Err() == nil {
				h, _, err := l.Sessions.Handoff(ctx, key)
				if err != nil || h.Wanted == "" {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				if h.To, h.Reason, h.Refused = "", "", reason; args[2] == "grants" {
					h.At, h.Refused = h.Wanted, ""
				}
				h.Wanted = ""
				if l.Sessions.SetHandoff(ctx, h) == nil {
					break
				}
			}
			_ = l.Close()
		})
		ts.Defer(func() {
			cancel()
			answering.Wait()
		})
		return
	case "ends":
		ts.Check(l.Sessions.SetSession(ctx, ledger.Session{InboxKey: key, ID: "s-1", Command: "agent", State: ledger.RelayEnded, Mode: []byte{}}))
		ts.Check(l.Sessions.RemoveHandoff(ctx, key))
		release()
	case "killed":
		release()
	default:
		ts.Fatalf("launcher: unknown word %s", args[2])
	}
	ts.Check(l.Close())
}

// ledgerFor opens the ledger, and returns the key of an inbox in it.
func ledgerFor(ts *testscript.TestScript, team, member string) (*ledger.Ledger, inbox.InboxKey) {
	root, err := teams.Open(ts.Getenv("CLAUDE_CONFIG_DIR"))
	ts.Check(err)
	defer root.Close()
	t, err := root.Team(team)
	ts.Check(err)
	defer t.Close()
	key, err := fleet.Key(context.Background(), t, member)
	ts.Check(err)
	l, err := ledger.Open(context.Background(), filepath.Join(ts.Getenv("TEAMBRIDGE_STATE"), "ledger.db"))
	ts.Check(err)
	return l, key
}

// does records an envelope of an agent, in a turn with the id turn, with a time AFTER from now:
//
//	does TEAM MEMBER ID AFTER EVENT
func does(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: does TEAM MEMBER ID AFTER EVENT")
	}
	after, err := time.ParseDuration(args[3])
	ts.Check(err)
	l, key := ledgerFor(ts, args[0], args[1])
	ts.Check(l.Close())
	var event struct{ T, Call string }
	ts.Check(json.Unmarshal([]byte(args[4]), &event))
	at := time.Now().Add(after)
	j, err := journal.Open(context.Background(), filepath.Join(ts.Getenv("TEAMBRIDGE_STATE"), "journal.db"))
	ts.Check(err)
	_, err = j.Envelopes.Record(context.Background(), journal.Envelope{
		InboxKey: key,
		ID:       args[2], Session: "session", Turn: "turn", Call: event.Call, Kind: event.T, Role: "agent", At: at,
		Raw: fmt.Appendf(nil, `{"id":%q,"time":%d,"role":"agent","turn":"turn","ev":%s}`, args[2], at.UnixMilli(), args[4]),
	})
	ts.Check(errors.Join(err, j.Close()))
}

// keys checks that a file (stdout, stderr) is one line with a JSON object, or an array of objects, with exactly these
// keys in this order:
//
//	keys FILE KEY...
func keys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: keys FILE KEY...")
	}
	text := ts.ReadFile(args[0])
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("not one line: %q", text)
	}
	objects := []json.RawMessage{json.RawMessage(text)}
	if strings.HasPrefix(text, "[") {
		ts.Check(json.Unmarshal([]byte(text), &objects))
	}
	if len(objects) == 0 {
		ts.Fatalf("an empty array")
	}
	for _, o := range objects {
		if got := keysOf(ts, o); !slices.Equal(got, args[1:]) {
			ts.Fatalf("keys %q, want %q", got, args[1:])
		}
	}
}

func keysOf(ts *testscript.TestScript, object json.RawMessage) (names []string) {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, err := dec.Token()
	ts.Check(err)
	for dec.More() {
		name, err := dec.Token()
		ts.Check(err)
		var value json.RawMessage
		ts.Check(dec.Decode(&value))
		names = append(names, fmt.Sprint(name))
	}
	return names
}

// remember records the state of a directory tree; same checks that no file in it has changed since, and
// untouched that not even a lock was taken there:
//
//	remember DIR
//	same DIR
//	untouched DIR
func remember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: remember DIR")
	}
	notes := ts.Value(remembered{}).(map[string]string)
	notes[args[0]] = tree(ts, args[0], false)
	notes["untouched "+args[0]] = tree(ts, args[0], true)
}

// remembered is the key of the recorded states, by directory.
type remembered struct{}

func same(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: same DIR")
	}
	unchanged(ts, ts.Value(remembered{}).(map[string]string)[args[0]], tree(ts, args[0], false))
}

func untouched(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: untouched DIR")
	}
	unchanged(ts, ts.Value(remembered{}).(map[string]string)["untouched "+args[0]], tree(ts, args[0], true))
}

func unchanged(ts *testscript.TestScript, was, is string) {
	if was != is {
		ts.Fatalf("it was\n%s\nit is\n%s", was, is)
	}
}

// tree describes all files below dir. With dirTimes, it shows even when something was added to or removed from a
// directory, as a lock is.
func tree(ts *testscript.TestScript, dir string, dirTimes bool) string {
	var b strings.Builder
	root := ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s", strings.TrimPrefix(path, root), info.Mode())
		if !e.IsDir() || dirTimes {
			fmt.Fprintf(&b, " %d", info.ModTime().UnixNano())
		}
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %q", data)
		}
		b.WriteString("\n")
		return nil
	}))
	return b.String()
}

// closed runs teambridge with a standard output whose reader has gone:
//
//	closed STATUS ARGUMENT...
func closed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: closed STATUS ARGUMENT...")
	}
	r, w, err := os.Pipe()
	ts.Check(err)
	defer w.Close()
	ts.Check(r.Close())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := teambridge(ts, ctx, args[1:])
	cmd.Stdout, cmd.Stderr = w, ts.Stderr()
	wantStatus(ts, args[0], cmd.Run())
}

// interrupt runs teambridge, and interrupts it once a file that matches PATTERN exists:
//
//	interrupt STATUS PATTERN ARGUMENT...
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt STATUS PATTERN ARGUMENT...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := teambridge(ts, ctx, args[2:])
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	ts.Check(cmd.Start())
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if found, _ := filepath.Glob(ts.MkAbs(args[1])); len(found) > 0 {
			break
		}
		<-tick.C
	}
	ts.Check(cmd.Process.Signal(syscall.SIGINT))
	wantStatus(ts, args[0], cmd.Wait())
}

// typing runs teambridge, interrupts it while it reads a standard input that does not end, and checks the exit
// status:
//
//	typing ARGUMENT...
func typing(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: typing ARGUMENT...")
	}
	r, w, err := os.Pipe()
	ts.Check(err)
	defer w.Close()
	cmd := teambridge(ts, context.Background(), args)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, ts.Stdout(), ts.Stderr()
	ts.Check(cmd.Start())
	defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
	ts.Check(r.Close()) // the process has its own
	// More text than a pipe holds: once it is written, the process is reading.
	_, err = w.WriteString(strings.Repeat("x", 80_000))
	ts.Check(errors.Join(err, cmd.Process.Signal(syscall.SIGINT)))
	wantStatus(ts, strconv.Itoa(api.ExitInterrupted), cmd.Wait())
}

// teambridge is the program as the script's own commands start it.
func teambridge(ts *testscript.TestScript, ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "teambridge", args...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "TEAMBRIDGE_STATE", "TEST_LOCK_WAIT", "TEST_LOCK_HOLD", "TEST_TMUX_WAIT", "TEST_GATHER", "TEST_PATIENCE", "GORACE", "PATH", "TEAMBRIDGE_HOST", "TEST_SSH", "TEST_SSH_THERE", "NOTIFY_SOCKET", "ENABLE_SESSION_PROTOCOL_SEND", "HOOK"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	if tmp := ts.Getenv("TMPDIR"); tmp == ts.MkAbs("tmp") { // of the script, not of testscript, which is too long for sockets
		cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	}
	return cmd
}
