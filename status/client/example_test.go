package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Send a message through the service of ~/.claude, and wait until its agent has
// taken it.
func Example() {
	ctx := context.Background()
	home, err := os.UserHomeDir()
	if err != nil {
		log.Fatal(err)
	}
	c, err := client.Find(filepath.Join(home, ".local", "state", "teambridge"), filepath.Join(home, ".claude"))
	if errors.Is(err, fs.ErrNotExist) {
		log.Fatal("start it with: teambridge serve")
	}
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	// With an id of its own, the message can be sent again after any failure: it is sent once.
	sent, err := c.Send(ctx, "myteam", "worker", "review-12", api.NewMessage{Text: "please review task 12"})
	if err != nil {
		if p, ok := errors.AsType[*api.Problem](err); ok {
			log.Fatalf("%s (%s): %s", p.Detail, p.Code, p.Hint)
		}
		log.Fatal(err)
	}
	sent, err = c.Await(ctx, sent, api.Consumed, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sent.State, sent.WaitedMs)
}

// Follow the events in all teams, over breaks of the connection and restarts of the service.
func ExampleClient_Events() {
	c, err := client.New(client.Options{Socket: "/tmp/tb.sock"})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range c.Events(context.Background(), "", client.Now) {
		switch {
		case err != nil:
			log.Fatal(err)
		case e.Message != nil && e.Message.Change == api.Appeared:
			fmt.Println(e.Message.Message.From, "→", e.Message.Message.Inbox, e.Message.Message.Text)
		case e.Receipt != nil:
			fmt.Println(e.Receipt.ID, e.Receipt.State)
		}
	}
}

// Send the same message twice, as after an answer that did not arrive. It is in the
// inbox once.
func ExampleClient_Send() {
	ctx := context.Background()
	c, stop := serve("claude-2.1.80")
	defer stop()

	for range 2 {
		sent, err := c.Send(ctx, "myteam", "worker", "review-12", api.NewMessage{Text: "please review task 12"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(sent.Member, sent.ID, sent.State, sent.Deduplicated)
	}
	// The same id with another text is refused.
	_, err := c.Send(ctx, "myteam", "worker", "review-12", api.NewMessage{Text: "something else"})
	if problem, ok := errors.AsType[*api.Problem](err); ok {
		fmt.Println(problem.Code)
	}

	page, err := c.Messages(ctx, "myteam", client.MessageQuery{Inbox: "worker"})
	if err != nil {
		log.Fatal(err)
	}
	count := 0
	for _, m := range page.Messages {
		if m.ID == "review-12" {
			count++
		}
	}
	fmt.Println(count)
	// Output:
	// worker review-12 verified false
	// worker review-12 verified true
	// id_taken
	// 1
}

// serve runs a service for a Claude directory that was captured from a version.
func serve(version string) (c *client.Client, stop func()) {
	dir, err := os.MkdirTemp("", "tb") // short, since it has a socket
	if err != nil {
		log.Fatal(err)
	}
	root := filepath.Join(dir, "claude")
	if err := os.CopyFS(root, os.DirFS(filepath.Join("..", "..", "testdata", version))); err != nil {
		log.Fatal(err)
	}
	claude, err := teams.Open(root)
	if err != nil {
		log.Fatal(err)
	}
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		log.Fatal(err)
	}
	s, err := server.New(server.Options{Root: claude, State: state, Lock: lockedfile.Options{Wait: time.Minute, Hold: time.Minute}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		log.Fatal(err)
	}
	if c, err = client.Find(state, claude.Path()); err != nil {
		log.Fatal(err)
	}
	return c, func() {
		c.Close()
		cancel()
		if err := <-ended; err != nil {
			log.Fatal(err)
		}
		_ = claude.Close()
		_ = os.RemoveAll(dir)
	}
}
