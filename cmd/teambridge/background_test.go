package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/process"
	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
)

// started is the key of the processes that start runs, by name.
type started struct{}

// start runs teambridge in the background, with its output in NAME.out and NAME.err, and returns when one of them
// matches PATTERN. With -v, watching commands print "watching" once they watch:
//
//	start NAME PATTERN ARGUMENT...
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: start NAME PATTERN ARGUMENT...")
	}
	cmd := teambridge(ts, context.Background(), args[2:])
	open := func(ext string) *os.File {
		f, err := os.Create(ts.MkAbs(args[0] + ext))
		ts.Check(err)
		return f
	}
	stdout, stderr := open(".out"), open(".err")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	background(ts, args[0], cmd)
	ts.Check(errors.Join(stdout.Close(), stderr.Close())) // the process has its own
	if args[1] == "watching" {
		args[1] = "^teambridge: watching$" // and not a warning about watching files
	}
	seen(ts, args[1], args[0]+".out", args[0]+".err")
}

// unread runs teambridge in the background, with a standard output or standard error without a reader, or both
// in one pipe; the other goes to NAME.out or NAME.err. With -full, that pipe is full from the start. With -in,
// standard input is a file:
//
//	unread [-full] [-in FILE] stdout|stderr|both NAME ARGUMENT...
func unread(ts *testscript.TestScript, neg bool, args []string) {
	full, in := false, ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch {
		case args[0] == "-full":
			full = true
		case args[0] == "-in" && len(args) > 1:
			in, args = ts.MkAbs(args[1]), args[1:]
		default:
			ts.Fatalf("unread: bad flag %s", args[0])
		}
		args = args[1:]
	}
	if neg || len(args) < 3 || !slices.Contains([]string{"stdout", "stderr", "both"}, args[0]) {
		ts.Fatalf("usage: unread [-full] [-in FILE] stdout|stderr|both NAME ARGUMENT...")
	}
	which, name := args[0], args[1]
	cmd := teambridge(ts, context.Background(), args[2:])
	if in != "" {
		f, err := os.Open(in)
		ts.Check(err)
		defer f.Close()
		cmd.Stdin = f
	}
	r, w, err := os.Pipe()
	ts.Check(err)
	defer w.Close() // the process has its own
	ts.Defer(func() { r.Close() })
	if full {
		for n := 0; n == 0; { // with nothing written, the deadline has passed before the first try
			ts.Check(w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)))
			n, err = w.Write(make([]byte, 1<<20))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			ts.Check(err)
		}
	}
	cmd.Stdout, cmd.Stderr = w, w
	if which != "both" {
		ext, other := ".err", &cmd.Stderr
		if which == "stderr" {
			ext, other = ".out", &cmd.Stdout
		}
		f, err := os.Create(ts.MkAbs(name + ext))
		ts.Check(err)
		defer f.Close()
		*other = f
	}
	background(ts, name, cmd)
	ts.Value(outputs{}).(map[string]*os.File)[name] = r
}

// outputs is the key of the unread outputs, by name.
type outputs struct{}

// collect reads the output of a process that unread started to its end, into NAME.out:
//
//	collect NAME
func collect(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: collect NAME")
	}
	r := ts.Value(outputs{}).(map[string]*os.File)[args[0]]
	if r == nil {
		ts.Fatalf("nobody leaves the output of %s unread", args[0])
	}
	ts.Check(r.SetReadDeadline(time.Now().Add(patience)))
	data, err := io.ReadAll(r)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".out"), data, 0o600))
}

// background starts a process that is killed if it outlives the script.
func background(ts *testscript.TestScript, name string, cmd *exec.Cmd) {
	ts.Check(cmd.Start())
	ts.Value(started{}).(map[string]*exec.Cmd)[name] = cmd
	ts.Defer(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // if the script failed
			_ = cmd.Wait()
		}
	})
}

// until waits until a file matches PATTERN:
//
//	until FILE PATTERN
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILE PATTERN")
	}
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) == 0 {
		files = args[:1] // it comes later
	}
	seen(ts, args[1], files...)
}

// vanishes waits until a file or directory is gone:
//
//	vanishes PATH
func vanishes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: vanishes PATH")
	}
	wait(ts, func() bool {
		_, err := os.Lstat(ts.MkAbs(args[0]))
		return errors.Is(err, fs.ErrNotExist)
	}, func() { ts.Fatalf("%s is still there", args[0]) })
}

func seen(ts *testscript.TestScript, pattern string, files ...string) {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	looked := map[string]fs.FileInfo{}
	wait(ts, func() bool {
		for _, f := range files {
			// A file without a change is not read again, unless it had just been changed: a clock has ticks.
			info, err := os.Stat(ts.MkAbs(f))
			if was := looked[f]; err != nil || was != nil && was.Size() == info.Size() && was.ModTime().Equal(info.ModTime()) && os.SameFile(was, info) {
				continue
			}
			if delete(looked, f); time.Since(info.ModTime()) > 100*time.Millisecond {
				looked[f] = info
			}
			if data, err := os.ReadFile(ts.MkAbs(f)); err == nil && re.Match(data) {
				return true
			}
		}
		return false
	}, func() {
		for _, f := range files {
			data, err := os.ReadFile(ts.MkAbs(f))
			ts.Logf("%s: %v\n%s", f, err, data)
		}
		ts.Fatalf("nothing matches %s", pattern)
	})
}

// wait waits until holds returns true, and calls fail after a long time.
func wait(ts *testscript.TestScript, holds func() bool, fail func()) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-over:
			fail()
		}
	}
}

// signal sends a signal to a process: TERM, HUP, or KILL, which also waits for its end:
//
//	signal NAME TERM|HUP|KILL
func signalling(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME TERM|HUP|KILL")
	}
	cmd := ts.Value(started{}).(map[string]*exec.Cmd)[args[0]]
	switch {
	case cmd == nil:
		ts.Fatalf("nothing was started as %s", args[0])
	case args[1] == "TERM":
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	case args[1] == "HUP":
		ts.Check(cmd.Process.Signal(syscall.SIGHUP))
	case args[1] == "KILL":
		ts.Check(cmd.Process.Kill())
		_ = cmd.Wait() // the error is that it was killed
	default:
		ts.Fatalf("no such signal: %s", args[1])
	}
}

// id sets a variable to the id of the relay that was added for a member, or else was run:
//
//	id VARIABLE MEMBER@TEAM
func relayID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: id VARIABLE MEMBER@TEAM")
	}
	ctx := context.Background()
	l, err := ledger.Open(ctx, filepath.Join(ts.Getenv("TEAMBRIDGE_STATE"), "ledger.db"))
	ts.Check(err)
	all, err := l.Relays.List(ctx, "")
	ts.Check(err)
	run, err := l.Sessions.List(ctx, "")
	ts.Check(errors.Join(err, l.Close()))
	for _, r := range all {
		if r.Member+"@"+r.Team == args[1] {
			ts.Setenv(args[0], r.ID)
			return
		}
	}
	for _, s := range run {
		if s.Inbox+"@"+s.Team == args[1] {
			ts.Setenv(args[0], relay.RunID(s.InboxKey))
			return
		}
	}
	ts.Fatalf("no relay for %s", args[1])
}

// killagent kills the simulated agent that was started last, as kill -9 does, and waits for its end:
//
//	killagent
func killagent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: killagent")
	}
	entries, err := simchild.Log(ts.Getenv("CLAUDE_CONFIG_DIR"))
	ts.Check(err)
	for _, e := range slices.Backward(entries) {
		if e.Kind != "start" {
			continue
		}
		p := process.Identify(e.PID)
		env, err := os.ReadFile("/proc/" + strconv.Itoa(e.PID) + "/environ")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || len(env) > 0 && !strings.Contains(string(env), "CLAUDE_CONFIG_DIR="+ts.Getenv("CLAUDE_CONFIG_DIR")) {
			return // it has ended, and its id may be that of another process
		}
		// A process that is ending has no environment, but still exists for some time.
		if len(env) > 0 {
			agent, err := os.FindProcess(e.PID)
			ts.Check(err)
			if err := agent.Kill(); !errors.Is(err, os.ErrProcessDone) {
				ts.Check(err)
			}
		}
		wait(ts, func() bool { alive, err := p.Alive(); return !alive && err == nil }, func() { ts.Fatalf("process %d does not end", e.PID) })
		return
	}
}

// end waits until a process has ended with a status; for 130 it interrupts it:
//
//	end NAME STATUS
func end(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: end NAME STATUS")
	}
	cmd := ts.Value(started{}).(map[string]*exec.Cmd)[args[0]]
	if cmd == nil {
		ts.Fatalf("nothing was started as %s", args[0])
	}
	if args[1] == strconv.Itoa(api.ExitInterrupted) {
		ts.Check(cmd.Process.Signal(syscall.SIGINT))
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	if said, _ := os.ReadFile(ts.MkAbs(args[0] + ".err")); len(said) > 0 && strconv.Itoa(cmd.ProcessState.ExitCode()) != args[1] {
		ts.Logf("%s printed on stderr:\n%s", args[0], said)
	}
	wantStatus(ts, args[1], err)
}

// answer plays a member until the script ends. Each turn takes DURATION, and ends with TEXT, as a message to a member
// or as its result:
//
//	answer [-to NAME] [-lasts DURATION] TEAM MEMBER TEXT
func answering(ts *testscript.TestScript, neg bool, args []string) {
	opts := simagent.Options{Poll: 5 * time.Millisecond}
	to, lasts := "", time.Duration(0)
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		var err error
		switch value := args[1]; args[0] {
		case "-to":
			to = value
		case "-lasts":
			lasts, err = time.ParseDuration(value)
		}
		ts.Check(err)
		args = args[2:]
	}
	if neg || len(args) != 3 {
		ts.Fatalf("usage: answer [-to NAME] [-lasts DURATION] TEAM MEMBER TEXT")
	}
	opts.Dir, opts.Name = filepath.Join(ts.Getenv("CLAUDE_CONFIG_DIR"), "teams", args[0]), args[1]
	opts.Handle = func(_ context.Context, turn simagent.Turn) simagent.Reply {
		text := args[2] + " to"
		for _, r := range turn.Rows {
			text += " " + r.Text
		}
		reply := simagent.Reply{Text: text, Lasts: lasts}
		if to != "" {
			reply.Text, reply.Messages = "", []simagent.Message{{To: to, Text: text}}
		}
		return reply
	}
	opts.Report = func(error) {} // it fails when its team ends
	agent, err := simagent.New(opts)
	ts.Check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	ts.Defer(func() {
		stop()
		<-ended
	})
}

// say lets a member send a message to another one, or ask it to shut down:
//
//	say TEAM FROM TO TEXT
//	say TEAM FROM TO -shutdown
func say(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: say TEAM FROM TO TEXT")
	}
	agent, err := simagent.New(simagent.Options{
		Dir: filepath.Join(ts.Getenv("CLAUDE_CONFIG_DIR"), "teams", args[0]), Name: args[1],
	})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if args[3] == "-shutdown" {
		_, err = agent.RequestShutdown(ctx, args[2], "bye")
	} else {
		_, err = agent.Send(ctx, simagent.Message{To: args[2], Text: args[3]})
	}
	ts.Check(err)
}

// clobber simulates a tool that writes back old content. COUNT times, it waits until an inbox has a message
// after the first one, and overwrites the inbox with the first one alone. It takes the lock for that, so it
// acts between other writers and not during a write. It runs in the background.
//
//	clobber TEAM MEMBER COUNT
func clobber(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: clobber TEAM MEMBER COUNT")
	}
	path := filepath.Join(ts.Getenv("CLAUDE_CONFIG_DIR"), "teams", args[0], "inboxes", args[1]+".json")
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	ctx, stop := context.WithTimeout(context.Background(), patience)
	ended := make(chan error, 1)
	go func() { ended <- overwrite(ctx, path, n) }()
	ts.Defer(func() {
		stop()
		ts.Check(<-ended)
	})
}

func overwrite(ctx context.Context, path string, n int) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n > 0 && ctx.Err() == nil {
		<-tick.C
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rows, err := inbox.Parse(data)
		if err != nil || len(rows) < 2 {
			continue
		}
		if os.Mkdir(path+".lock", 0o700) != nil {
			continue
		}
		if data, err = json.Marshal([]json.RawMessage{rows[0].Raw}); err != nil {
			return err
		}
		if err := os.WriteFile(path+".tmp.0123abcd", data, 0o600); err != nil {
			return err
		}
		if err := errors.Join(os.Rename(path+".tmp.0123abcd", path), os.Remove(path+".lock")); err != nil {
			return err
		}
		n--
	}
	return nil
}

func open(ts *testscript.TestScript, file string) *sqlite.Conn {
	db, err := sqlite.OpenConn(ts.MkAbs(file), sqlite.OpenReadWrite)
	ts.Check(err)
	db.SetBusyTimeout(time.Minute)
	return db
}

// sql runs a statement in a database:
//
//	sql FILE STATEMENT
func execute(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql FILE STATEMENT")
	}
	db := open(ts, args[0])
	ts.Check(errors.Join(sqlitex.ExecuteScript(db, args[1], nil), db.Close()))
}

// hold locks a database until the script ends:
//
//	hold FILE
func hold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hold FILE")
	}
	db := open(ts, args[0])
	ts.Check(sqlitex.ExecuteTransient(db, "PRAGMA journal_mode=DELETE", nil))
	ts.Check(sqlitex.ExecuteTransient(db, "BEGIN EXCLUSIVE", nil))
	ts.Defer(func() { ts.Check(db.Close()) })
}
