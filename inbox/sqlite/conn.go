package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// A Value is an argument of a query: nil, int, int64, bool, float64, string or []byte.
// A nil []byte is empty, not NULL.
type Value = driver.Value

// A Row is one row of the answer to a query. Its methods return column i, from 0, or the
// zero value if it is NULL or of another type. Byte slices are the caller's to keep, the
// row itself is not.
type Row []Value

func (r Row) Text(i int) string {
	s, _ := r[i].(string)
	return s
}

func (r Row) Int(i int) int64 {
	n, _ := r[i].(int64)
	return n
}

func (r Row) Bool(i int) bool { return r.Int(i) != 0 }

// Blob returns nil if the column is empty.
func (r Row) Blob(i int) []byte {
	b, _ := r[i].([]byte)
	if len(b) == 0 {
		return nil
	}
	return b
}

// Time returns a time that is stored as microseconds since 1970, in UTC.
func (r Row) Time(i int) time.Time {
	n, ok := r[i].(int64)
	if !ok {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// Conn is the one connection of a [DB], for the time of one call of Do. It
// speaks to the driver, not through database/sql: in a process that opens,
// writes twice and ends, the pool with its goroutines took 0.75 ms of 3.5 ms.
//
// A query is parsed once and kept for the life of the connection, and so is a statement with
// arguments.
type Conn struct {
	conn driver.Conn
	kept map[string]*statement
}

type statement struct {
	stmt  driver.Stmt
	inUse bool // its rows are being read
}

// maxKept limits how many statements are kept. Queries whose text depends on what is
// asked for have far fewer forms.
const maxKept = 256

// connect opens the file: URI.
func connect(ctx context.Context, uri string) (*Conn, error) {
	connector, err := sqlite.NewConnector(uri)
	if err != nil {
		return nil, err
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &Conn{conn: c, kept: map[string]*statement{}}, nil
}

// Exec runs query and returns how many rows it changed. Without arguments it may be
// several statements, of which the last one counts.
func (c *Conn) Exec(query string, args ...Value) (changed int64, err error) {
	err = c.run(query, args, len(args) > 0, func(s driver.Stmt, values []driver.NamedValue) error {
		// No context: with one that can end, the driver starts a goroutine for
		// each statement. Do looks at the context between statements.
		result, err := s.(driver.StmtExecContext).ExecContext(context.Background(), values)
		if err != nil {
			return err
		}
		changed, err = result.RowsAffected()
		return err
	})
	return changed, err
}

// Query calls row with each row of the answer.
func (c *Conn) Query(row func(Row), query string, args ...Value) error {
	// SQLite runs some PRAGMAs when it parses them, so they must not be kept.
	keep := !strings.HasPrefix(query, "PRAGMA")
	return c.run(query, args, keep, func(s driver.Stmt, values []driver.NamedValue) error {
		rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), values)
		if err != nil {
			return err
		}
		return each(rows, row)
	})
}

// run calls f with query as a statement, which it may keep, and with its arguments.
func (c *Conn) run(query string, args []Value, keep bool, f func(driver.Stmt, []driver.NamedValue) error) (err error) {
	s := c.kept[query]
	if s == nil || s.inUse {
		stmt, err := c.conn.Prepare(query)
		if err != nil {
			return err
		}
		if s != nil || !keep || len(c.kept) >= maxKept {
			return errors.Join(f(stmt, named(args)), stmt.Close())
		}
		s = &statement{stmt: stmt}
		c.kept[query] = s
	}
	s.inUse = true
	defer func() { s.inUse = false }()
	return f(s.stmt, named(args))
}

// Number answers a query for one integer, with 0 if there is no row.
func (c *Conn) Number(query string, args ...Value) (n int64, err error) {
	err = c.Query(func(r Row) { n = r.Int(0) }, query, args...)
	return n, err
}

// All returns what scan makes of each row of an answer.
func All[T any](c *Conn, scan func(Row) T, query string, args ...Value) (list []T, err error) {
	err = c.Query(func(r Row) { list = append(list, scan(r)) }, query, args...)
	return list, err
}

// One returns what scan makes of the last row of an answer, and whether there is one.
func One[T any](c *Conn, scan func(Row) T, query string, args ...Value) (v T, found bool, err error) {
	err = c.Query(func(r Row) { v, found = scan(r), true }, query, args...)
	return v, found, err
}

// Select is [All] as a call of its own of [DB.Do].
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

// Number is [Conn.Number] as a call of its own of [DB.Do].
func (d *DB) Number(ctx context.Context, op, query string, args ...Value) (n int64, err error) {
	err = d.Do(ctx, op, func(c *Conn) (err error) {
		n, err = c.Number(query, args...)
		return err
	})
	return n, err
}

// Transaction runs f between BEGIN and COMMIT, or ROLLBACK if it fails. begin
// is what SQLite calls the kind: DEFERRED for one that only reads, IMMEDIATE
// for one that writes, EXCLUSIVE.
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

func (c *Conn) readOnly() (bool, error) {
	return c.conn.(interface{ IsReadOnly(string) (bool, error) }).IsReadOnly("main")
}

func (c *Conn) close() error {
	var list []error
	for _, s := range c.kept {
		list = append(list, s.stmt.Close())
	}
	return errors.Join(append(list, c.conn.Close())...)
}

func each(rows driver.Rows, row func(Row)) (err error) {
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	values := make(Row, len(rows.Columns()))
	for {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		row(values)
	}
}

func named(args []Value) []driver.NamedValue {
	list := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case int:
			arg = int64(v)
		case bool:
			arg = int64(0)
			if v {
				arg = int64(1)
			}
		case []byte:
			if v == nil {
				arg = []byte{}
			}
		}
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	return list
}
