package server

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"teambridge/status/api"
)

// TokenPath returns where the token is kept that requests over TCP need.
func TokenPath(state string) string { return api.TokenPath(state) }

// tokenBytes is how many random bytes are in a token.
const tokenBytes = 32

// token reads the token, and makes one if there is none. A file that others can
// read, or that holds less than a token has, is refused: anybody may know it.
func token(state string) (string, error) {
	path := TokenPath(state)
	if err := makeToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("server: make a token: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("server: read the token: %w", err)
	}
	const again = "remove it, and a new one is made"
	if !info.Mode().IsRegular() || exposed(info) {
		return "", api.Decide(api.CodeRefused, again, "the token in %s can be read by others, or is no plain file", path)
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

// makeToken makes the file whole or not at all; fs.ErrExist if it is there.
func makeToken(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	var secret [tokenBytes]byte
	_, _ = rand.Read(secret[:])                                 // never fails
	f, err := os.CreateTemp(filepath.Dir(path), ".api.token.*") // 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(base64.RawURLEncoding.EncodeToString(secret[:]) + "\n")
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Link(f.Name(), path) // fails where another was faster
	}
	return errors.Join(err, os.Remove(f.Name()))
}
