package bridge

import (
	"context"
	"errors"
	"testing"

	"teambridge/status/api"
)

// waitingWay is a way to an agent that waits for its person.
type waitingWay struct {
	way
	word string
}

func (w waitingWay) status(context.Context, *Target) ([]api.Status, error) {
	return []api.Status{{Member: "worker", Word: w.word, Why: "permission prompt"}}, nil
}

// That there was no answer in time says that the agent waits for its person.
func TestWhileAsked(t *testing.T) {
	t.Parallel()
	late := api.Decide(api.CodeTimeout, "the message stays sent", "timed out after 1m: no answer from worker")
	for _, c := range []struct {
		word string
		err  error
		want string
	}{
		{api.WordWaiting, late, "timed out after 1m: no answer from worker; worker waits for you: permission prompt"},
		{api.WordWorking, late, late.Error()},
		{api.WordWaiting, context.Canceled, context.Canceled.Error()},
	} {
		err := whileAsked(t.Context(), waitingWay{word: c.word}, &Target{}, c.err)
		if err.Error() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, want %q", c.word, err, c.want)
		}
	}
	if err := whileAsked(t.Context(), waitingWay{}, &Target{}, nil); err != nil {
		t.Error(err)
	}
}
