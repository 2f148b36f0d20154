package standin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
)

// orphans lists what the process below started, as one line of JSON on its stdout.
type orphans struct {
	Pids []int
	Dirs []string // its temporary folders, which it can no longer remove
}

const asOrphaned = "CLAUDETEST_ORPHANED"

// orphaned is the process that TestDeathOfTheTest kills.
func orphaned(t *testing.T) {
	h := standin.NewHome(t, nil)
	terminal := standin.StartTerminal(t, standin.Newest(t), h)
	headless := standin.StartHeadless(t, standin.Oldest(t), h)
	if _, err := headless.Send("SLEEP:600"); err != nil {
		t.Fatal(err)
	}
	must(t, h.API.WaitCount(t.Context(), standin.Main, "SLEEP:600", 1))
	_, server := standin.StartOpenCode(t, h)
	line, err := json.Marshal(orphans{
		Pids: []int{terminal.Pid(), headless.Pid(), server},
		Dirs: []string{h.Dir, standin.SocketDir(terminal)},
	})
	must(t, err)
	fmt.Printf("\n%s\n", line)
	<-t.Context().Done()
}

// TestDeathOfTheTest: everything that a killed test process had started ends.
func TestDeathOfTheTest(t *testing.T) {
	if os.Getenv(asOrphaned) == "1" {
		orphaned(t)
		return
	}
	t.Parallel()
	standin.Require(t, standin.Oldest(t))
	standin.Require(t, standin.Newest(t))
	standin.RequireTmux(t)
	standin.RequireOpenCode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDeathOfTheTest$", "-test.v")
	cmd.Env = append(os.Environ(), asOrphaned+"=1")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var left orphans
	var printed []byte
	for lines := bufio.NewScanner(out); len(left.Pids) == 0 && lines.Scan(); {
		printed = append(append(printed, lines.Bytes()...), '\n')
		_ = json.Unmarshal(lines.Bytes(), &left)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed, as it should be
	for _, dir := range left.Dirs {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	if len(left.Pids) != 3 {
		t.Fatalf("the process did not start all programs: %s", printed)
	}
	for _, pid := range left.Pids {
		if err := standin.Poll(within(t), func() (bool, error) { return !standin.Alive(pid), nil }); err != nil {
			t.Errorf("process %d outlives the test: %v", pid, err)
		}
	}
}
