package bridge

import (
	"context"
	"errors"
	"testing"

	"teambridge/status/api"
	"teambridge/status/view"
)

// waitingWay is a way to an agent that waits for its person.
type waitingWay struct {
	way
	word string
}

func (w waitingWay) status(context.Context, *Target) ([]api.Status, error) {
	return []api.Status{{Member: "worker", Word: w.word, Why: "permission prompt"}}, nil
}

// The timeout error of a question says that the agent waits for its person.
func TestWhileAsked(t *testing.T) {
	t.Parallel()
	late := api.Decide(api.CodeTimeout, "the message stays sent", "timed out after 1m: no answer from worker")
	command := []api.Attention{
		{Member: "lead", Kind: api.WaitsTerminal, What: "waits for you", Do: "answer the lead"}, {Member: "worker", Kind: api.WaitsUnread, What: "has written", Do: "read it"},
		{Member: "worker", Kind: api.WaitsTerminal, What: "waits for you: permission prompt, to run `make`", Do: "answer it at its terminal"},
	}
	for _, c := range []struct {
		word       string
		err        error
		waits      []api.Attention
		want, hint string
	}{
		{api.WordWaiting, late, nil, "timed out after 1m: no answer from worker; worker waits for you: permission prompt", "the message stays sent"},
		{api.WordWaiting, late, command, "timed out after 1m: no answer from worker; worker waits for you: permission prompt, to run `make`", "answer it at its terminal; the message stays sent"},
		{api.WordWorking, late, command, late.Error(), "the message stays sent"},
		{api.WordWaiting, context.Canceled, command, context.Canceled.Error(), ""},
	} {
		err := whileAsked(t.Context(), waitingWay{word: c.word}, &Target{}, c.err, func(context.Context, string) ([]api.Attention, error) { return c.waits, nil })
		if err.Error() != c.want || !errors.Is(err, c.err) || c.hint != "" && view.Explain(err).Hint != c.hint {
			t.Errorf("%s: %q, %q, want %q, %q", c.word, err, view.Explain(err).Hint, c.want, c.hint)
		}
	}
	if err := whileAsked(t.Context(), waitingWay{}, &Target{}, nil, nil); err != nil {
		t.Error(err)
	}
}
