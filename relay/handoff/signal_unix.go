//go:build unix

package handoff

import (
	"os"
	"syscall"
)

// endSignals ask a program to end. One that is stopped would not see the first without the second.
var endSignals = []os.Signal{syscall.SIGTERM, syscall.SIGCONT}
