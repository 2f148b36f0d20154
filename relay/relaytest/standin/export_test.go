package standin

import (
	"context"
	"path/filepath"

	"teambridge/relay/process"
)

// Strays returns the processes that a home left running.
func Strays(h *Home) []int { return process.FindByEnv(h.Mark()) }

// Alive reports whether a process of that id is there.
func Alive(pid int) bool { return exists(pid) }

// SocketDir is the folder of a terminal's tmux socket.
func SocketDir(p *Terminal) string { return filepath.Dir(p.Socket) }

// Poll waits for a condition without an event.
func Poll(ctx context.Context, ask func() (bool, error)) error { return poll(ctx, ask) }
