// Package socket listens on unix sockets whose path every system takes.
package socket

import (
	"fmt"
	"net"
	"os"
)

// MaxPath is the longest path of a socket, in bytes, that every system accepts: macOS has 104 with the final
// zero, Linux 108. A path that is longer is an "invalid argument" there.
const MaxPath = 103

// PathError says that the path of a socket is longer than [MaxPath].
type PathError struct{ Path string }

func (e *PathError) Error() string {
	return fmt.Sprintf("the path of the socket has %d bytes; the limit is %d: %s", len(e.Path), MaxPath, e.Path)
}

// Check returns a [*PathError] if a path is too long.
func Check(path string) error {
	if len(path) > MaxPath {
		return &PathError{path}
	}
	return nil
}

// Listen listens at path, where nothing may be. Only this user can connect.
func Listen(path string) (net.Listener, error) {
	if err := Check(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close() // which removes it
		return nil, err
	}
	return l, nil
}
