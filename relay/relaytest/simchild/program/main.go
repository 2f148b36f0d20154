// Command program is the simulated Claude Code of package simchild alone: see [simchild.Program].
package main

import (
	"fmt"
	"os"

	"teambridge/relay/relaytest/simchild"
)

func main() {
	simchild.MainTerminal()
	simchild.Main()
	fmt.Fprintf(os.Stderr, "program: $%s is not set\n", simchild.Variable)
	os.Exit(2)
}
