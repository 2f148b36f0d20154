// Package ledger remembers which messages were sent and under which names
// teams were joined, in one SQLite database that outlives every team. It is
// what sending exactly once rests on.
//
// # How a send uses it
//
// All of this happens under the locks of the inbox:
//
//  1. [Ledger.Send] looks the id up. State [Written]: the message was sent
//     before, nothing is to be done. Another digest: the id is taken by another
//     message. State [Intent]: a sender died between 2 and 4, and
//     [Send.Before] says whether the file has changed since.
//  2. [Ledger.Intend] records id, digest and the state of the file. When it
//     returns the record is on the disk.
//  3. The inbox file is replaced and read back.
//  4. [Ledger.Written] closes the record.
//
// # What is promised
//
// What Intend, Joined, Left and Prune acknowledged survives a kill at any
// instant and a power cut (write-ahead log, synchronous=EXTRA: an fsync of the
// log each, the first of a process one of the directory too). What Written
// acknowledged survives a kill; a power cut can turn it back into an intent,
// never into nothing. That saves an fsync: 0.3 ms of a process of 3.9 ms.
//
// Any number of goroutines and processes may use one ledger at once. A call
// that finds it locked by another process tries again until its context ends,
// or for 10 s if the context has no deadline, and fails with [ErrBusy].
//
// A file that is damaged, that is another program's, or that a newer version
// of this package made is refused. It is never emptied, replaced or deleted.
//
// # What is not
//
// SQLite's write-ahead log needs shared memory: all processes must run on one
// machine, and the file should be on a local disk. Where the file system has no
// shared memory SQLite keeps its rollback journal, which is slower and as safe.
// The ledger is three files while it is in use (PATH, PATH-wal, PATH-shm);
// a copy of PATH alone can lack the newest records. The files are private to
// their owner on Unix systems; on Windows the directory's rights decide.
//
// Nothing else in a process that has a ledger open may open and close the
// same file: on Unix closing any descriptor of a file drops all locks the
// process has on it, SQLite's with them.
package ledger

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// patience is how long a call waits for other processes when its context has
// no deadline.
const patience = 10 * time.Second

// A Ledger is an open ledger file. Its methods may be called from several
// goroutines; they take turns on one connection.
type Ledger struct {
	path string
	turn chan struct{} // holds one token; a mutex could not be given up with a context
	conn *conn         // nil once closed; used by the holder of the token
}

// Open opens the ledger at path, and makes it if there is none: its directory
// with mode 0700, and each missing one above it, the file with mode 0600. A
// ledger of an earlier version is brought up to date; processes that do so at
// the same time do it once.
//
// Errors are *[Error], with [ErrBusy], [ErrFull], [ErrCorrupt], [ErrForeign],
// [ErrReadOnly], [ErrAccess] or [ErrDisk] to tell them apart, or *[NewerError].
func Open(ctx context.Context, path string) (*Ledger, error) {
	return open(ctx, path, schema())
}

func open(ctx context.Context, path string, schema []string) (*Ledger, error) {
	abs, err := filepath.Abs(path)
	if err != nil || path == "" || strings.ContainsRune(path, 0) {
		if err == nil {
			err = fs.ErrInvalid
		}
		return nil, &Error{Op: "open", Path: path, Kind: ErrAccess, Err: err}
	}
	l := &Ledger{path: abs, turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}

	if err := makeDir(filepath.Dir(abs)); err != nil {
		return nil, &Error{Op: "open", Path: abs, Kind: ErrAccess, Err: err}
	}
	connector, err := sqlite.NewConnector(uri(abs))
	if err != nil {
		return nil, l.fail("open", err)
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, l.fail("open", err)
	}
	l.conn = &conn{c}
	if err := l.prepare(ctx, schema); err != nil {
		_ = l.conn.Close() // the first error is the one that matters
		return nil, err
	}
	return l, nil
}

// prepare makes the open file ours, current and set up.
func (l *Ledger) prepare(ctx context.Context, schema []string) error {
	// SQLite makes the file with mode 0644, and its companions with the
	// mode of the file. The file is empty until the first statement.
	if err := makePrivate(l.path); err != nil {
		return &Error{Op: "open", Path: l.path, Kind: ErrAccess, Err: err}
	}
	// Where a file cannot be written SQLite opens it for reading without a
	// word. A ledger that cannot record is none.
	if ro, err := l.conn.readOnly(); err != nil {
		return l.fail("open", err)
	} else if ro {
		return &Error{Op: "open", Path: l.path, Kind: ErrReadOnly}
	}
	return l.do(ctx, "open", func(c *conn) error {
		if err := migrate(c, l.path, schema); err != nil {
			return err
		}
		// A process that ends without Close leaves its log, and the next
		// one has to read it: 64 pages take 0.1 ms, the default of 1000
		// takes 1.5 ms.
		_, err := c.exec("PRAGMA wal_autocheckpoint=64")
		return err
	})
}

// Close ends the use of the ledger, after the call that is running. Closing
// twice is no error; every other call after Close fails with [ErrClosed].
//
// Close folds the log into the file, if no other process has it open: two
// fsyncs, and one more for the next process, which has to begin a new log;
// together 1 ms of a process of 4.6 ms. A process about to exit may leave Close
// out. Nothing acknowledged is lost, and the log is folded in by the commit that
// makes it longer than 64 pages.
func (l *Ledger) Close() error {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	if l.conn == nil {
		return nil
	}
	c := l.conn
	l.conn = nil
	if err := c.Close(); err != nil {
		return l.fail("close", err)
	}
	return nil
}

// do runs f when it is this call's turn, again and again while other processes
// keep the file locked. f must be one transaction: it is run again from its start.
//
// SQLite's own busy timeout is not used: it sleeps inside the call, where a
// context can end it only by a goroutine for each statement.
func (l *Ledger) do(ctx context.Context, op string, f func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ledger: %s in %s: nothing done: %w", op, l.path, err)
	}
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return &Error{Op: op, Path: l.path, Kind: ErrBusy, Err: ctx.Err()}
	}
	if l.conn == nil {
		return fmt.Errorf("ledger: %s in %s: %w", op, l.path, ErrClosed)
	}

	err := f(l.conn)
	if !isBusy(err) {
		return l.fail(op, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 16*time.Millisecond) {
		// Jitter: processes that collided once must not do so in step.
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &Error{Op: op, Path: l.path, Kind: ErrBusy, Err: ctx.Err()}
		}
		if err := f(l.conn); !isBusy(err) {
			return l.fail(op, err)
		}
	}
}

// conn is the one connection of a ledger. It speaks to the driver, not through
// database/sql: in a process that opens, writes twice and ends, the pool with
// its goroutines took 0.75 ms of 3.5 ms.
type conn struct {
	driver.Conn
}

// exec runs query and tells how many rows it changed.
func (c *conn) exec(query string, args ...driver.Value) (int64, error) {
	// No context: with one that can end, the driver starts a goroutine for
	// each statement. do looks at the context between statements.
	result, err := c.Conn.(driver.ExecerContext).ExecContext(context.Background(), query, named(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query calls row with each row of the answer. The values are row's to keep,
// the slice is not.
func (c *conn) query(row func([]driver.Value) error, query string, args ...driver.Value) (err error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(context.Background(), query, named(args))
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(values); {
		case isEnd(err):
			return nil
		case err != nil:
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
}

// number answers a query for one integer.
func (c *conn) number(query string) (n int64, err error) {
	err = c.query(func(v []driver.Value) error {
		n, _ = v[0].(int64)
		return nil
	}, query)
	return n, err
}

func (c *conn) readOnly() (bool, error) {
	return c.Conn.(interface{ IsReadOnly(string) (bool, error) }).IsReadOnly("main")
}

func named(args []driver.Value) []driver.NamedValue {
	list := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	return list
}

// uri spells an absolute path as a file: URI that means this path and nothing
// else: no byte is left that SQLite or the driver could take for a parameter,
// a fragment or an escape.
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
