package pane

import (
	"testing"

	"teambridge/relay/tmux"
)

// A message that an agent has is never sent again, and one that it may have is not sent while that is uncertain.
func TestDecide(t *testing.T) {
	t.Parallel()
	held := hold{why: tmux.Dialog}
	for _, test := range []struct {
		name string
		f    facts
		want action
	}{
		{"nothing stands against it", facts{}, give},
		{"it is held", facts{hold: held}, keep},
		{"it is shown", facts{shown: true}, confirm},
		{"it is shown, whatever else is so", facts{shown: true, refused: "no", absent: "gone", hold: held, last: true, pending: true}, confirm},
		{"it is shown with another text", facts{shown: true, altered: true}, giveUp},
		{"the look was broken off", facts{pending: true, absent: "gone", hold: held, last: true}, leave},
		{"its person refuses it", facts{refused: "no", absent: "gone", hold: held}, refuse},
		{"the agent does not have it", facts{absent: "gone"}, takeBack},
		{"the agent does not have it, and is to rest", facts{absent: "dropped", hold: held}, takeBack},
		{"it may be shown yet, and is not given again", facts{hold: held, last: true}, keep},
		{"nothing shows it", facts{last: true}, giveUp},
	} {
		if got := decide(test.f); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
