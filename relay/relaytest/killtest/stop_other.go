//go:build !unix

package killtest

// Without the signals of Unix, no process is stopped.
func stopAt(string) {}
