package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// A Value is what goes into and comes out of the database: nil, int64, float64,
// string or []byte.
type Value = driver.Value

// Conn is the one connection of a [DB], for the time of one call of Do. It
// speaks to the driver, not through database/sql: in a process that opens,
// writes twice and ends, the pool with its goroutines took 0.75 ms of 3.5 ms.
type Conn struct {
	conn driver.Conn
	kept map[string]driver.Stmt // see Statement
}

// Exec runs query, which may be several statements, and tells how many rows the
// last of them changed.
func (c *Conn) Exec(query string, args ...Value) (int64, error) {
	// No context: with one that can end, the driver starts a goroutine for
	// each statement. Do looks at the context between statements.
	result, err := c.conn.(driver.ExecerContext).ExecContext(context.Background(), query, named(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query calls row with each row of the answer. The values are row's to keep,
// the slice is not.
func (c *Conn) Query(row func([]Value) error, query string, args ...Value) error {
	rows, err := c.conn.(driver.QueryerContext).QueryContext(context.Background(), query, named(args))
	if err != nil {
		return err
	}
	return each(rows, row)
}

// Number answers a query for one integer, with 0 if there is no row.
func (c *Conn) Number(query string, args ...Value) (n int64, err error) {
	err = c.Query(func(v []Value) error {
		n, _ = v[0].(int64)
		return nil
	}, query, args...)
	return n, err
}

// Statement returns a single statement that is parsed once and kept for the
// life of the connection: for those that are run often. It must not be used
// again while its own rows are being read.
func (c *Conn) Statement(query string) (Statement, error) {
	if s, ok := c.kept[query]; ok {
		return Statement{s}, nil
	}
	s, err := c.conn.Prepare(query)
	if err != nil {
		return Statement{}, err
	}
	if c.kept == nil {
		c.kept = map[string]driver.Stmt{}
	}
	c.kept[query] = s
	return Statement{s}, nil
}

// A Statement belongs to the [Conn] that it is from.
type Statement struct{ stmt driver.Stmt }

// Exec is [Conn.Exec].
func (s Statement) Exec(args ...Value) (int64, error) {
	result, err := s.stmt.(driver.StmtExecContext).ExecContext(context.Background(), named(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query is [Conn.Query].
func (s Statement) Query(row func([]Value) error, args ...Value) error {
	rows, err := s.stmt.(driver.StmtQueryContext).QueryContext(context.Background(), named(args))
	if err != nil {
		return err
	}
	return each(rows, row)
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
		list = append(list, s.Close())
	}
	return errors.Join(append(list, c.conn.Close())...)
}

func each(rows driver.Rows, row func([]Value) error) (err error) {
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	values := make([]Value, len(rows.Columns()))
	for {
		switch err := rows.Next(values); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
}

func named(args []Value) []driver.NamedValue {
	list := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	return list
}
