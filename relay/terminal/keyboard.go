package terminal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	typedLimit = 1 << 20         // limit of bytes that the program has not read yet; further bytes stay in the terminal
	chunk      = 4 << 10         // the most bytes in one write to the pseudo-terminal
	writeLimit = 2 * time.Second // limit of Write
)

// keyboard holds typed keys that the program has not received yet.
type keyboard struct {
	master *os.File

	mu      sync.Mutex
	changed *sync.Cond
	typed   []byte
	last    time.Time // when the person last typed
	blocked bool
	writing bool // typed keys are being written
	ours    int  // calls of Write in progress
	closed  bool // the program has ended

	one sync.Mutex // held by one of those calls
}

func newKeyboard(master *os.File) *keyboard {
	k := &keyboard{master: master, last: time.Now()}
	k.changed = sync.NewCond(&k.mu)
	return k
}

// add adds bytes from the terminal. It blocks while the keyboard holds too many.
func (k *keyboard) add(b []byte, byPerson bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if byPerson {
		k.last = time.Now()
	}
	for len(b) > 0 && len(k.typed) >= typedLimit && !k.closed {
		k.changed.Wait()
	}
	k.typed = append(k.typed, b...)
	k.changed.Broadcast()
}

// run passes typed keys to the program until close.
func (k *keyboard) run() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		for !k.closed && (k.writing || k.ours > 0 || k.blocked || len(k.typed) == 0) {
			k.changed.Wait()
		}
		if k.closed {
			return
		}
		b := slices.Clone(k.typed[:min(len(k.typed), chunk)])
		k.writing = true
		_ = k.master.SetWriteDeadline(time.Time{}) // removes the deadline that pause has set
		k.mu.Unlock()
		n, err := k.master.Write(b) // blocks while the program does not read
		k.mu.Lock()
		k.writing, k.typed = false, k.typed[n:]
		k.changed.Broadcast()
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // the program has ended
		}
	}
}

// pause interrupts a write of typed keys.
func (k *keyboard) pause() {
	for k.writing && !k.closed {
		_ = k.master.SetWriteDeadline(time.Unix(1, 0))
		k.changed.Wait()
	}
}

// Block holds back all keys that the program has not read, and all later ones. Once it has returned, the
// program gets no more keys.
func (k *keyboard) Block() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.blocked = true
	k.pause()
}

// Unblock passes the held keys, and all later ones, to the program.
func (k *keyboard) Unblock() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.blocked = false
	k.changed.Broadcast()
}

// Take removes and returns the held bytes. [Text] converts them to text.
func (k *keyboard) Take() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pause()
	b := k.typed
	k.typed = nil
	k.changed.Broadcast()
	return b
}

// Write sends keys to the program, such as Ctrl-G, ahead of typed keys, and even while the keyboard is
// blocked. It returns once they are in the program's terminal. The error is [os.ErrDeadlineExceeded] if the
// program has not read for 2 s.
func (k *keyboard) Write(keys []byte) error {
	k.mu.Lock()
	k.ours++
	k.pause()
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ours--
		k.changed.Broadcast()
	}()
	k.one.Lock()
	defer k.one.Unlock()
	err := k.master.SetWriteDeadline(time.Now().Add(writeLimit))
	if err == nil {
		_, err = k.master.Write(keys)
	}
	if err != nil {
		return fmt.Errorf("keys for the program: %w", err)
	}
	return nil
}

// Quiet returns the time since the person last typed, or since the start. Reports of the terminal, its mouse
// and its focus do not count.
func (k *keyboard) Quiet() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.last)
}

func (k *keyboard) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	_ = k.master.SetWriteDeadline(time.Unix(1, 0))
	k.changed.Broadcast()
}
