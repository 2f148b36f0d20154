package teams_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"teambridge/teams"
)

// Find a team, its lead, and the member that a person means.
func Example() {
	claude, remove := captured("claude-2.1.80")
	defer remove()

	root, err := teams.Open(claude) // of a user: teams.Find("", os.LookupEnv)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	team, err := root.Team("myteam")
	if err != nil {
		log.Fatal(err)
	}
	defer team.Close()
	config, err := team.Config(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	lead, _ := config.Lead()
	fmt.Println("lead:", lead.Name)
	for _, name := range []string{"lead", "Worker@myteam", "wroker"} {
		member, err := config.Resolve(name, nil)
		fmt.Printf("%s: %q %v\n", name, member, err != nil)
	}
	// Output:
	// lead: team-lead
	// lead: "team-lead" false
	// Worker@myteam: "worker" false
	// wroker: "" true
}

// Older versions are refused before teambridge uses their agents.
func ExampleVersion_Check() {
	for _, s := range []string{"2.1.200 (Claude Code)", "2.1.257"} {
		v, err := teams.ParseVersion(s)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(v.Check("worker"))
	}
	// Output:
	// worker is Claude Code 2.1.200, and teambridge needs 2.1.257 or newer: update it with claude update
	// <nil>
}

// captured copies a captured Claude directory of a version.
func captured(version string) (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "testdata", version))); err != nil {
		log.Fatal(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}
