package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teambridge/status/api"
	"teambridge/teams/atomicfile"
	"teambridge/teams/lockedfile"
)

const (
	tokenBytes = 32               // random ones in a token
	tokenWait  = 10 * time.Second // for another service that is creating the token
)

// token reads the token, or creates it. A file that others can read, or that is shorter
// than a token, is refused, because somebody else may know its content.
func token(state string) (string, error) {
	path := api.TokenPath(state)
	if err := makeToken(state); err != nil {
		return "", fmt.Errorf("server: make a token: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("server: read the token: %w", err)
	}
	const again = "remove the file: the service creates a new one"
	if !info.Mode().IsRegular() || exposed(info) {
		return "", api.Decide(api.CodeRefused, again, "the token file %s can be read by others, or is not a regular file", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("server: read the token: %w", err)
	}
	t := strings.TrimSpace(string(data))
	if len(t) < base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return "", api.Decide(api.CodeRefused, again, "the token in %s is too short", path)
	}
	return t, nil
}

// makeToken creates the file if it is missing. Services of several Claude directories
// share it, hence the lock.
func makeToken(state string) (err error) {
	path := api.TokenPath(state)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	release, err := lockedfile.HoldWithin(context.Background(), tokenWait, filepath.Join(state, "locks"), "token")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.Write(path, []byte(secret()+"\n"))
}
