package wake

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"teambridge/teams/atomicfile"
)

// respawnFile is in the state directory if messages may restart sessions.
const respawnFile = "respawn"

// AllowRespawn sets whether messages restart sessions of Claude Code that were stopped in the background. By default,
// messages wait until a person restarts the session.
func AllowRespawn(state string, allowed bool) error {
	path := filepath.Join(state, respawnFile)
	if allowed {
		return errors.Join(os.MkdirAll(state, 0o700), atomicfile.Write(path, nil))
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MayRespawn reports the last setting of [AllowRespawn].
func MayRespawn(state string) bool {
	_, err := os.Stat(filepath.Join(state, respawnFile))
	return err == nil
}
