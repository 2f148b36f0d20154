package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
)

// Kinds of errors that callers distinguish.
var (
	// ErrClosed: the database was closed.
	ErrClosed = errors.New("closed")

	// ErrBusy: other processes kept the file locked for the allowed time.
	ErrBusy = errors.New("locked by another process")
	// ErrFull: the disk, or the owner's quota, is full.
	ErrFull = errors.New("disk full")
	// ErrCorrupt: the file is damaged, or not a database.
	ErrCorrupt = errors.New("not a database, or a damaged one")
	// ErrForeign: the file is another program's database.
	ErrForeign = errors.New("a database of something else")
	// ErrDevelopment: the file has a mark of [Format.Development].
	ErrDevelopment = errors.New("made by a development version of teambridge, from before the first release")
	// ErrMoved: the file was moved away, replaced or deleted while it was open.
	ErrMoved = errors.New("moved away, replaced or deleted while it was open")
	// ErrReadOnly: the file can be read but not written.
	ErrReadOnly = errors.New("read-only")
	// ErrAccess: the file cannot be opened or created.
	ErrAccess = errors.New("cannot be opened")
	// ErrDisk: the operating system failed to read or write.
	ErrDisk = errors.New("input/output error")
)

// Error is a failure of the database file itself.
type Error struct {
	Name string // of the database: ledger, journal
	Op   string // the operation: open, intend, search …
	Path string // the file
	Kind error  // one of the sentinels from ErrBusy to ErrDisk; nil if unknown
	Err  error  // the cause, if known

	// Users are other processes that have the file open, if they must close it before a person can replace it.
	// UsersKnown is false if the system does not report them.
	Users      []Process
	UsersKnown bool

	lost string // [Format.Lost]
}

// Error describes the operation, the file, the fault and what to do next.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s in %s", e.Name, e.Op, e.Path)
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			fmt.Fprintf(&b, ": %v", err)
		}
	}
	if next := e.next(); next != "" {
		fmt.Fprintf(&b, "; %s", next)
	}
	return b.String()
}

// end says which processes must end before a person moves the file. A process that continues would write to a file
// that no other process opens.
func (e *Error) end() string {
	switch {
	case !e.UsersKnown:
		return "end all teambridge processes, the service too"
	case len(e.Users) == 0:
		return ""
	}
	var list []string
	for _, p := range e.Users {
		list = append(list, p.String())
	}
	return "end " + strings.Join(list, " and ")
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

func (e *Error) next() string {
	end := e.end()
	first := ""
	if end != "" {
		first = "first " + end + ", then "
	}
	switch e.Kind {
	case ErrBusy:
		return "try again, or end the process that holds it"
	case ErrFull:
		return "free some space and try again"
	case ErrCorrupt:
		return "it was left as it is: " + first + "restore a copy, or move it and its -wal and -shm files away to begin a new one" + e.loss()
	case ErrForeign:
		return "it was left as it is: name another file, or " + first + "move it away"
	case ErrDevelopment:
		return "it was left as it is: " + first + "move it and its -wal and -shm files away to begin a new one" + e.loss()
	case ErrMoved:
		return "it is not used any more, since what is recorded in it would be lost: move it back if that was a mistake, and start again"
	case ErrReadOnly:
		return "make the file and its directory writable"
	case ErrAccess:
		return "check that the path is a file in a directory you may write to"
	case ErrDisk:
		return "check the disk and the space left on it"
	}
	return ""
}

func (e *Error) loss() string {
	if e.lost == "" {
		return ""
	}
	return "; " + e.lost
}

// NewerError: a later version of this program made the file. The file was not changed.
type NewerError struct {
	Name    string // of the database
	Path    string
	Version int // of the file
	Known   int // the newest this program can use
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s: open %s: it has version %d, this program knows versions up to %d; use the newer program", e.Name, e.Path, e.Version, e.Known)
}

// ValueError is a value that cannot be recorded or searched for. Nothing was changed.
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

// CheckNames takes pairs of a name for errors and a value. It fails with *[ValueError] if a value is blank or longer
// than [MaxName].
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
	if err == ErrForeign || err == ErrDevelopment { // from versionOf
		return d.error(op, err, nil)
	}
	var raw *sqlError
	if !errors.As(err, &raw) {
		return err
	}
	return d.error(op, kind(sqlite.ErrCode(raw.error)), err)
}

func (d *DB) error(op string, kind, err error) *Error {
	e := &Error{Name: d.format.Name, Op: op, Path: d.path, Kind: kind, Err: err, lost: d.format.Lost}
	switch kind {
	case ErrCorrupt, ErrForeign, ErrDevelopment:
		e.Users, e.UsersKnown = Users(d.path)
	}
	return e
}

// An sqlError is an error of SQLite, for which its package has no type.
type sqlError struct{ error }

func (e *sqlError) Unwrap() error { return e.error }

// ofSQLite marks an error of SQLite, for [DB.fail].
func ofSQLite(err error) error {
	if err == nil {
		return nil
	}
	return &sqlError{err}
}

// kind sorts SQLite's result codes, see https://sqlite.org/rescode.html.
func kind(code sqlite.ResultCode) error {
	switch code.ToPrimary() { // the other bytes only add detail
	case sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultProtocol:
		return ErrBusy
	case sqlite.ResultFull:
		return ErrFull
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return ErrCorrupt
	case sqlite.ResultReadOnly, sqlite.ResultPerm:
		return ErrReadOnly
	case sqlite.ResultCantOpen:
		return ErrAccess
	case sqlite.ResultIOErr:
		return ErrDisk
	}
	return nil
}

func isBusy(err error) bool {
	return err != nil && kind(sqlite.ErrCode(err)) == ErrBusy
}
