package claude_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

	"teambridge/relay/claude"
	"teambridge/relay/process"
	"teambridge/relay/relaytest/killtest"
)

// A bridge is a process that starts a command as a plain process, and copies its stdin to that.
type bridge struct {
	*killtest.Process
	stdin io.Writer
	child process.Predecessor // of which the bridge says who it is
}

func startBridge(t *testing.T, dir string, env []string, argv ...any) *bridge {
	t.Helper()
	b := &bridge{}
	cmd := killtest.Command(t.Context(), "bridge", argv...)
	cmd.Dir, cmd.Env = dir, append(cmd.Env, env...)
	var err error
	if b.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.child.End(context.WithoutCancel(t.Context()), 0) })
	b.Process = killtest.Start(t, cmd)
	if err := json.Unmarshal([]byte(b.Line()), &b.child); err != nil {
		t.Fatal(err)
	}
	return b
}

// runBridge is the bridge itself.
func runBridge(command []string) error {
	p, err := claude.Start(context.Background(), claude.Options{Command: command, Plain: true})
	if err != nil {
		return err
	}
	data, err := json.Marshal(p.ID())
	if err != nil {
		return err
	}
	fmt.Println(string(data))
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return p.Wait(context.Background())
		}
		f, err := claude.ParseFrame(line[:len(line)-1])
		if err != nil {
			return err
		}
		if err := p.Send(context.Background(), f.Line); err != nil {
			return err
		}
	}
}
