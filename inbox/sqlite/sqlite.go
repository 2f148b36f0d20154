// Package sqlite opens the databases of this program: one connection to one
// SQLite file that several processes use at once.
//
// # What is promised
//
// A file is refused if it is damaged, belongs to another program, or was made by a newer version or a development
// version of this one. A refused file is never emptied, replaced or deleted, and its log is not changed.
//
// A database of an earlier version is brought up to date when it is opened. If several processes open it at the same
// time, it is brought up to date once. If the process is killed, the file keeps its earlier version.
//
// A database whose file was moved away or replaced is no longer used: records in a file that no process opens again
// are lost. Each call checks for this at its beginning and its end, and fails with [ErrMoved].
//
// A call that finds the file locked by another process tries again until its
// context ends, or for 10 s if the context has no deadline, and fails with
// [ErrBusy].
//
// # Limits
//
// SQLite's write-ahead log needs shared memory: all processes must run on one machine, and the file should be on a
// local disk. Where the file system has no shared memory, SQLite keeps its rollback journal, which is slower but as
// safe. A database is three files while it is in use (PATH, PATH-wal, PATH-shm); a copy of PATH alone can lack the
// newest records. The files are private to their owner on Unix systems; on Windows they have the rights of their
// directory.
//
// No other code in a process that has a database open may open and close the same file: on Unix, closing any
// descriptor of a file drops all locks that the process has on it, including SQLite's.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Patience is how long a call waits for other processes if its context has no deadline.
const Patience = 10 * time.Second

// A Format describes the content of a database.
type Format struct {
	Name string // what errors call it

	// Application marks the file, in the header field SQLite has for that: four
	// ASCII characters that no other program uses.
	Application int32

	// Development holds the marks of files that were made before the first release. They are
	// refused with [ErrDevelopment].
	Development []int32

	// Schema holds one script for each version: the n-th brings a file of version n-1 to version n, so the newest
	// version is the number of scripts. A released script is never changed.
	Schema []string

	Create string // run on an empty file before its first script, outside a transaction
	Setup  string // run on each opening, after the scripts
	Attach string // path of another open database whose tables queries can also read; "" for none

	Lost string // says in errors what is lost, and what is not, if a person begins a new file
}

// A DB is an open database. Its methods may be called from several goroutines;
// they take turns on one connection.
type DB struct {
	format Format
	path   string
	file   fs.FileInfo   // identity of the file
	turn   chan struct{} // holds one token; waiting for a mutex could not end with a context
	conn   *Conn         // nil once closed; used by the holder of the token
}

// Open opens the database at path, and creates it if it does not exist. The file has mode 0600, and missing
// directories get mode 0700.
//
// Errors are *[Error], of kind [ErrBusy], [ErrFull], [ErrCorrupt], [ErrForeign], [ErrDevelopment], [ErrReadOnly],
// [ErrAccess] or [ErrDisk], or *[NewerError].
func Open(ctx context.Context, path string, format Format) (*DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil || path == "" || strings.ContainsRune(path, 0) {
		if err == nil {
			err = fs.ErrInvalid
		}
		return nil, &Error{Name: format.Name, Op: "open", Path: path, Kind: ErrAccess, Err: err}
	}
	d := &DB{format: format, path: abs, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}

	if err := makeDir(filepath.Dir(abs)); err != nil {
		return nil, d.error("open", ErrAccess, err)
	}
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// open opens the file, and makes it private, current and set up.
func (d *DB) open(ctx context.Context) error {
	c, err := connect(uri(d.path))
	if err != nil {
		return d.fail("open", err)
	}
	d.conn = c
	if err := d.prepare(ctx); err != nil {
		d.abandon(ctx)
		return err
	}
	return nil
}

// abandon closes a refused file, and leaves it and its log unchanged. SQLite folds the log into the file when the
// last connection is closed, so abandon makes a read-only connection the last one. Errors are ignored: the reason for
// the refusal matters more.
func (d *DB) abandon(ctx context.Context) {
	if info, err := os.Stat(d.path + "-wal"); err == nil && info.Size() > 0 {
		if reader, err := connect(uri(d.path) + "?mode=ro"); err == nil {
			defer reader.close()
			_, _ = reader.Number("PRAGMA user_version") // now the connection uses the file
		}
	}
	_ = d.conn.close()
}

// prepare makes the open file private, current and set up.
func (d *DB) prepare(ctx context.Context) (err error) {
	// SQLite makes the file with mode 0644, and its companions with the
	// mode of the file. The file is empty until the first statement.
	if d.file, err = makePrivate(d.path); err != nil {
		return d.error("open", ErrAccess, err)
	}
	// SQLite opens a file without write permission as read-only, without an error.
	if !writable(d.path) {
		return d.error("open", ErrReadOnly, nil)
	}
	err = d.Do(ctx, "open", func(c *Conn) error {
		if err := migrate(c, d.path, d.format); err != nil || d.format.Setup == "" {
			return err
		}
		_, err := c.Exec(d.format.Setup)
		return err
	})
	if err != nil || d.format.Attach == "" {
		return err
	}
	return d.Do(ctx, "open", func(c *Conn) error {
		_, err := c.Exec("ATTACH ? AS attached", uri(d.format.Attach)+"?mode=ro")
		return err
	})
}

// moved returns [ErrMoved] if the path now names another file than the open one, or none.
func (d *DB) moved(op string) error {
	now, err := os.Stat(d.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(d.file, now) {
		return d.error(op, ErrMoved, nil)
	}
	return nil // SQLite reports any other fault
}

// Path returns the absolute path of the database.
func (d *DB) Path() string { return d.path }

// Close closes the database after the call that is running. Closing twice is no error;
// every other call after Close fails with [ErrClosed].
//
// If no other process has the database open, Close folds the log into the file: two fsyncs,
// and one more for the next process, which has to start a new log. A process about to exit
// need not call Close. Nothing acknowledged is lost, and a later writer folds the log in.
func (d *DB) Close() error {
	<-d.turn
	defer func() { d.turn <- struct{}{} }()
	if d.conn == nil {
		return nil
	}
	c := d.conn
	d.conn = nil
	if err := c.close(); err != nil {
		return d.fail("close", err)
	}
	return nil
}

// Do runs f when it is this call's turn, and repeats it while other processes keep the file locked. f must be one
// transaction, since it is repeated from its start. Errors of SQLite become an *[Error] with op; f's own errors are
// returned unchanged.
//
// SQLite's own busy timeout is not used: it sleeps inside the call, where a context could end it only with a
// goroutine for each statement.
func (d *DB) Do(ctx context.Context, op string, f func(*Conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %s in %s: nothing done: %w", d.format.Name, op, d.path, err)
	}
	select {
	case <-d.turn:
		defer func() { d.turn <- struct{}{} }()
	case <-ctx.Done():
		return d.error(op, ErrBusy, ctx.Err())
	}
	if d.conn == nil {
		return fmt.Errorf("%s: %s in %s: %w", d.format.Name, op, d.path, ErrClosed)
	}
	// Checked before f, since a log that was left behind may now belong to another database, and after f, since a
	// commit to a moved file must not count as recorded.
	if err := d.moved(op); err != nil {
		return err
	}
	if err := d.try(ctx, op, f); err != nil {
		return err
	}
	return d.moved(op)
}

// try is Do for the caller whose turn it is.
func (d *DB) try(ctx context.Context, op string, f func(*Conn) error) error {
	err := f(d.conn)
	if !isBusy(err) {
		return d.fail(op, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Patience)
		defer cancel()
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 16*time.Millisecond) {
		// Jitter, so that processes that collided once do not collide again.
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return d.error(op, ErrBusy, ctx.Err())
		}
		if err := f(d.conn); !isBusy(err) {
			return d.fail(op, err)
		}
	}
}

// Version returns an opaque text, never empty, that changes with every commit of any process. Data that is read after
// the call is at least as new as the version. Only versions of the same open DB can be compared.
//
// The modification times of the files are no substitute: a commit is written to the log
// before its fsync, and becomes visible to others only after it.
func (d *DB) Version(ctx context.Context) (version string, err error) {
	err = d.Do(ctx, "version", func(c *Conn) error {
		return c.Query(func(r Row) { version = r.Text(0) }, "SELECT data_version || '/' || total_changes() FROM pragma_data_version")
	})
	return version, err
}

// settled is how long the log must be unchanged before a poll concludes that nothing was committed.
const settled = 10 * time.Second

// Poll returns a [DB.Version] for one goroutine that calls it all the time. Where the system shows when the log was
// last written, the function asks SQLite only for 10 s after that, since a commit becomes visible after its fsync,
// and every 10 s at other times. Each call fails with [ErrMoved] if the file was moved.
func (d *DB) Poll() func(context.Context) (version string, err error) {
	var log logStamp
	var written, asked time.Time
	var version string
	return func(ctx context.Context) (string, error) {
		now, known := stampOfLog(d.path + "-wal")
		if !known || now != log {
			log, written = now, time.Now()
		}
		if version != "" && time.Since(written) >= settled && time.Since(asked) < settled {
			return version, d.moved("version")
		}
		asked = time.Now()
		next, err := d.Version(ctx)
		if err == nil {
			version = next
		}
		return next, err
	}
}

// logStamp changes when the log is written.
type logStamp struct{ size, modTime int64 }

// Transaction is [Conn.Transaction] in its own call of [DB.Do].
func (d *DB) Transaction(ctx context.Context, op, begin string, f func(*Conn) error) error {
	return d.Do(ctx, op, func(c *Conn) error {
		return c.Transaction(begin, func() error { return f(c) })
	})
}

// uri returns the file: URI of an absolute path. It escapes every byte that SQLite or the driver could take for a
// parameter, a fragment or an escape.
func uri(path string) string {
	path = filepath.ToSlash(path)
	var b strings.Builder
	b.WriteString("file://")
	if !strings.HasPrefix(path, "/") {
		b.WriteByte('/') // C:/… on Windows
	}
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '/', c == '-', c == '_', c == '.', c == ':':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
