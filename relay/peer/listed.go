package peer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"teambridge/teams/atomicfile"
	"teambridge/teams/flock"
	"teambridge/teams/transcript"
)

// listing is our entry among the sessions of a directory, which see us as another session.
type listing struct {
	socket string
	files  []string
	unlock func() error // releases the name, which this process alone may use
}

// described is a file that describes us to other sessions.
type described struct {
	path    string
	content any
}

// record is the content of sessions/PID.json, which describes a process that others can write to.
type record struct {
	PID       int    `json:"pid"`
	Session   string `json:"sessionId"`
	Cwd       string `json:"cwd"`
	StartedAt int64  `json:"startedAt"`
	Start     string `json:"procStart"`
	Domain    string `json:"pidDomain"`
	Version   string `json:"version"`
	Protocol  int    `json:"peerProtocol"`
	Kind      string `json:"kind"`
	Entry     string `json:"entrypoint"`
	Name      string `json:"name"`
	Status    string `json:"status"`
	Socket    string `json:"messagingSocketPath"`
	Ours      bool   `json:"teambridge"` // [transcript.Processes] ignores such a record
}

// ErrListed means that another process of ours has the name among the sessions of a directory.
var ErrListed = errors.New("another process is listed there")

// List listens next to a session's socket. It makes the sessions of a Claude directory list us under a name,
// so that their agents can write to us without a message from us first. If another process of ours has the
// name there, List only listens, and fails with [ErrListed]. Call it again periodically: it repairs missing files.
// start is when this process started, in the form that sessions use.
func (b *Mailbox) List(root, name, start string, beside transcript.Process) error {
	return b.list(root, name, filepath.Dir(beside.Socket), func(socket string) []described {
		return []described{
			{keyFile(root, os.Getpid(), socket), key{Token: rand.Text(), Start: start, Domain: beside.Domain}},
			{transcript.ProcessFile(root, os.Getpid()), record{
				PID: os.Getpid(), Session: uuid.NewString(), Cwd: "/", StartedAt: time.Now().UnixMilli(), Start: start, Domain: beside.Domain,
				Version: beside.Version, Protocol: 1, Kind: "interactive", Entry: "cli", Name: name, Status: "idle", Socket: socket, Ours: true,
			}},
		}
	})
}

// list implements [Mailbox.List]. dir is the directory of our socket, and describe returns the files that
// describe it.
func (b *Mailbox) list(root, name, dir string, describe func(socket string) []described) error {
	socket, err := b.listen(dir)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.listed[root]
	if l != nil {
		if b.listeners[filepath.Dir(l.socket)] == nil {
			l.socket = socket
		} else if _, err := os.Lstat(l.files[len(l.files)-1]); err == nil {
			return nil
		}
	} else {
		sum := sha256.Sum256([]byte(root + "\n" + name))
		unlock, ok, err := flock.TryLock(filepath.Join(b.state, hex.EncodeToString(sum[:8])+".lock"))
		if err != nil {
			return err
		}
		if !ok {
			return ErrListed
		}
		l = &listing{socket: socket, unlock: unlock}
		b.listed[root] = l
	}
	l.files = nil
	all := describe(l.socket)
	for _, d := range all {
		l.files = append(l.files, d.path)
	}
	failed := []error{b.keep()}
	if failed[0] == nil {
		for _, d := range all {
			failed = append(failed, write(d.path, d.content))
		}
	}
	return errors.Join(failed...)
}

// Listed reports whether any sessions list us.
func (b *Mailbox) Listed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.listed) > 0
}

// unlist removes the files of [Mailbox.List]. The caller holds b.mu.
func (b *Mailbox) unlist() error {
	var failed []error
	for root, l := range b.listed {
		delete(b.listed, root)
		for _, path := range l.files {
			if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
				failed = append(failed, err)
			}
		}
		failed = append(failed, l.unlock())
	}
	return errors.Join(failed...)
}

// write replaces a file that only this user may read, in one step.
func write(path string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data)
}
