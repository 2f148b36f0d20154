package stdio

import "os"

// Colourful reports whether f is a terminal, and neither NO_COLOR (https://no-color.org)
// nor TERM=dumb is set.
func Colourful(f *os.File, lookup func(string) (string, bool)) bool {
	no, _ := lookup("NO_COLOR")
	term, _ := lookup("TERM")
	return no == "" && term != "dumb" && IsTerminal(f)
}

// IsTerminal reports whether f is a terminal, or another character device.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
