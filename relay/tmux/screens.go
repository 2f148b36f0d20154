package tmux

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Screens returns the visible state of panes of one server: tmux's data about each pane, and its screen. A
// difference shows that something has changed. It calls tmux twice, whatever the number of panes, and omits
// panes that are gone.
func Screens(ctx context.Context, socket string, refs ...Ref) (map[Ref]string, error) {
	seen := map[Ref]string{}
	panes, err := List(ctx, socket)
	if errors.Is(err, ErrNoServer) || err != nil && isMissing(err) {
		return seen, nil
	}
	if err != nil {
		return nil, err
	}
	var command []string
	var there []Pane
	for _, r := range refs {
		for _, p := range panes {
			if p.Ref == r {
				there = append(there, p)
				command = append(command, ";", "capture-pane", "-p", "-e", "-t", r.ID)
				break // a window that is linked into two sessions is listed twice
			}
		}
	}
	if len(there) == 0 {
		return seen, nil
	}
	out, err := run(ctx, socket, nil, command[1:]...)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(out, "\n")
	for _, p := range there {
		if len(lines) < p.Height {
			return nil, fmt.Errorf("tmux: screen of %s: it has less than %d lines", p.ID, p.Height)
		}
		seen[p.Ref] = fmt.Sprintf("%+v\n%s", p, strings.Join(lines[:p.Height], ""))
		lines = lines[p.Height:]
	}
	return seen, nil
}
