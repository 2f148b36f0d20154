package simagent

import (
	"fmt"
	"time"
)

// Generation is a version of Claude Code's inbox handling.
type Generation int

const (
	// G1 marks rows as read and writes in place, as Claude Code 2.1.80 does.
	G1 Generation = 1
	// G2 removes rows and replaces the file, as Claude Code 2.1.329 does.
	G2 Generation = 2
)

// Lead is the name of the member that leads a team, in both generations.
const Lead = "team-lead"

// String returns "G1" or "G2".
func (g Generation) String() string { return fmt.Sprintf("G%d", int(g)) }

// Poll returns how often an agent of this generation looks into its inbox.
func (g Generation) Poll(name string) time.Duration {
	if g == G2 && name == Lead {
		return time.Second
	}
	return 500 * time.Millisecond
}

func (g Generation) check() error {
	if g != G1 && g != G2 {
		return fmt.Errorf("simagent: generation %d: want G1 or G2", int(g))
	}
	return nil
}
