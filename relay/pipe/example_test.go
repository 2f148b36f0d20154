package pipe_test

import (
	"context"
	"errors"
	"fmt"

	"teambridge/relay/mode"
	"teambridge/relay/pipe"
)

func ExampleQueue() {
	q, err := pipe.NewQueue(pipe.Options[string]{
		MaxItems: 64, // the most that are claimed ahead
		MaxBatch: 10, MaxBytes: 64 << 10, Size: func(s string) int { return len(s) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	current := mode.Mode{PermissionMode: mode.Set("default")}
	push := func(text string, change mode.Mode) {
		current = current.Merge(change)
		if err := q.Push(text, current); err != nil {
			fmt.Println(err)
		}
	}
	push("look at the log", mode.Mode{})
	push("and at the code", mode.Mode{})
	push("think again", mode.Mode{Model: mode.Set("opus")})
	if err := q.PushIsolated("/compact", current); err != nil {
		fmt.Println(err)
	}
	q.Close()
	for {
		batch, err := q.Next(context.Background())
		if errors.Is(err, pipe.ErrClosed) {
			return
		}
		fmt.Printf("%q %s\n", batch.Items, batch.Mode)
	}
	// Output:
	// ["look at the log" "and at the code"] {"permissionMode":"default"}
	// ["think again"] {"model":"opus","permissionMode":"default"}
	// ["/compact"] {"model":"opus","permissionMode":"default"}
}

func ExampleStream() {
	s := pipe.NewStream[string](0)
	for _, line := range []string{"one", "two"} {
		if err := s.Push(line); err != nil {
			fmt.Println(err)
		}
	}
	s.Fail(errors.New("the disk is full"))
	for line, err := range s.All(context.Background()) {
		if err != nil {
			fmt.Println("error:", err)
			break
		}
		fmt.Println(line)
	}
	// Output:
	// one
	// two
	// error: the disk is full
}
