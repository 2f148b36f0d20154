package simagent

import (
	"errors"
	"time"

	"teambridge/teams"
)

// Lead is the name of the member that leads a team, in all versions.
const Lead = "team-lead"

// Kinds has one version for each way in which agents treat their inboxes and
// their teams, oldest first.
var Kinds = []teams.Version{
	{Major: 2, Minor: 1, Patch: 80},  // writes in place, marks what it took
	{Major: 2, Minor: 1, Patch: 154}, // replaces the file
	{Major: 2, Minor: 1, Patch: 160}, // removes what it took
	{Major: 2, Minor: 1, Patch: 178}, // has a team from the start
	{Major: 2, Minor: 1, Patch: 200}, // cannot write to "user"; rows have ids
	{Major: 2, Minor: 1, Patch: 280}, // takes before it delivers; reports results
	{Major: 2, Minor: 1, Patch: 329}, // writes leadProcess
}

// The ends of Kinds.
var (
	Oldest = Kinds[0]
	Newest = Kinds[len(Kinds)-1]
)

// kind is what the agents of a version do. What is not known of a version is what came before: the table is sure of
// all Kinds.
type kind teams.Version

func (k kind) has(t teams.Trait) bool { return teams.Version(k).Has(t) == teams.Yes }

func kindOf(v teams.Version) (kind, error) {
	if !v.Known() {
		return kind{}, errors.New("simagent: no version of Claude Code is given")
	}
	return kind(v), nil
}

// poll is how often an agent looks into its inbox.
func (k kind) poll(name string) time.Duration {
	if k.has(teams.RemovesTaken) && name == Lead {
		return time.Second
	}
	return 500 * time.Millisecond
}
