// Command teambridge carries messages between people, programs and the agents
// of Claude Code teams. "teambridge --help" tells how.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], process()))
}
