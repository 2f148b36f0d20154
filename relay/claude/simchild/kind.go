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

// kind is what a child does as its version does.
type kind struct {
	joins          bool // frames that wait become one turn
	clears         bool // "/clear" begins another session
	interruptFails bool // the result of an interrupted turn is an error
	listsQueued    bool // the answer to an interrupt lists the frames that wait
	lifecycle      bool // command_lifecycle for each frame
	runsUnechoed   bool // only what was echoed is known to the next process
	namesModel     bool // the answer to set_model names the model
	echoesInside   bool // a frame is echoed if it holds a teammate's message, unless it begins with it
	marksDenials   bool // the transcript marks the results of tools that were not allowed
	late           bool // what else was only measured on the ends of Kinds
}

func kindOf(v teams.Version) kind {
	has := func(t teams.Trait) bool { return v.Has(t) == teams.Yes }
	return kind{
		joins:          has(teams.JoinsFrames),
		clears:         has(teams.ClearsSession),
		interruptFails: has(teams.InterruptFails),
		listsQueued:    has(teams.ListsQueued),
		lifecycle:      has(teams.Lifecycle),
		runsUnechoed:   has(teams.RunsUnechoed),
		namesModel:     has(teams.NamesModel),
		echoesInside:   has(teams.EchoesInside),
		marksDenials:   has(teams.MarksDenials),
		late:           has(teams.Lifecycle),
	}
}
