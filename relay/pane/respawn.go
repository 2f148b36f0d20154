package pane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"teambridge/relay/wake"
	"teambridge/teams"
)

// respawnWithin is how long Claude Code may take to start a session again. It took 3 s (2.1.257, 2.1.332).
const respawnWithin = time.Minute

// stoppedJob returns the key of a session that was stopped in the background, if a message may start it again; else "".
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

// respawn has Claude Code start a session again. Nothing runs in it by itself.
func respawn(ctx context.Context, root, job string) error {
	ctx, cancel := context.WithTimeout(ctx, respawnWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, "claude", "respawn", job)
	if usual, err := teams.Find("", os.LookupEnv); err != nil || !same(usual, root) {
		cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+root)
	}
	out, err := cmd.CombinedOutput()
	if said := strings.TrimSpace(string(bytes.ToValidUTF8(out, nil))); err != nil && said != "" {
		err = fmt.Errorf("%w: %.200s", err, said)
	}
	return err
}

// same reports whether two paths are those of one directory.
func same(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}
