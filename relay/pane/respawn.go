package pane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"teambridge/relay/wake"
	"teambridge/teams"
)

// respawnWithin is how long Claude Code may take to start a session again. It took 3 s (2.1.257, 2.1.332).
const respawnWithin = time.Minute

// stoppedJob returns the key of a session that was stopped in the background and may be started by a message, or "".
func stoppedJob(of Pane, state string) string {
	if of.Profile != Session || !wake.MayRespawn(state) {
		return ""
	}
	_, job, in := teams.Moved(of.Root, of.Ref.ID)
	if in.PID != 0 {
		return ""
	}
	return job
}

// respawn makes Claude Code start a session again. The session begins no turn by itself.
func respawn(ctx context.Context, root, job string) error {
	ctx, cancel := context.WithTimeout(ctx, respawnWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "claude", "respawn", job)
	cmd.WaitDelay = time.Second              // a process that it starts may keep the output open
	usual, _ := teams.Find("", os.LookupEnv) // on an error, CLAUDE_CONFIG_DIR is set
	if usual, err := filepath.EvalSymlinks(usual); err != nil || usual != root {
		cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+root)
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	if said := strings.TrimSpace(string(bytes.ToValidUTF8(out, nil))); err != nil && said != "" {
		err = fmt.Errorf("%w: %.200s", err, said)
	}
	return err
}
