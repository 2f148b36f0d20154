package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// fakeSSH simulates ssh. Its other machine is the directory $TEST_SSH_THERE of this machine, with the directories
// claude, state and home. It writes its options and the machine to ssh.log there. $TEST_SSH adds:
//
//	refused    fails as ssh does
//	noise      prints something first, as a start file of a shell may do
//	cut FILE TEXT  ends as soon as FILE there has TEXT: nothing that the machine says later comes here
//	mute TEXT  ends when something comes from the machine after it was told TEXT
//	held FILE  prints nothing until FILE there exists
//
// With an empty $TEST_SSH, plainSSH does the same, on systems with a shell.
func fakeSSH() {
	there := os.Getenv("TEST_SSH_THERE")
	end := slices.Index(os.Args, "--")
	if there == "" || end < 0 || len(os.Args) != end+3 {
		fmt.Fprintf(os.Stderr, "ssh: not as expected: %q in %q\n", os.Args, there)
		os.Exit(255)
	}
	log, err := os.OpenFile(filepath.Join(there, "ssh.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(log, strings.Join(os.Args[1:end+2], " "))
	}
	if err != nil {
		panic(err)
	}
	mode := strings.Fields(os.Getenv("TEST_SSH"))
	if len(mode) > 0 && mode[0] == "refused" {
		fmt.Fprintf(os.Stderr, "ssh: connect to host %s port 22: Connection refused\n", os.Args[end+1])
		os.Exit(255)
	}
	cmd := exec.Command("sh", "-c", os.Args[end+2])
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TEAMBRIDGE_") })
	cmd.Env = append(cmd.Env, "CLAUDE_CONFIG_DIR="+filepath.Join(there, "claude"), "TEAMBRIDGE_STATE="+filepath.Join(there, "state"), "HOME="+filepath.Join(there, "home"))
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = there, os.Stdin, os.Stdout, os.Stderr
	if len(mode) > 0 {
		switch mode[0] {
		case "noise":
			fmt.Println("Welcome to box.")
		case "cut":
			c := &cutting{filepath.Join(there, mode[1]), mode[2]}
			cmd.Stdout = c
			go func() { // the machine may write nothing more for a long time
				for range time.Tick(5 * time.Millisecond) {
					c.cut()
				}
			}()
		case "mute":
			told := &told{text: mode[1]}
			cmd.Stdin, cmd.Stdout = io.TeeReader(os.Stdin, told), told.mute()
		case "held":
			for {
				if _, err := os.Stat(filepath.Join(there, mode[1])); err == nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	} else if err != nil {
		panic(err)
	}
	os.Exit(0)
}

// cutting is an output that is cut when a file has a text.
type cutting struct{ file, text string }

func (c *cutting) Write(b []byte) (int, error) {
	c.cut()
	return os.Stdout.Write(b)
}

func (c *cutting) cut() {
	if got, err := os.ReadFile(c.file); err == nil && bytes.Contains(got, []byte(c.text)) {
		os.Exit(255)
	}
}

// told wraps an input, and cuts the output once a given text has been written to it.
type told struct {
	text string
	mu   sync.Mutex
	got  []byte
}

func (t *told) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.got = append(t.got, b...)
	return len(b), nil
}

func (t *told) mute() io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if bytes.Contains(t.got, []byte(t.text)) {
			os.Exit(255)
		}
		return os.Stdout.Write(b)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// plainSSH does the same as fakeSSH if $TEST_SSH is empty. A shell starts in a tenth of the time.
const plainSSH = `#!/bin/sh
[ -z "$TEST_SSH" ] && [ -n "$TEST_SSH_THERE" ] || exec fakessh "$@"
options=
while [ "$1" != -- ]; do
	options="$options$1 "
	shift
done
[ $# -eq 3 ] && cd "$TEST_SSH_THERE" && echo "$options-- $2" >>ssh.log || exit 255
unset TEAMBRIDGE_HOST TEAMBRIDGE_REMOTE TEAMBRIDGE_TEAM
CLAUDE_CONFIG_DIR=$PWD/claude TEAMBRIDGE_STATE=$PWD/state HOME=$PWD/home exec sh -c "$3"
`
