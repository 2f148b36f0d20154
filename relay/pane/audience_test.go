package pane

import (
	"errors"
	"slices"
	"teambridge/inbox"
	"testing"
)

// A message to all panes goes neither to excluded panes nor to its sender, and an unknown name
// is an error.
func TestAudience(t *testing.T) {
	t.Parallel()
	var list []Pane
	for _, name := range []string{"build", "test", "user"} {
		list = append(list, Pane{InboxKey: inbox.InboxKey{Team: Team, Inbox: name}})
	}
	for _, c := range []struct {
		from   string
		except []string
		want   []string
	}{
		{"", nil, []string{"build", "test", "user"}},
		{"user", nil, []string{"build", "test", "user"}}, // the person, whatever a pane is called
		{"build", nil, []string{"test", "user"}},
		{"build@tmux", []string{"user"}, []string{"test"}},
		{"build@crew", nil, []string{"build", "test", "user"}},
		{"worker", []string{"build", "test"}, []string{"user"}},
	} {
		to, err := Audience(list, c.from, c.except)
		var names []string
		for _, p := range to {
			names = append(names, p.Inbox)
		}
		if err != nil || !slices.Equal(names, c.want) {
			t.Errorf("from %q, except %q: %q, %v; want %q", c.from, c.except, names, err, c.want)
		}
	}
	sessions := []Pane{{InboxKey: inbox.InboxKey{Team: SessionTeam, Inbox: "web"}}, {InboxKey: inbox.InboxKey{Team: SessionTeam, Inbox: "api"}}}
	if to, err := Audience(sessions, "web@"+SessionTeam, nil); err != nil || len(to) != 1 || to[0].Inbox != "api" {
		t.Errorf("from a session: %+v, %v", to, err)
	}
	if len(list) != 3 || list[0].Inbox != "build" {
		t.Errorf("the list was changed: %+v", list)
	}
	if _, err := Audience(list, "biuld", []string{"biuld"}); !errors.As(err, new(*NotFoundError)) {
		t.Errorf("a name that no pane has: %v", err)
	}
}
