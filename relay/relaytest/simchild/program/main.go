// Command program is the simulated Claude Code of package simchild alone, or the agent of package simacp: see
// [simchild.Program]. Without a script in the environment it is a Claude Code with the one in $TEST_SIMULATED, or an empty one.
package main

import (
	"cmp"
	"os"

	"teambridge/relay/relaytest/simacp"
	"teambridge/relay/relaytest/simchild"
)

func main() {
	simacp.Main()
	if os.Getenv(simchild.Variable) == "" {
		if err := os.Setenv(simchild.Variable, cmp.Or(os.Getenv("TEST_SIMULATED"), "{}")); err != nil {
			panic(err)
		}
	}
	simchild.MainTerminal()
	simchild.Main()
}
