//go:build unix

package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/status/api"
)

// A service whose database is moved away under it ends. What it went on to record would be
// in no history.
func TestMovedDatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ledger.db", "journal.db"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.start(t)
			away := t.TempDir()
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Rename(filepath.Join(w.State, name+suffix), filepath.Join(away, name+suffix)); err != nil {
					t.Fatal(err)
				}
			}
			if name == "ledger.db" {
				inbox := filepath.Join(w.Root.Path(), "teams", older, "inboxes", "worker.json")
				before, err := os.ReadFile(inbox)
				if err != nil {
					t.Fatal(err)
				}
				// Until it has ended, it says that it cannot.
				res, err := r.client.Post("http://teambridge/v1/teams/"+older+"/members/worker/messages", "application/json", strings.NewReader(`{"text": "hello"}`))
				if err == nil {
					if res.StatusCode != api.CodeError.HTTP() {
						data, _ := io.ReadAll(res.Body)
						t.Errorf("the answer is %s: %s", res.Status, data)
					}
					res.Body.Close()
				}
				if now, err := os.ReadFile(inbox); err != nil || string(now) != string(before) {
					t.Errorf("the message was sent: %s, %v", now, err)
				}
			}
			select {
			case err := <-r.over:
				if !errors.Is(err, ledger.ErrMoved) {
					t.Errorf("the service ended with: %v", err)
				}
				r.over <- nil
			case <-time.After(patience):
				t.Fatal("the service goes on")
			}
		})
	}
}
