package claude_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"teambridge/relay/claude"
	"teambridge/relay/process"
)

// bridgeVariable makes the test binary a bridge: it starts the command of its arguments as a plain process, says who
// that is, copies its stdin to it, and waits to be killed.
const bridgeVariable = "TEAMBRIDGE_TEST_BRIDGE"

type bridge struct {
	cmd   *exec.Cmd
	stdin io.Writer
	child process.Predecessor
}

func startBridge(t *testing.T, dir string, env, argv []string) *bridge {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bridge{cmd: exec.Command(program, argv...)}
	b.cmd.Dir, b.cmd.Env, b.cmd.Stderr = dir, append(env, bridgeVariable+"=1"), os.Stderr
	if b.stdin, err = b.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.cmd.ProcessState == nil {
			_ = b.cmd.Process.Kill()
			_ = b.cmd.Wait()
		}
		_ = b.child.End(t.Context(), 0)
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &b.child); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bridge) kill(t *testing.T) {
	t.Helper()
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = b.cmd.Wait()
}

// runBridge is the bridge itself.
func runBridge() error {
	p, err := claude.Start(context.Background(), claude.Options{Command: os.Args[1:], Plain: true})
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
