package journal

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"

	"teambridge/inbox/sqlite"
)

// An index is the full-text index of a journal. It is in a file of its own, next to the journal, so recording never
// waits for the index, nor for a search that brings the index up to date.
//
// The index has no data of its own: it is made from the journal. A missing index is made, and an index that is
// damaged, of another journal, or of another version of this program, is deleted and made again.
type index struct {
	journal string // path of the journal

	mu     sync.Mutex
	db     *sqlite.DB  // nil if not open
	file   fs.FileInfo // of db
	closed bool
}

//go:embed index.sql
var indexSchema string

// errOutdated: the index has records that the journal lacks, since another one or an older copy replaced it.
var errOutdated = errors.New("journal: the search index is of another journal")

func (x *index) path() string { return filepath.Join(filepath.Dir(x.journal), "index.db") }

func (x *index) format() sqlite.Format {
	return sqlite.Format{
		Name:        "search index",
		Application: 0x74624932,          // "tbI2"
		Development: []int32{0x74624931}, // "tbI1"
		Schema:      []string{indexSchema},
		Create:      "PRAGMA auto_vacuum=INCREMENTAL",
		Setup:       "PRAGMA synchronous=NORMAL; PRAGMA cache_size=-2048; PRAGMA secure_delete=ON; CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, words, instance)",
		Attach:      x.journal,
	}
}

// open returns the index. It makes one if none can be used.
func (x *index) open(ctx context.Context) (_ *sqlite.DB, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, fmt.Errorf("journal: search in %s: %w", x.journal, ErrClosed)
	}
	if x.db != nil {
		return x.db, nil
	}
	if _, err := os.Stat(x.path()); errors.Is(err, fs.ErrNotExist) { // a process may still use the log of a deleted index
		if err := x.remove(); err != nil {
			return nil, err
		}
	}
	x.db, err = sqlite.Open(ctx, x.path(), x.format())
	if unusable(err) || errors.Is(err, sqlite.ErrDevelopment) || errors.As(err, new(*sqlite.NewerError)) {
		if err := x.remove(); err != nil {
			return nil, err
		}
		x.db, err = sqlite.Open(ctx, x.path(), x.format())
	}
	if err == nil {
		x.file, err = os.Stat(x.path())
	}
	return x.db, err
}

// unusable reports whether an error shows that the index must be made again. An error of the disk is what SQLite
// reports if the log was deleted while another process uses it.
func unusable(err error) bool {
	return errors.Is(err, sqlite.ErrCorrupt) || errors.Is(err, sqlite.ErrDisk) || errors.Is(err, errOutdated)
}

// remove deletes the files.
func (x *index) remove() (err error) {
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if e := os.Remove(x.path() + suffix); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// again reports whether a call that failed on db may succeed on the index that open returns now.
func (x *index) again(db *sqlite.DB, err error) bool {
	unusable := unusable(err)
	if !unusable && !errors.Is(err, ErrMoved) && !errors.Is(err, ErrClosed) {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.db != db { // another goroutine has closed or replaced it
		return true
	}
	x.db = nil
	_ = db.Close() // db is no longer used
	if now, err := os.Stat(x.path()); !unusable || err != nil || !os.SameFile(x.file, now) {
		return true // another process has replaced it
	}
	return x.remove() == nil
}

// close closes the index for good.
func (x *index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.db == nil {
		return nil
	}
	return x.db.Close()
}

// size returns the size of the file, and whether it exists.
func (x *index) size() (bytes int64, exists bool) {
	info, err := os.Stat(x.path())
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// Index brings the search index up to date. A search does so, too; a service does it beforehand.
func (j *Journal) Index(ctx context.Context) error {
	return j.withIndex(ctx, func(*sqlite.DB) error { return nil })
}

// withIndex brings the index up to date, and runs f on it. If the index has to be made again, f runs again. Queries
// on the index can also read the journal.
func (j *database) withIndex(ctx context.Context, f func(*sqlite.DB) error) error {
	var err error
	for range 3 {
		// Fails if another file is now in the journal's place.
		if err := j.db.Do(ctx, "search", func(*sqlite.Conn) error { return nil }); err != nil {
			return err
		}
		var db *sqlite.DB
		if db, err = j.index.open(ctx); err != nil {
			return err
		}
		if err = j.update(ctx, db); err == nil {
			err = f(db)
		}
		if err == nil || !j.index.again(db, err) {
			break
		}
	}
	return err
}

// indexPage is how many records one transaction of the index takes.
const indexPage = 200

// update adds the records that an index lacks, and removes those that the journal has deleted.
func (j *database) update(ctx context.Context, db *sqlite.DB) error {
	var done int64 // number of the last row of table stale that was processed
	for more := true; more; {
		// Mostly there is nothing to do. This query sees that without a lock that others wait for.
		n, err := db.Number(ctx, "search", "SELECT seq=(SELECT seq FROM counter) AND epoch IS ("+epochOf+") AND NOT EXISTS (SELECT 1 FROM stale WHERE n>?) FROM indexed", done)
		if err != nil {
			return err
		}
		if n == 1 {
			break
		}
		err = db.Transaction(ctx, "index", "IMMEDIATE", func(c *sqlite.Conn) error {
			s := indexing{Conn: c, done: done}
			if err := s.step(); err != nil {
				return err
			}
			done, more = s.done, s.more
			return nil
		})
		if err != nil {
			return err
		}
	}
	if done == 0 {
		return nil
	}
	// Rows of stale are deleted only once the file of the index certainly has their changes, even after a power cut.
	if emptied, err := db.GiveBack(ctx, "index"); err != nil || !emptied {
		return err
	}
	return j.db.Do(ctx, "index", func(c *sqlite.Conn) error {
		_, err := c.Exec("DELETE FROM stale WHERE n<=?", done)
		return err
	})
}

// epochOf is the epoch of the number of a row of indexed: see [Position].
const epochOf = "SELECT id FROM epochs WHERE first<=indexed.seq ORDER BY first DESC LIMIT 1"

// indexing is one transaction of the index.
type indexing struct {
	*sqlite.Conn
	done int64 // see update
	more bool  // there may be more to do
}

func (s *indexing) step() error {
	var at, last int64
	var here bool
	err := s.Query(func(v sqlite.Row) { at, last, here = v.Int(0), v.Int(1), v.Bool(2) },
		"SELECT seq, (SELECT seq FROM counter), epoch IS ("+epochOf+") FROM indexed")
	switch {
	case err != nil:
		return err
	case at > last || at > 0 && !here:
		return errOutdated
	}
	if err := s.renew(at); err != nil {
		return err
	}
	records, err := s.records("seq>?1", at)
	if err != nil {
		return err
	}
	if s.more = s.more || len(records) == indexPage; len(records) == indexPage {
		last = records[indexPage-1].seq
	}
	if err := s.insert(records); err != nil {
		return err
	}
	_, err = s.Exec("UPDATE indexed SET seq=?", last)
	if err == nil {
		_, err = s.Exec("UPDATE indexed SET epoch=(" + epochOf + ")")
	}
	return err
}

// renew updates one page of records that were deleted or changed. at is the last number in the index.
func (s *indexing) renew(at int64) error {
	var stale []int64
	first := s.done
	err := s.Query(func(v sqlite.Row) {
		s.done = v.Int(0)
		stale = append(stale, v.Int(1))
	}, "SELECT n, seq FROM stale WHERE n>? ORDER BY n LIMIT ?+0", s.done, indexPage)
	if err != nil || len(stale) == 0 {
		return err
	}
	s.more = len(stale) == indexPage
	for _, seq := range stale {
		if _, err := s.Exec("DELETE FROM words WHERE rowid=?", seq); err != nil {
			return err
		}
	}
	records, err := s.records("seq<=?1 AND seq IN (SELECT seq FROM stale WHERE n>?2 AND n<=?3)", at, first, s.done)
	if err != nil {
		return err
	}
	return s.insert(records)
}

// entry is a message or an envelope in the index.
type entry struct {
	seq                   int64
	sender, summary, body string
	root, team            string
	silent                bool // an envelope without a text, which is not found
}

// records reads at most a page of messages and envelopes, in the order of their numbers.
func (s *indexing) records(where string, args ...sqlite.Value) ([]entry, error) {
	return sqlite.All(s.Conn, func(v sqlite.Row) entry {
		x := entry{seq: v.Int(0), sender: v.Text(1), root: v.Text(4), team: v.Text(5)}
		if role := v.Text(2); role != "" {
			e := Envelope{Role: role, Raw: v.Blob(3)}
			x.body = e.Text()
			x.silent = x.body == ""
		} else {
			var m Record
			m.set(v.Blob(3))
			x.summary, x.body = m.Summary, body(&m.Row)
		}
		return x
	}, "SELECT r.seq, coalesce(r.sender, i.inbox), r.role, r.raw, i.root, i.team FROM (SELECT seq, sender, '' AS role, raw, inbox FROM messages WHERE "+where+
		" UNION ALL SELECT seq, NULL, role, raw, inbox FROM envelopes WHERE "+where+
		fmt.Sprint(" ORDER BY 1 LIMIT ", indexPage)+") r CROSS JOIN inboxes i ON i.id=r.inbox ORDER BY 1", args...)
}

func (s *indexing) insert(entries []entry) error {
	for _, x := range entries {
		if x.silent {
			continue
		}
		if _, err := s.Exec("INSERT INTO words (rowid, sender, summary, body, signs) VALUES (?, ?, ?, ?, ?)",
			x.seq, x.sender, x.summary, x.body, place(x.root, x.team)+signs(x.sender, x.summary, x.body)); err != nil {
			return err
		}
	}
	return nil
}

// place returns a word for each that is given of a Claude root and a team. With them, a search skips the records of all
// others, however many have what it looks for.
func place(root, team string) (words string) {
	for kind, name := range []string{root, team} {
		if name != "" {
			words += fmt.Sprintf("%c%.8x ", "rt"[kind], sha256.Sum256([]byte(name)))
		}
	}
	return words
}

// signs returns a word for each character of texts that is indexed by itself: see sign.
func signs(texts ...string) string {
	var b strings.Builder
	known := map[rune]bool{}
	for _, text := range texts {
		for _, r := range text {
			if sign(r) && !known[r] {
				known[r] = true
				fmt.Fprintf(&b, "x%x ", r)
			}
		}
	}
	return b.String()
}

// spaceless are the scripts of languages that put no spaces between words.
var spaceless = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}

// sign reports whether a character is indexed by itself: it is neither a space nor part of a word between spaces.
func sign(r rune) bool {
	return !unicode.IsSpace(r) && (unicode.In(r, spaceless...) || !unicode.IsLetter(r) && !unicode.IsNumber(r))
}
