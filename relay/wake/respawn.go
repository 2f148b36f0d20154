package wake

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"teambridge/teams/atomicfile"
)

// respawnFile is in the state directory if messages may start sessions again.
const respawnFile = "respawn"

// AllowRespawn says whether messages start sessions of Claude Code again that were stopped in the background. By default they
// wait until a person does.
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

// MayRespawn reports what [AllowRespawn] said last.
func MayRespawn(state string) bool {
	_, err := os.Stat(filepath.Join(state, respawnFile))
	return err == nil
}
