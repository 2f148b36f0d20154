//go:build !linux

package stdio

import (
	"context"
	"os"
)

// HangUp does nothing: here only the next write shows that the reader has gone away.
func HangUp(context.Context, *os.File) bool { return false }
