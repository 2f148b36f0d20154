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

// listing is how the sessions of a directory know us: as another one.
type listing struct {
	socket string
	files  []string
	unlock func() error // what keeps others of ours from the name
}

// described is a file that says that we are there.
type described struct {
	path    string
	content any
}

// record is what sessions/PID.json says of a process that others can write to.
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
	Ours      bool   `json:"teambridge"` // for [transcript.Processes], which leaves it out
}

// List listens next to a session's socket, and has the sessions of a Claude directory list us under a name, so that their agents
// can write to us first. If another process of ours has the name there, it only listens. It may be called again and
// again, and then makes sure that it is still so. start is when this process started, as sessions say it.
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

// list is [Mailbox.List], given the directory of our socket and what says that we listen at one.
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
		if err != nil || !ok {
			return err
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

// Listed reports whether sessions list us.
func (b *Mailbox) Listed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.listed) > 0
}

// unlist removes what [Mailbox.List] has made. b.mu is held.
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

// write writes a file that only we may read, in one piece.
func write(path string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data)
}
