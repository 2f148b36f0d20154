package main

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"teambridge/relay/relaytest/killtest"
	"teambridge/teams/errtest"
)

// A run is killed at a random instant while it creates its team and starts its agent, and run again. The second run
// creates the team or acquires it, and removes it in the end. The instants of 6 rounds, or of
// $TEAMBRIDGE_CREATE_ROUNDS, are spread over the whole run.
func TestRunKilledWhileItMakesItsTeam(t *testing.T) {
	t.Parallel()
	rounds := killtest.Rounds(t, "TEAMBRIDGE_CREATE_ROUNDS", 6)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	errtest.Must(t, err)
	claudeDir := filepath.Join(dir, "claude")
	errtest.Must(t, os.Mkdir(claudeDir, 0o700))
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	run := func(name string, before time.Duration) (said string, err error) {
		t.Helper()
		cmd := exec.Command("teambridge", "run", "--create-team", "--team", name, "--exit-on-eof", "--output", "events", "--", "agent")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "CLAUDE_CONFIG_DIR="+claudeDir, "TEAMBRIDGE_STATE="+filepath.Join(dir, "state"),
			"TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m", "GORACE=atexit_sleep_ms=0")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if before == 0 {
			cmd.WaitDelay = patience
			err := cmd.Run()
			return out.String(), err
		}
		stdin, err := cmd.StdinPipe() // so that the run does not end by itself
		errtest.Must(t, err)
		defer stdin.Close()
		cmd.WaitDelay = 5 * time.Second // its agent may keep the output open
		errtest.Must(t, cmd.Start())
		<-time.After(before)
		errtest.Must(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		return out.String(), nil
	}
	began := time.Now()
	if said, err := run("measured", 0); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	whole := time.Since(began)
	left := 0
	for i := range rounds {
		name := "t" + strconv.Itoa(i)
		if _, err := run(name, 1+time.Duration(float64(whole)*(float64(i)+rnd.Float64())/float64(rounds))); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(claudeDir, "teams", name)); err == nil {
			left++
			if _, err := os.Stat(filepath.Join(claudeDir, "teams", name, "config.json")); err != nil {
				t.Errorf("%s was left half-made: %v", name, err)
			}
		}
		said, err := run(name, 0)
		if err != nil {
			t.Fatalf("run again: %v\n%s", err, said)
		}
		if _, err := os.Stat(filepath.Join(claudeDir, "teams", name)); err == nil {
			var inside []string
			_ = filepath.WalkDir(filepath.Join(claudeDir, "teams", name), func(path string, _ fs.DirEntry, _ error) error {
				inside = append(inside, path)
				return nil
			})
			t.Errorf("%s is still there, with %q; the run said:\n%s", name, inside, said)
		}
	}
	t.Logf("%d of %d left their team, all were taken back", left, rounds)
}
