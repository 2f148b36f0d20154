// Command teambridge carries messages between people, programs and the agents
// of Claude Code teams. "teambridge --help" tells how.
package main

import (
	"os"

	"teambridge/relay/claude/simchild"
)

func main() {
	simchild.Main() // which it is in the demo, for itself
	os.Exit(run(os.Args[1:], process()))
}
