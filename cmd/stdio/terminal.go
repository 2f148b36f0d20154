package stdio

import (
	"os"

	"golang.org/x/term"
)

// Colourful reports whether f is a terminal, or another character device, and neither NO_COLOR (https://no-color.org)
// nor TERM=dumb is set.
func Colourful(f *os.File, lookup func(string) (string, bool)) bool {
	no, _ := lookup("NO_COLOR")
	term, _ := lookup("TERM")
	info, err := f.Stat()
	return no == "" && term != "dumb" && err == nil && info.Mode()&os.ModeCharDevice != 0
}

// IsTerminal reports whether f is a terminal, where a person types: /dev/null is none.
func IsTerminal(f *os.File) (is bool) {
	conn, err := f.SyscallConn() // f.Fd would make it block
	if err == nil {
		err = conn.Control(func(fd uintptr) { is = term.IsTerminal(int(fd)) })
	}
	return err == nil && is
}

// Columns returns the width of the terminal that f is, or 0 if it is none.
func Columns(f *os.File) (columns int) {
	conn, err := f.SyscallConn() // f.Fd would make it block
	if err == nil {
		err = conn.Control(func(fd uintptr) { columns, _, _ = term.GetSize(int(fd)) })
	}
	if err != nil {
		return 0
	}
	return max(columns, 0)
}
