package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What a caller decides by.
var (
	// ErrClosed: the database was closed.
	ErrClosed = errors.New("closed")

	// ErrBusy: other processes kept the file locked for the time allowed.
	ErrBusy = errors.New("locked by another process")
	// ErrFull: the disk, or the owner's share of it, is full.
	ErrFull = errors.New("disk full")
	// ErrCorrupt: the file is not a database, or a damaged one.
	ErrCorrupt = errors.New("not a database, or a damaged one")
	// ErrForeign: the file is a database, but not the one expected.
	ErrForeign = errors.New("a database of something else")
	// ErrRetired: a development version of this program made the file, see [Format].
	ErrRetired = errors.New("made by a development version of this program, which this version cannot read")
	// ErrReadOnly: the file can be read and not written.
	ErrReadOnly = errors.New("read-only")
	// ErrAccess: the file cannot be opened or made.
	ErrAccess = errors.New("cannot be opened")
	// ErrDisk: the operating system failed to read or write.
	ErrDisk = errors.New("input/output error")
)

// Error is a failure of the database file itself.
type Error struct {
	Name string // of the database: ledger, journal
	Op   string // what was being done: open, intend, search …
	Path string // the file
	Kind error  // one of the sentinels from ErrBusy to ErrDisk; nil if unknown
	Err  error  // the cause, if there is more to know
}

// Error returns what was done to which file, what went wrong and what to do next.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s in %s", e.Name, e.Op, e.Path)
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			fmt.Fprintf(&b, ": %v", err)
		}
	}
	if next := next(e.Kind); next != "" {
		fmt.Fprintf(&b, "; %s", next)
	}
	return b.String()
}

// Unwrap returns Kind and Err.
func (e *Error) Unwrap() []error {
	var list []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			list = append(list, err)
		}
	}
	return list
}

func next(kind error) string {
	switch kind {
	case ErrBusy:
		return "try again, or end the process that holds it"
	case ErrFull:
		return "free some space and try again"
	case ErrCorrupt:
		return "it was left as it is: restore a copy, or move it and its -wal and -shm files away to begin a new one, which will not know what this one did"
	case ErrRetired:
		return "it was left as it is: move it and its -wal and -shm files away to begin a new one, which will not know what this one did"
	case ErrForeign:
		return "it was left as it is: name another file"
	case ErrReadOnly:
		return "make the file and its directory writable"
	case ErrAccess:
		return "check that the path is a file in a directory you may write to"
	case ErrDisk:
		return "check the disk and the space left on it"
	}
	return ""
}

// NewerError: a later version of this program made the file. It was left as it is.
type NewerError struct {
	Name    string // of the database
	Path    string
	Version int // of the file
	Known   int // the newest this program can use
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s: open %s: it has version %d, this program knows versions up to %d; use the newer program", e.Name, e.Path, e.Version, e.Known)
}

// ValueError is a value that cannot be recorded or looked for. Nothing was done.
type ValueError struct {
	Name   string // of the database
	Field  string
	Reason string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("%s: %s %s; correct it and try again", e.Name, e.Field, e.Reason)
}

// MaxName limits the length of names, in bytes.
const MaxName = 4 << 10

// CheckNames takes values, each after the name that errors call it. It fails with
// *[ValueError] if one is blank or longer than [MaxName].
func CheckNames(db string, namesAndValues ...string) error {
	for pair := range slices.Chunk(namesAndValues, 2) {
		switch name, value := pair[0], pair[1]; {
		case strings.TrimSpace(value) == "":
			return &ValueError{Name: db, Field: name, Reason: "is blank"}
		case len(value) > MaxName:
			return &ValueError{Name: db, Field: name, Reason: fmt.Sprintf("has %d bytes, over %d", len(value), MaxName)}
		}
	}
	return nil
}

// fail adds path and kind to an error of SQLite. Other errors are returned as they are.
func (d *DB) fail(op string, err error) error {
	var raw *sqlite.Error
	if !errors.As(err, &raw) {
		return err
	}
	return d.error(op, kind(raw.Code()), err)
}

func (d *DB) error(op string, kind, err error) *Error {
	return &Error{Name: d.name, Op: op, Path: d.path, Kind: kind, Err: err}
}

// kind sorts SQLite's result codes, see https://sqlite.org/rescode.html.
func kind(code int) error {
	switch code & 0xff { // the rest says more precisely what the low byte says
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return ErrBusy
	case sqlite3.SQLITE_FULL:
		return ErrFull
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrCorrupt
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return ErrReadOnly
	case sqlite3.SQLITE_CANTOPEN:
		return ErrAccess
	case sqlite3.SQLITE_IOERR:
		return ErrDisk
	}
	return nil
}

func isBusy(err error) bool {
	var raw *sqlite.Error
	return errors.As(err, &raw) && kind(raw.Code()) == ErrBusy
}
