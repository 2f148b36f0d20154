// Package claudedir writes the files of Claude Code's directory, for the programs that simulate it: transcripts, the
// files of processes, and the keys of sockets. It shares no code with their readers.
package claudedir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Object is a JSON object.
type Object = map[string]any

// Now returns the time in the form of a transcript.
func Now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// Transcript returns the path of the transcript of a session that began in dir: at most 200 plain characters.
func Transcript(root, dir, session string) string {
	slug := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, dir)
	return filepath.Join(root, "projects", slug, session+".jsonl")
}

// Append adds a line to a file in one write, so that no other appending process tears it, and makes the directory.
func Append(path string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// ProcessFile returns the path of the file of this process.
func ProcessFile(root string) string {
	return filepath.Join(root, "sessions", strconv.Itoa(os.Getpid())+".json")
}

// WriteProcess writes the file of this process, in place.
func WriteProcess(root string, says Object) error {
	data, err := json.Marshal(says)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(ProcessFile(root)), 0o700); err != nil {
		return err
	}
	return os.WriteFile(ProcessFile(root), data, 0o600)
}

// Listen listens on a socket, and writes the key with the token that senders need. take gets the lines of each
// connection, one connection after the other.
func Listen(root, socket, token string, take func(lines []string)) error {
	sum := sha256.Sum256([]byte(socket))
	key := filepath.Join(root, "sessions", strconv.Itoa(os.Getpid())+"."+hex.EncodeToString(sum[:])+".key")
	data, err := json.Marshal(Object{"peerToken": token})
	for _, path := range []string{socket, key} {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700))
	}
	if err := errors.Join(err, os.WriteFile(key, data, 0o600)); err != nil {
		return err
	}
	return Serve(socket, take)
}

// Serve is Listen without a key.
func Serve(socket string, take func(lines []string)) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(c) // an incomplete line does not count
			_ = c.Close()
			take(strings.Split(strings.TrimSpace(string(data)), "\n"))
		}
	}()
	return nil
}
