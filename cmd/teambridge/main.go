// Command teambridge carries messages between people, programs and coding agents. "teambridge --help" explains it.
package main

import (
	"os"
	"runtime/debug"

	"teambridge/cmd/demo"
)

func main() {
	demo.Main() // the demonstration starts this program as its agents
	if _, set := os.LookupEnv("GOGC"); !set && len(os.Args) > 1 && os.Args[1] == "send" {
		// A send is short. Start the first collection at 16 MiB, not 4: it starts threads, which takes a tenth of the
		// time of a send into an inbox of 10,000 rows.
		debug.SetGCPercent(400)
	}
	os.Exit(run(os.Args[1:], ownProcess()))
}
