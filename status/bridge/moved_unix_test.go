//go:build unix

package bridge_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/status/api"
)

// A service ends if its database is moved away, since no history would have its further records.
func TestMovedDatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ledger.db", "journal.db"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			away := t.TempDir()
			for _, suffix := range []string{"", "-wal", "-shm"} {
				w.must(os.Rename(filepath.Join(w.State, name+suffix), filepath.Join(away, name+suffix)))
			}
			if name == "ledger.db" {
				path := w.Inbox(older, "worker").Path()
				before, err := os.ReadFile(path)
				w.must(err)
				if _, err := w.s.Send(w.ctx, older, "worker", "", api.NewMessage{Text: "hello"}); err == nil { // until it has ended, it refuses messages
					t.Error("it says that the message was sent")
				}
				if now, err := os.ReadFile(path); err != nil || string(now) != string(before) {
					t.Errorf("the message was sent: %s, %v", now, err)
				}
			}
			select {
			case err := <-w.over:
				if !errors.Is(err, ledger.ErrMoved) {
					t.Errorf("the service ended with: %v", err)
				}
				w.over <- nil
			case <-time.After(patience):
				t.Fatal("the service goes on")
			}
		})
	}
}
