// Command teambridge carries messages between people, programs and the agents
// of Claude Code teams. "teambridge --help" tells how.
package main

import (
	"os"

	"teambridge/relay/claude/simchild"
)

func main() {
	simchild.Main() // the demo runs this program as an agent
	os.Exit(run(os.Args[1:], process()))
}
