package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Level is the version of the API. New fields and routes do not raise it.
const Level = 1

// Card is the file in the state directory by which clients find a running service.
type Card struct {
	PID     int      `json:"pid"`
	Listen  []string `json:"listen"`  // unix:PATH, and HOST:PORT for TCP
	API     int      `json:"api"`     // [Level] of the service
	Version string   `json:"version"` // of the service
}

// StateDir returns the directory of teambridge's own files, by the environment: $TEAMBRIDGE_STATE, else
// $XDG_STATE_HOME/teambridge, else ~/.local/state/teambridge. It need not exist.
func StateDir(lookup func(string) (string, bool)) (string, error) {
	if dir, _ := lookup("TEAMBRIDGE_STATE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir, _ := lookup("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "teambridge"), nil
	}
	home, err := HomeDir(lookup)
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w; set $TEAMBRIDGE_STATE", err)
	}
	return filepath.Join(home, ".local", "state", "teambridge"), nil
}

// HomeDir returns the home directory of the user, by $HOME or $USERPROFILE.
func HomeDir(lookup func(string) (string, bool)) (string, error) {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if dir, _ := lookup(name); dir != "" {
			return dir, nil
		}
	}
	return "", errors.New("there is no home directory")
}

// CardPath returns the path of the card of the service for root, the real path of a
// Claude directory.
func CardPath(state, root string) string { return filepath.Join(state, key(root)+".service.json") }

// SocketPath returns the path of the socket on which that service listens by default.
func SocketPath(state, root string) string { return filepath.Join(state, key(root)+".sock") }

// TokenPath returns the path of the token that requests over TCP need.
func TokenPath(state string) string { return filepath.Join(state, "api.token") }

// LockKey names the lock that the service for root holds while it runs.
func LockKey(root string) string { return "service for " + root }

// LockPath returns the file of that lock, named as package teambridge/teams/lockedfile does.
func LockPath(state, root string) string {
	sum := sha256.Sum256([]byte(LockKey(root)))
	return filepath.Join(state, "locks", hex.EncodeToString(sum[:16])+".lock")
}

// key is short because the path of a socket must be.
func key(root string) string {
	sum := sha256.Sum256([]byte(root))
	return hex.EncodeToString(sum[:6])
}

// ReadCard reads the card of the service for root. The error is fs.ErrNotExist if there
// is none. A service that was killed leaves its card.
func ReadCard(state, root string) (Card, error) {
	data, err := os.ReadFile(CardPath(state, root))
	if err != nil {
		return Card{}, err
	}
	var c Card
	if err := json.Unmarshal(data, &c); err != nil {
		return Card{}, fmt.Errorf("read %s: %w", CardPath(state, root), err)
	}
	return c, nil
}
