package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/relay/relaytest/killtest"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

func TestMain(m *testing.M) { killtest.Main(m, killtest.Roles{"sender": killtest.Job(send)}) }

// job is the work of a sender process: it sends the messages Prefix-0 to Prefix-(Count-1), whose texts are their ids,
// and prints "sent ID", or "failed ID: CLASS: ERROR", for each. Its points are the steps of the lock and the calls of
// the Memory, such as "intend before".
type job struct {
	Root, State, Notes string
	Prefix             string
	Count              int
	Break              bool // the sender loses its lock before the fence, so that the message is not written
}

// classes has names for the errors that the tests distinguish.
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

func send(j job) error {
	root, err := teams.Open(j.Root)
	if err != nil {
		return err
	}
	team, err := root.Team("demo")
	if err != nil {
		return err
	}
	locker := lockedfile.New(lockedfile.Options{Dir: j.State, Wait: time.Minute, Hold: time.Minute, Before: func(s lockedfile.Step) {
		killtest.At(string(s))
		if s == lockedfile.StepFence && j.Break {
			os.Remove(team.Path() + "/inboxes/alice.json.lock")
		}
	}})
	b, err := inbox.Open(team, "alice", locker)
	if err != nil {
		return err
	}
	memory := &notebook{dir: j.Notes, around: func(call, when string) { killtest.At(call + " " + when) }}
	for i := range j.Count {
		m := numbered(j.Prefix, i)
		if _, err := b.Append(context.Background(), m, inbox.AppendOptions{Memory: memory}); err != nil {
			fmt.Printf("failed %s: %s: %v\n", m.ID, class(err), err)
			continue
		}
		fmt.Println("sent", m.ID)
	}
	return nil
}

// sender returns the command of a process that does a job in this place.
func (p *place) sender(j job) *exec.Cmd {
	j.Root, j.State, j.Notes = p.root, p.state, p.notes
	return killtest.Command(p.t.Context(), "sender", j)
}

// texts returns the texts of n messages with a prefix.
func texts(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, numbered(prefix, i).Text)
	}
	return list
}
