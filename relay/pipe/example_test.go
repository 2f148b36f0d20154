package pipe_test

import (
	"context"
	"errors"
	"fmt"

	"teambridge/relay/pipe"
)

func ExampleQueue() {
	q, err := pipe.NewQueue(pipe.Options[string]{
		MaxItems: 64, // at most so many claimed ahead
		MaxBatch: 10, MaxBytes: 64 << 10, Size: func(s string) int { return len(s) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mode := pipe.Mode{PermissionMode: pipe.Set("default")}
	push := func(text string, change pipe.Mode) {
		mode = mode.Merge(change)
		if err := q.Push(text, mode); err != nil {
			fmt.Println(err)
		}
	}
	push("look at the log", pipe.Mode{})
	push("and at the code", pipe.Mode{})
	push("think again", pipe.Mode{Model: pipe.Set("opus")})
	if err := q.PushIsolated("/compact", mode); err != nil {
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

func ExampleParseMode() {
	mode, err := pipe.ParseMode([]byte(`{"model": "sonnet", "permissionMode": "default"}`))
	fmt.Println(mode.Hash(), err)
	_, err = pipe.ParseMode([]byte(`{"permissionmode": "plan"}`))
	fmt.Println(err)
	// Output:
	// 55fa6c612ece7172d2be7af6db147db560c78c38f5a170f848adb1ea6fa449a3 <nil>
	// pipe: mode: "permissionmode": is no setting of a mode, must be one of allowedTools, appendSystemPrompt, customSystemPrompt, disallowedTools, fallbackModel, model, permissionMode
}
