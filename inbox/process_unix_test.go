//go:build unix

package inbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// The test binary runs itself again as the sender that is killed, stopped or
// one of many. This variable holds its job, as JSON.
const envJob = "INBOX_TEST_JOB"

// job is what a sender process is to do: send the messages Prefix-First to
// Prefix-(First+Count-1), under these as ids, and print for each "sent ID", or
// "failed ID: CLASS: ERROR".
type job struct {
	Root, State, Notes string
	Prefix             string
	First, Count       int

	Step   lockedfile.Step // before this step of the first message ...
	Call   string          // ... or at this call of the Memory ("intend before") ...
	Signal syscall.Signal  // ... it sends itself this signal
	Break  bool            // it loses its lock before the fence, so that the message is not written
}

func TestMain(m *testing.M) {
	if spec := os.Getenv(envJob); spec != "" {
		if err := work(spec); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// classes name the errors that the tests tell apart.
var classes = []struct {
	name string
	err  error
}{
	{"compromised", lockedfile.ErrCompromised}, {"locked", lockedfile.ErrLocked}, {"unknown", inbox.ErrUnknown},
	{"gone", teams.ErrTeamGone}, {"permission", fs.ErrPermission}, {"clobbered", lockedfile.ErrClobbered}, {"held", lockedfile.ErrHeldTooLong},
}

func class(err error) string {
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "other"
}

func work(spec string) error {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		return err
	}
	root, err := teams.Open(j.Root)
	if err != nil {
		return err
	}
	team, err := root.Team("demo")
	if err != nil {
		return err
	}
	signal := func() {
		if err := syscall.Kill(os.Getpid(), j.Signal); err != nil {
			fmt.Println("error", err)
		}
		// The signal may go to another thread, and this one go on for a moment.
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	first := true
	locker := lockedfile.New(lockedfile.Options{Dir: j.State, Wait: time.Minute, Hold: time.Minute, Before: func(s lockedfile.Step) {
		if s == j.Step && first {
			first = false
			signal()
		}
		if s == lockedfile.StepFence && j.Break {
			os.Remove(team.Path() + "/inboxes/alice.json.lock")
		}
	}})
	b, err := inbox.Open(team, "alice", locker)
	if err != nil {
		return err
	}
	memory := &notebook{dir: j.Notes, around: func(call, when string) {
		if call+" "+when == j.Call {
			signal()
		}
	}}
	for i := j.First; i < j.First+j.Count; i++ {
		m := numbered(j.Prefix, i)
		if _, err := b.Append(context.Background(), m, inbox.AppendOptions{Memory: memory}); err != nil {
			fmt.Printf("failed %s: %s: %v\n", m.ID, class(err), err)
			continue
		}
		fmt.Println("sent", m.ID)
	}
	return nil
}

// sender returns the process for a job in this place.
func (p *place) sender(j job) *exec.Cmd {
	p.t.Helper()
	j.Root, j.State, j.Notes = p.root, p.state, p.notes
	spec, err := json.Marshal(j)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envJob+"="+string(spec))
	return cmd
}

// lines gives what a process printed, line by line, without what a kill cut.
func lines(out string) []string {
	var all []string
	for sc := bufio.NewScanner(strings.NewReader(out[:strings.LastIndexByte(out, '\n')+1])); sc.Scan(); {
		all = append(all, sc.Text())
	}
	return all
}

// wantKilled fails unless err says that a process ended by SIGKILL.
func wantKilled(t *testing.T, what string, err error) {
	t.Helper()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%s: the sender ended with %v, want a kill", what, err)
	}
}
