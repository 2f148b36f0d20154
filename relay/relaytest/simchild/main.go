package simchild

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/relaytest/claudedir"
)

// Program returns the path of the simulated program, which is also that of simacp: $TEAMBRIDGE_SIMULATED, or else
// this program. A program with nothing else in it starts in half the time, and in a tenth of the time of one with the
// race detector.
func Program() string { return cmp.Or(os.Getenv("TEAMBRIDGE_SIMULATED"), os.Args[0]) }

// Main runs the simulated headless program, and then ends the process, if the environment has a script. Otherwise it
// returns at once. It belongs at the beginning of TestMain.
func Main() {
	script, ok := given()
	if !ok {
		return
	}
	if slices.Contains(os.Args, "--version") {
		fmt.Println(script.Version, "(simulated)")
		os.Exit(0)
	}
	// The real ones go on, and finish their turn, after the reader of their output has gone.
	signal.Ignore(syscall.SIGPIPE)
	if script.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	os.Exit(runHeadless(script, os.Args[1:]))
}

// MainTerminal runs the simulated program at a terminal, and then ends the process, if the environment has a script,
// the arguments are not for a headless one, and stdin is a terminal. Otherwise it returns. It belongs before Main.
func MainTerminal() {
	script, ok := given()
	if !ok || slices.ContainsFunc(os.Args[1:], func(arg string) bool { return arg == "-p" || arg == "--print" || arg == "--version" }) {
		return
	}
	if in, err := os.Stdin.Stat(); err != nil || in.Mode()&os.ModeCharDevice == 0 {
		return // a program that speaks stream-json without a flag
	}
	os.Exit(runTerminal(script, os.Args[1:]))
}

// program is the common part of both faces. Its main goroutine owns it.
type program struct {
	script Script
	memory *memory
	mode   string // of permissions
	// wait takes one input. It returns true when the timer comes first, or if the turn was interrupted.
	wait func(timer <-chan time.Time) (timeout, interrupted bool)
}

// stopped is the exit code of a program that must end now; it is thrown as a panic and caught in run.
type stopped int

// open reads the flags, passes those that only one face obeys to other, and opens the conversation that they name, or
// another one.
func (p *program) open(args []string, other func(name, value string)) (err error) {
	session, resume := "", false
	p.mode = "default"
	for i := 0; i < len(args); i++ {
		name, value, inside := strings.Cut(args[i], "=")
		if !inside && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "--session-id":
			session = value
		case "--resume", "-r":
			session, resume = value, true
		case "--permission-mode":
			p.mode = value
		default:
			other(name, value)
		}
	}
	if session == "" {
		session = uuid.NewString()
	}
	found := false
	if p.memory, found, err = p.remember(session); err != nil || p.script.Mute {
		return err
	}
	if resume && p.memory.last == "" {
		return errors.New("No conversation found with session ID: " + session)
	}
	if !resume && found {
		return errors.New("Error: Session ID " + session + " is already in use.")
	}
	return nil
}

// run runs a face between two entries of the log, and returns the exit code.
func (p *program) run(face func() int) (code int) {
	p.log(Entry{Kind: "start"})
	defer func() {
		switch stop := recover().(type) {
		case nil:
		case stopped:
			code = int(stop)
		default:
			panic(stop)
		}
		p.log(Entry{Kind: "exit"})
	}()
	return face()
}

func (p *program) log(e Entry) {
	e.At, e.PID, e.Session = time.Now().UTC(), os.Getpid(), p.memory.session
	if err := claudedir.Append(filepath.Join(p.script.State, logName), e); err != nil {
		fmt.Fprintln(os.Stderr, "simchild:", err)
	}
}

// check ends the program after an error of the files below State.
func (p *program) check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "simchild:", err)
		panic(stopped(2))
	}
}

// store appends a record to the conversation.
func (p *program) store(kind, id string, fields object) {
	if !p.script.Mute {
		p.check(p.memory.store(kind, id, fields))
	}
}

var (
	sleepLine = instruction(`SLEEP:([0-9.]+)`)
	waitLine  = instruction(`WAIT:(\w+)`)
	askLine   = instruction(`ASK:(\w+)[ \t]*(\{.*\})?`)
	toolLine  = instruction(`TOOL:([0-9.]+)`)
	callLine  = instruction(`CALL:(\w+)[ \t]*(\{.*\})?`)
	asksLine  = instruction(`ASKS:([0-9]+)`)
	leaveLine = instruction(`LEAVE\b`)
	useLine   = instruction(`USE:(\w+)[ \t]*(\{.*\})?`)
	failLine  = instruction(`FAIL\b`)
	spawnLine = instruction(`SPAWN:(\w+)`)
)

// instruction finds a line. It is compiled at the first use, so that it does not delay each start of a test program
// that simulates other programs.
func instruction(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^[ \t]*` + pattern) })
}

// pause waits for the time in the text, and takes input meanwhile. It reports whether the turn was interrupted.
func (p *program) pause(line *regexp.Regexp, text string) bool {
	m := line.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	seconds, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return false
	}
	timer := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer timer.Stop()
	for {
		if timeout, interrupted := p.wait(timer.C); timeout || interrupted {
			return interrupted
		}
	}
}

// await waits until the file that the text names is in the State, taking input meanwhile. It reports whether the turn
// was interrupted.
func (p *program) await(text string) bool {
	m := waitLine().FindStringSubmatch(text)
	if m == nil {
		return false
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !p.exists(m[1]) {
		if _, interrupted := p.wait(tick.C); interrupted {
			return true
		}
	}
	return false
}

// exists reports whether a file of that name is in the State.
func (p *program) exists(name string) bool {
	_, err := os.Stat(filepath.Join(p.script.State, name))
	return err == nil
}

func saidByUser(content any) object { return object{"role": "user", "content": content} }

func saidByModel(stop any, content ...object) object {
	return object{"role": "assistant", "stop_reason": stop, "content": content}
}

func textBlock(text string) object { return object{"type": "text", "text": text} }

// interruption is the record of an interrupted turn in the conversation.
const interruption = "[Request interrupted by user]"
