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
	"sync"
	"time"

	"teambridge/status/api"
	"teambridge/teams/atomicfile"
	"teambridge/teams/lockedfile"
)

const (
	tokenBytes = 32               // random bytes in a token
	tokenWait  = 10 * time.Second // for another service that is creating the token
)

// tokens has the token in its file. If the file is removed or replaced, the old token becomes invalid, with the cookies
// and codes that were made with it.
type tokens struct {
	state  string
	report func(error) // is called once for each file that has no valid token

	mu    sync.Mutex
	file  fs.FileInfo // the file that was read; nil: none
	token string      // "": there is no valid token
	ended chan struct{}
}

// newTokens reads the token, or creates it.
func newTokens(state string, report func(error)) (*tokens, error) {
	t := &tokens{state: state, report: report, ended: make(chan struct{})}
	var err error
	t.token, t.file, err = token(state)
	return t, err
}

// now returns the token, and a channel that is closed once the token is invalid. If the file is gone, it creates a new
// token. The token is "" if t is nil, or if the file has no valid one.
func (t *tokens) now() (current string, ended <-chan struct{}) {
	if t == nil {
		return "", nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Lstat(api.TokenPath(t.state))
	if err == nil && t.file != nil && os.SameFile(info, t.file) && info.ModTime().Equal(t.file.ModTime()) && info.Size() == t.file.Size() {
		return t.token, t.ended
	}
	next, file, err := token(t.state)
	if err != nil && (t.token != "" || file != nil) {
		t.report(err)
	}
	t.file = file
	if next != t.token {
		close(t.ended)
		t.token, t.ended = next, make(chan struct{})
	}
	return t.token, t.ended
}

// watch checks the file at each signal until ctx ends, since streams must end without a further request.
func (t *tokens) watch(ctx context.Context, changed <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			t.now()
		}
	}
}

// token reads the token, or creates it. It also returns the file, even if that has no valid token. It refuses a file
// that others can read, and one that is shorter than a token, because others may know the content.
func token(state string) (string, fs.FileInfo, error) {
	path := api.TokenPath(state)
	if err := makeToken(state); err != nil {
		return "", nil, fmt.Errorf("server: make a token: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", nil, fmt.Errorf("server: read the token: %w", err)
	}
	const again = "remove the file: the service creates a new one"
	if !info.Mode().IsRegular() || atomicfile.Exposed(info) {
		return "", info, api.Decide(api.CodeRefused, again, "the token file %s can be read by others, or is not a regular file", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", info, fmt.Errorf("server: read the token: %w", err)
	}
	t := strings.TrimSpace(string(data))
	if len(t) < base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return "", info, api.Decide(api.CodeRefused, again, "the token in %s is too short", path)
	}
	return t, info, nil
}

// makeToken creates the file if it is missing. It takes a lock, since services of several Claude directories share it.
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
