package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Deleted data is neither in the file nor in its log, and takes no space.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "diary.db")
	f := aFormat()
	f.Create, f.Setup = "PRAGMA auto_vacuum=INCREMENTAL", "PRAGMA secure_delete=ON"
	d, err := Open(t.Context(), path, f)
	must(t, err)
	defer shut(t, d)
	other := newDB(t, path) // a service has it open, too
	exec := func(query string) {
		t.Helper()
		must(t, d.Do(t.Context(), "write", func(c *Conn) error { _, err := c.Exec(query); return err }))
	}
	size := func() int64 {
		t.Helper()
		n, err := other.Size(t.Context(), "measure")
		must(t, err)
		return n
	}
	exec("INSERT INTO days (text) SELECT 'secret ' || hex(zeroblob(20000)) FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8))")
	exec("INSERT INTO days (text) SELECT 'small secret' FROM days UNION ALL SELECT 'kept'")
	full := size()
	exec("DELETE FROM days WHERE text<>'kept'")
	reading, read := make(chan struct{}), make(chan error)
	go func() { // the other process reads at that moment, and for a while
		read <- other.Do(t.Context(), "read", func(c *Conn) error {
			_, err := c.Exec("BEGIN")
			if err == nil {
				_, err = c.Number("SELECT count(*) FROM days")
			}
			close(reading)
			<-time.After(50 * time.Millisecond)
			_, eerr := c.Exec("ROLLBACK")
			return errors.Join(err, eerr)
		})
	}()
	<-reading
	emptied, err := d.GiveBack(t.Context(), "prune")
	must(t, errors.Join(err, <-read))
	if left := size(); !emptied || left > full/8 {
		t.Errorf("the log is empty: %t; %d bytes of %d are left", emptied, left, full)
	}
	for _, name := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(name)
		must(t, err)
		if bytes.Contains(data, []byte("secret")) {
			t.Errorf("%s has what was deleted", filepath.Base(name))
		}
		if name == path && !bytes.Contains(data, []byte("kept")) {
			t.Error("what was kept is gone")
		}
	}
}
