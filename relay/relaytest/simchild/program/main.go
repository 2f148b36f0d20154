// Command program is the simulated Claude Code of package simchild alone: see [simchild.Program]. Without a script in the
// environment it has the one in $TEST_SIMULATED, or an empty one.
package main

import (
	"cmp"
	"os"

	"teambridge/relay/relaytest/simchild"
)

func main() {
	if os.Getenv(simchild.Variable) == "" {
		if err := os.Setenv(simchild.Variable, cmp.Or(os.Getenv("TEST_SIMULATED"), "{}")); err != nil {
			panic(err)
		}
	}
	simchild.MainTerminal()
	simchild.Main()
}
