//go:build !linux && !darwin

package wake

import (
	"context"
	"os"
)

// Supported reports whether this system has the waiting hook. The hook was tested on none of these systems.
const Supported = false

func unread(*os.File) int32 { return 0 }

func gone(Session) bool { return false }

// Exited does not wait.
func Exited(context.Context, int) bool { return false }
