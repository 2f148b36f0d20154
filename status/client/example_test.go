package client_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"teambridge/status/api"
	"teambridge/status/client"
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
	// Under an id of its own it can be sent again whatever happens: it is sent once.
	sent, err := c.Send(ctx, "myteam", "worker", "review-12", api.NewMessage{Text: "please review task 12"})
	if err != nil {
		if p, ok := errors.AsType[*api.Problem](err); ok {
			log.Fatalf("%s (%s): %s", p.Detail, p.Code, p.Hint)
		}
		log.Fatal(err)
	}
	receipt, err := c.Settled(ctx, sent.Team, sent.Member, sent.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.State, receipt.ConsumedAt)
}

// Follow what happens in all teams, over breaks of the connection and restarts of
// the service.
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
