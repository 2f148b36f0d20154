package inbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"teambridge/inbox"
)

// notebook is the simplest Memory that outlives a process: one file for each message, replaced by rename. It is not
// flushed to the disk, since the tests kill only processes.
type notebook struct {
	dir  string
	lock string // no call is allowed while this lock directory exists; empty: none

	// around, if not nil, is called before and after each call with its name, and can kill the process there.
	around func(call, when string)
	// fail, if not nil, has an error for a call by its name; that call does nothing.
	fail map[string]error
}

var errHeld = errors.New("the memory was used while the lock of the inbox was held")

// free fails if ctx has ended, or while Claude's lock is held: agents would wait for us.
func (n *notebook) free(ctx context.Context, call string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if n.lock == "" {
		return nil
	}
	if _, err := os.Lstat(n.lock); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", call, errHeld)
	}
	return nil
}

func (n *notebook) at(call string) func() {
	if n.around == nil {
		return func() {}
	}
	n.around(call, "before")
	return func() { n.around(call, "after") }
}

func (n *notebook) page(key inbox.SendKey) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q", []any{key.Root, key.Team, key.CreatedAt, key.Inbox, key.ID})))
	return filepath.Join(n.dir, hex.EncodeToString(sum[:])+".json")
}

func (n *notebook) Recall(ctx context.Context, key inbox.SendKey) (s inbox.Send, ok bool, err error) {
	defer n.at("recall")()
	if err := errors.Join(n.free(ctx, "recall"), n.fail["recall"]); err != nil {
		return s, false, err
	}
	data, err := os.ReadFile(n.page(key))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	return s, true, json.Unmarshal(data, &s)
}

func (n *notebook) Intend(ctx context.Context, s inbox.Send) error {
	defer n.at("intend")()
	if err := errors.Join(n.free(ctx, "intend"), n.fail["intend"]); err != nil {
		return err
	}
	return n.put(s)
}

func (n *notebook) Written(ctx context.Context, key inbox.SendKey, at time.Time) error {
	defer n.at("written")()
	if err := errors.Join(n.free(ctx, "written"), n.fail["written"]); err != nil {
		return err
	}
	quiet := &notebook{dir: n.dir}
	s, _, err := quiet.Recall(ctx, key)
	if err != nil {
		return err
	}
	s.SendKey, s.State, s.At = key, inbox.SendWritten, at
	return n.put(s)
}

func (n *notebook) Withdraw(ctx context.Context, key inbox.SendKey) error {
	defer n.at("withdraw")()
	if err := errors.Join(n.free(ctx, "withdraw"), n.fail["withdraw"]); err != nil {
		return err
	}
	if err := os.Remove(n.page(key)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (n *notebook) put(s inbox.Send) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	page := n.page(s.SendKey)
	tmp := fmt.Sprintf("%s.%d", page, os.Getpid()) // one process sends one id at a time
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, page)
}
