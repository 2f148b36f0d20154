package qwen

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"teambridge/relay/process"
	"teambridge/teams/atomicfile"
)

// A session gives a token to each process that it starts. A message with the token is not held for the person; the
// model learns that it comes from a process of the session, without authority of the user. While a server of ours
// runs in a session, it keeps the token in the state directory, for any process of ours that delivers messages.

// child is the record of a token.
type child struct {
	Socket string                `json:"socket"`
	Token  string                `json:"token"`
	Above  []process.Predecessor `json:"above"` // the ancestors of the server, one of which is the session
}

func childFile(state, socket string) string {
	return filepath.Join(state, "qwen", filepath.Base(socket)+".json")
}

// KeepToken keeps the token that a session gave this process, until forget is called. lookup reads the environment of
// this process, and parents are its ancestors. It does nothing if no session of Qwen Code started this process.
func KeepToken(state string, lookup func(string) (string, bool), parents []int) (forget func() error, err error) {
	c := child{}
	c.Socket, _ = lookup("QWEN_CODE_MESSAGING_SOCKET")
	c.Token, _ = lookup("QWEN_CODE_MESSAGING_TOKEN")
	if c.Socket == "" || c.Token == "" {
		return func() error { return nil }, nil
	}
	for _, pid := range parents {
		c.Above = append(c.Above, process.Identify(pid))
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	path := childFile(state, c.Socket)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := atomicfile.Write(path, data); err != nil {
		return nil, err
	}
	return func() error {
		now, err := os.ReadFile(path)
		if err == nil && string(now) == string(data) { // otherwise the file is another server's
			err = os.Remove(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}, nil
}

// childToken returns the kept token that a session gave a server of ours, or "". The session silently drops a message
// with another process's token.
func childToken(state string, s record, start string) string {
	data, err := os.ReadFile(childFile(state, s.Socket))
	var c child
	if err != nil || json.Unmarshal(data, &c) != nil || c.Socket != s.Socket {
		return ""
	}
	for _, p := range c.Above {
		if ticks, _, _ := strings.Cut(p.Start, "@"); p.PID == s.PID && ticks == start {
			return c.Token
		}
	}
	return ""
}
