//go:build !linux && !darwin

package wake

import (
	"context"
	"os"
)

// Supported says that this system has the waiting hook. It was measured with none of the others.
const Supported = false

func unread(*os.File) int32 { return 0 }

func gone(Session) bool { return false }

// Exited does nothing.
func Exited(context.Context, int) bool { return false }
