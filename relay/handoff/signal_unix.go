//go:build unix

package handoff

import (
	"os"
	"syscall"
)

// endSignals are sent to end a program. A stopped program receives the first only after the second.
var endSignals = []os.Signal{syscall.SIGTERM, syscall.SIGCONT}
