package inbox_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"teambridge/inbox"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Write a message into an inbox, and find out later whether it was taken.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	// A team that was captured from Claude Code 2.1.80 takes the place of ~/.claude.
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "testdata", "claude-2.1.80"))); err != nil {
		log.Fatal(err)
	}
	root, err := teams.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	team, err := root.Team("myteam")
	if err != nil {
		log.Fatal(err)
	}
	defer team.Close()

	// One Locker for the whole process.
	locker := lockedfile.New(lockedfile.Options{
		Dir:  filepath.Join(dir, "state", "locks"),
		Wait: time.Minute, Hold: time.Minute, // the defaults are better, except on a machine that stalls at times
	})
	box, err := inbox.Open(team, "worker", locker)
	if err != nil {
		log.Fatal(err)
	}
	message := inbox.Message{From: "operator", Text: "please review task 12", Summary: "a review"}
	receipt, err := box.Append(ctx, message, inbox.AppendOptions{Track: true})
	if err != nil {
		log.Fatal(err) // the message is not in the inbox, unless errors.Is(err, lockedfile.ErrReplaced)
	}

	rows, err := box.Read(ctx)
	if err != nil {
		log.Fatal(err)
	}
	last := rows[len(rows)-1]
	fmt.Printf("%d rows, the last from %s: %q\n", len(rows), last.From, last.Text)
	fmt.Println(receipt.Tracked.Look(&inbox.Seen{Rows: rows}, false))

	// An old agent marks a row that it takes. A current one removes it.
	if _, err := box.MarkRead(ctx, receipt.ID); err != nil {
		log.Fatal(err)
	}
	if rows, err = box.Read(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.Tracked.Look(&inbox.Seen{Rows: rows}, false))
	// Output:
	// 3 rows, the last from operator: "please review task 12"
	// verified
	// consumed
}
