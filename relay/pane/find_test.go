package pane

import (
	"errors"
	"slices"
	"testing"

	"teambridge/inbox"
	"teambridge/relay/tmux"
)

// A name that has passed to another session, as Claude Code renames sessions, means neither of the two.
func TestFindAfterRenaming(t *testing.T) {
	t.Parallel()
	session := func(id, name, title string) Pane {
		return Pane{InboxKey: inbox.InboxKey{Inbox: name}, Ref: tmux.Ref{ID: id}, Title: title}
	}
	for what, test := range map[string]struct {
		living, ended []Pane
		name, want    string   // an id
		several       []string // ids
	}{
		"as it was":            {living: []Pane{session("a", "work", "work"), session("b", "docs", "docs")}, name: "work", want: "a"},
		"swapped":              {living: []Pane{session("a", "work", "docs"), session("b", "docs", "work")}, name: "work", several: []string{"a", "b"}},
		"passed on":            {living: []Pane{session("a", "work", "docs"), session("b", "work-b", "work")}, name: "work", several: []string{"a", "b"}},
		"the same title":       {living: []Pane{session("a", "work", "work"), session("b", "work-b", "work")}, name: "work", want: "a"},
		"renamed":              {living: []Pane{session("a", "work", "docs")}, name: "docs", want: "a"},
		"renamed, by old name": {living: []Pane{session("a", "work", "docs")}, name: "work", want: "a"},
		"that of an ended one": {living: []Pane{session("b", "work", "work")}, ended: []Pane{session("a", "work", "")}, name: "work", want: "b"},
	} {
		got, err := find(test.name, slices.Concat(test.living, test.ended), test.living)
		e, _ := errors.AsType[*SessionError](err)
		if test.several == nil && (err != nil || got.Ref.ID != test.want) {
			t.Errorf("%s: got %s, %v; want %s", what, got.Ref.ID, err, test.want)
		} else if test.several != nil && (e == nil || !e.Several || !slices.Equal(e.Choices(), test.several)) {
			t.Errorf("%s: got %s, %v; want that %s are called so", what, got.Ref.ID, err, test.several)
		}
	}
}
