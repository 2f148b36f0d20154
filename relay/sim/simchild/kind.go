package simchild

import "teambridge/teams"

// Kinds has one version for each way of acknowledging frames, oldest first.
var Kinds = []teams.Version{
	{Major: 2, Minor: 1, Patch: 80},  // a turn for each frame, known by its echo
	{Major: 2, Minor: 1, Patch: 200}, // joins frames that wait, and knows what is stored
	{Major: 2, Minor: 1, Patch: 329}, // lifecycle, and runs again what it did not echo
}

// The ends of Kinds.
var (
	Oldest = Kinds[0]
	Newest = Kinds[len(Kinds)-1]
)

// late reports whether the version does what else was only measured on the ends of Kinds.
func (p *program) late() bool { return p.has(teams.Lifecycle) }

func (p *program) has(t teams.Trait) bool { return p.script.Version.Has(t) == teams.Yes }
