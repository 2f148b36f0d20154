package sqlite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
)

// A Value is an argument of a query: nil, int, int64, bool, float64, string or []byte.
// A nil []byte is empty, not NULL.
type Value = any

// A Row is one row of a query's result. Its methods return column i, from 0, or the zero value if it is NULL
// or of another type. Byte slices may be kept; the row itself may not.
type Row struct{ stmt *sqlite.Stmt }

func (r Row) is(i int, t sqlite.ColumnType) bool { return r.stmt.ColumnType(i) == t }

func (r Row) Text(i int) string {
	if !r.is(i, sqlite.TypeText) {
		return ""
	}
	return r.stmt.ColumnText(i)
}

func (r Row) Int(i int) int64 {
	if !r.is(i, sqlite.TypeInteger) {
		return 0
	}
	return r.stmt.ColumnInt64(i)
}

func (r Row) Bool(i int) bool { return r.Int(i) != 0 }

// Blob returns nil if the column is empty.
func (r Row) Blob(i int) []byte {
	if !r.is(i, sqlite.TypeBlob) || r.stmt.ColumnLen(i) == 0 {
		return nil
	}
	b := make([]byte, r.stmt.ColumnLen(i))
	r.stmt.ColumnBytes(i, b)
	return b
}

// Time returns a time that is stored as microseconds since 1970, in UTC.
func (r Row) Time(i int) time.Time {
	if !r.is(i, sqlite.TypeInteger) {
		return time.Time{}
	}
	return time.UnixMicro(r.stmt.ColumnInt64(i)).UTC()
}

// Conn is the one connection of a [DB], valid during one call of Do.
//
// Queries, and statements with arguments, are parsed once and kept as long as the connection.
type Conn struct {
	conn *sqlite.Conn
	kept map[string]*statement

	functions map[string]bool // by name: see Function
}

type statement struct {
	stmt  *sqlite.Stmt
	inUse bool // a query reads its rows
}

// maxKept limits the kept statements. Queries whose text depends on the request have far fewer variants.
const maxKept = 256

// connect opens the file: URI.
func connect(uri string) (*Conn, error) {
	c, err := sqlite.OpenConn(uri, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenURI)
	if err != nil {
		return nil, ofSQLite(err)
	}
	c.SetBusyTimeout(0) // see [DB.Do]
	return &Conn{conn: c, kept: map[string]*statement{}, functions: map[string]bool{}}, nil
}

// Exec runs query and returns how many rows it changed. Without arguments, query may be several statements,
// of which the last one counts.
func (c *Conn) Exec(query string, args ...Value) (changed int64, err error) {
	if len(args) > 0 {
		err = c.run(query, args, true, nil)
		return int64(c.conn.Changes()), err
	}
	for query = strings.TrimSpace(query); query != "" && err == nil; query = strings.TrimSpace(query) {
		stmt, rest, e := c.conn.PrepareTransient(query)
		if e != nil {
			return 0, ofSQLite(e)
		}
		err = step(stmt, nil, nil)
		_ = stmt.Finalize() // repeats the error of step
		query = query[len(query)-rest:]
	}
	return int64(c.conn.Changes()), err
}

// Query calls row with each row of the result. SQLite prepares a statement with "LIMIT ?" again for each value, which takes
// longer than most queries: use "LIMIT ?+0", and "=+?" for a column that the WHERE of an index compares.
func (c *Conn) Query(row func(Row), query string, args ...Value) error {
	// SQLite runs some PRAGMAs while it parses them, so they must not be kept.
	return c.run(query, args, !strings.HasPrefix(query, "PRAGMA"), row)
}

// run calls row with each row of the result, and may keep the query as a statement.
func (c *Conn) run(query string, args []Value, keep bool, row func(Row)) (err error) {
	s := c.kept[query]
	if s == nil || s.inUse {
		stmt, _, err := c.conn.PrepareTransient(query)
		if err != nil {
			return ofSQLite(err)
		}
		if s != nil || !keep || len(c.kept) >= maxKept {
			defer stmt.Finalize() // repeats the error of step
			return step(stmt, row, args)
		}
		s = &statement{stmt: stmt}
		c.kept[query] = s
	}
	s.inUse = true
	defer func() { s.inUse = false }()
	return step(s.stmt, row, args)
}

// step calls row with each row of the result, and resets the statement.
func step(stmt *sqlite.Stmt, row func(Row), args []Value) error {
	for i, arg := range args {
		switch v := arg.(type) {
		case nil:
			stmt.BindNull(i + 1)
		case int:
			stmt.BindInt64(i+1, int64(v))
		case int64:
			stmt.BindInt64(i+1, v)
		case bool:
			stmt.BindBool(i+1, v)
		case float64:
			stmt.BindFloat(i+1, v)
		case string:
			stmt.BindText(i+1, v)
		case []byte:
			stmt.BindBytes(i+1, v)
		default:
			return fmt.Errorf("sqlite: argument %d is a %T", i+1, arg)
		}
	}
	for {
		switch more, err := stmt.Step(); {
		case err != nil:
			return ofSQLite(err)
		case !more:
			return ofSQLite(stmt.Reset())
		case row != nil:
			row(Row{stmt})
		}
	}
}

// Function lets queries call of, which must depend on its argument alone, by a name. A second call with the name does
// nothing.
func (c *Conn) Function(name string, of func(text string) string) error {
	if c.functions[name] {
		return nil
	}
	c.functions[name] = true
	return c.conn.CreateFunction(name, &sqlite.FunctionImpl{NArgs: 1, Deterministic: true, Scalar: func(_ sqlite.Context, args []sqlite.Value) (sqlite.Value, error) {
		return sqlite.TextValue(of(args[0].Text())), nil
	}})
}

// Number returns the one integer that a query selects, or 0 if there is no row.
func (c *Conn) Number(query string, args ...Value) (n int64, err error) {
	err = c.Query(func(r Row) { n = r.Int(0) }, query, args...)
	return n, err
}

// All returns the result of a query, with each row converted by scan.
func All[T any](c *Conn, scan func(Row) T, query string, args ...Value) (list []T, err error) {
	err = c.Query(func(r Row) { list = append(list, scan(r)) }, query, args...)
	return list, err
}

// One returns the last row of a query's result, converted by scan, and whether there is one.
func One[T any](c *Conn, scan func(Row) T, query string, args ...Value) (v T, found bool, err error) {
	err = c.Query(func(r Row) { v, found = scan(r), true }, query, args...)
	return v, found, err
}

// Select is [All] in its own call of [DB.Do].
func Select[T any](ctx context.Context, d *DB, op string, scan func(Row) T, query string, args ...Value) (list []T, err error) {
	err = d.Do(ctx, op, func(c *Conn) (err error) {
		list, err = All(c, scan, query, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Number is [Conn.Number] in its own call of [DB.Do].
func (d *DB) Number(ctx context.Context, op, query string, args ...Value) (n int64, err error) {
	err = d.Do(ctx, op, func(c *Conn) (err error) {
		n, err = c.Number(query, args...)
		return err
	})
	return n, err
}

// Transaction runs f between BEGIN and COMMIT, or ROLLBACK if f fails. begin is SQLite's name of the kind:
// DEFERRED for reading, IMMEDIATE for writing, or EXCLUSIVE.
func (c *Conn) Transaction(begin string, f func() error) (err error) {
	if _, err := c.Exec("BEGIN " + begin); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = c.Exec("ROLLBACK") // without effect where SQLite did it
		}
	}()
	if err := f(); err != nil {
		return err
	}
	_, err = c.Exec("COMMIT")
	return err
}

func (c *Conn) close() error {
	for _, s := range c.kept {
		_ = s.stmt.Finalize()
	}
	return ofSQLite(c.conn.Close())
}
