package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Level is the level of the API that this package speaks. It grows when a client
// of before would misunderstand what it is answered; fields and routes that are
// new do not make it grow.
const Level = 1

// Card is what a running service says of itself in a file of the state directory,
// so that clients find it.
type Card struct {
	PID     int      `json:"pid"`
	Listen  []string `json:"listen"`  // unix:PATH, and HOST:PORT for TCP
	API     int      `json:"api"`     // [Level] of the service
	Version string   `json:"version"` // of the service
}

// CardPath returns where the service for the Claude directory with the real path
// root keeps its card.
func CardPath(state, root string) string { return filepath.Join(state, key(root)+".service.json") }

// SocketPath returns where that service listens by default.
func SocketPath(state, root string) string { return filepath.Join(state, key(root)+".sock") }

// TokenPath returns where the token is kept that requests over TCP need.
func TokenPath(state string) string { return filepath.Join(state, "api.token") }

// LockKey names the lock that the service for root holds in the directory "locks"
// of the state directory for as long as it runs.
func LockKey(root string) string { return "service for " + root }

// LockPath returns the file of that lock. It is named as package
// teambridge/teams/lockedfile names the file of a key.
func LockPath(state, root string) string {
	sum := sha256.Sum256([]byte(LockKey(root)))
	return filepath.Join(state, "locks", hex.EncodeToString(sum[:16])+".lock")
}

// key tells Claude directories apart in names of files, some of which have to be
// short.
func key(root string) string {
	sum := sha256.Sum256([]byte(root))
	return hex.EncodeToString(sum[:6])
}

// ReadCard returns what the service for root says of itself. The error is
// fs.ErrNotExist where none has said anything; one that was killed leaves its
// card behind.
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
