package query_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"teambridge/relay/query"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/wire"
)

// Ask an agent, and ask again in the same session.
func ExampleClient_Query() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	client := query.New(query.Options{
		// A simulated agent, which repeats its messages: this test, run again with a
		// variable. Without these three, it is the claude of $PATH.
		Claude:     []string{os.Args[0]},
		ClaudeRoot: filepath.Join(dir, "claude"),
		Env:        append(os.Environ(), simchild.Script{}.Env(), "GORACE=atexit_sleep_ms=0"),
	})
	defer client.Close()

	in := query.Input{Prompt: "What is 2 + 2?", Cwd: dir, StreamingInput: true}
	more := func(yield func(query.Message) bool) { yield(query.Message{Text: "And 3 + 3?"}) }
	for event, err := range client.Query(context.Background(), in, more) {
		if err != nil {
			log.Fatal(err)
		}
		switch {
		case event.Envelope != nil:
			if text, ok := event.Envelope.Event.(*wire.Text); ok {
				fmt.Printf("%s: %s\n", event.Envelope.Role, text.Text)
			}
		case event.Result != nil:
			fmt.Println(event.Result.Status, "after", event.Result.Turns, "turns")
			in = query.Input{Prompt: "And 4 + 4?", Cwd: dir, SessionID: event.Result.SessionID}
		}
	}
	for event, err := range client.Query(context.Background(), in, nil) {
		if err != nil {
			log.Fatal(err)
		}
		if event.Result != nil {
			fmt.Println(event.Result.Text)
		}
	}
	// Output:
	// user: What is 2 + 2?
	// agent: ACK: What is 2 + 2?
	// user: And 3 + 3?
	// agent: ACK: And 3 + 3?
	// completed after 2 turns
	// ACK: And 4 + 4?
}
