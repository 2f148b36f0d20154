// Command teambridge carries messages between people, programs and the agents
// of Claude Code teams. "teambridge --help" tells how.
package main

import (
	"os"
	"runtime/debug"

	"teambridge/cmd/demo"
)

func main() {
	demo.Main() // the demonstration starts this program as its agents
	if _, set := os.LookupEnv("GOGC"); !set && len(os.Args) > 1 && os.Args[1] == "send" {
		// A send ends soon: the first collection, for which threads are started, would
		// take a tenth of one into an inbox of 10,000 rows. It begins at 16 MiB, not 4.
		debug.SetGCPercent(400)
	}
	os.Exit(run(os.Args[1:], ownProcess()))
}
