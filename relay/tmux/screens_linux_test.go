package tmux

import (
	"strings"
	"testing"
)

// The screens of panes are equal as long as nothing changes there, and each pane has its own screen.
func TestScreensOfPanes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.tmux("set-option", "-wg", "automatic-rename", "off") // half a second after the start of a program, which is a change
	a, b := s.start(""), s.start("", "draft of b")
	s.tmux("set-option", "-g", "automatic-rename", "off")           // tmux would name windows after their programs half a second later
	s.tmux("resize-window", "-t", a.ref.ID, "-x", "90", "-y", "30") // screens of two heights
	see := func() map[Ref]string {
		t.Helper()
		seen, err := Screens(t.Context(), s.Socket, a.ref, b.ref)
		must(t, err)
		return seen
	}
	var first map[Ref]string
	s.until("the screens", func() bool {
		first = see()
		return strings.Contains(first[b.ref], "of b") && strings.Contains(first[b.ref], "? for shortcuts") && strings.Contains(first[a.ref], "? for shortcuts")
	})
	if strings.Contains(first[a.ref], "of b") {
		t.Errorf("the screen of one has that of the other:\n%s", first[a.ref])
	}
	a.do("busy")
	var second map[Ref]string
	s.until("that it works", func() bool { second = see(); return strings.Contains(second[a.ref], "esc to interrupt") })
	if second[a.ref] == first[a.ref] || second[b.ref] != first[b.ref] {
		t.Errorf("after a change in one of them, they show\n%s\nand\n%s", second[a.ref], second[b.ref])
	}
	s.tmux("kill-pane", "-t", b.ref.ID)
	if third := see(); len(third) != 1 || third[a.ref] == "" {
		t.Errorf("after one has gone: %v", third)
	}
	if none, err := Screens(t.Context(), s.socket("nobody"), a.ref); err != nil || len(none) != 0 {
		t.Errorf("of no server: %v, %v", none, err)
	}
}
