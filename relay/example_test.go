package relay_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Run a headless agent that gets every message of its inbox.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		log.Fatal(err)
	}
	// In place of ~/.claude, a team that was captured from Claude Code 2.1.80.
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

	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		log.Fatal(err)
	}
	// Claims and writes are committed there before they are carried out.
	l, err := ledger.Open(ctx, filepath.Join(state, "ledger.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	locker := lockedfile.New(lockedfile.Options{
		Dir:  filepath.Join(state, "locks"),
		Wait: time.Minute, Hold: time.Minute, // the defaults are better, except on a machine that stands still at times
	})
	box, err := inbox.Open(team, "worker", locker)
	if err != nil {
		log.Fatal(err)
	}
	message := inbox.Message{From: "team-lead", Text: "please review task 12", Summary: "a review"}
	if _, err := box.Append(ctx, message, inbox.AppendOptions{}); err != nil {
		log.Fatal(err)
	}

	r, err := relay.New(ctx, relay.Options{
		Team: team, Member: "worker", Locker: locker, Ledger: l, State: state,
		Runtime: claude.Runtime{Options: claude.Options{
			// A simulated agent, which repeats its messages: this test, run again with a
			// variable. The command of a real one is "claude".
			Command: []string{os.Args[0]},
			Env:     append(os.Environ(), simchild.Script{State: dir}.Env(), "GORACE=atexit_sleep_ms=0"),
			Root:    dir,
			Dir:     dir,
		}},
		Events: func(e agent.Event) {
			if e.Result != nil {
				fmt.Println(e.Result.Text)
				stop()
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := r.Run(ctx); err != nil { // until ctx ends
		log.Fatal(err)
	}
	// Output:
	// ACK: <teammate-message teammate_id="team-lead" summary="a review">
	// please review task 12
	// </teammate-message>
}
