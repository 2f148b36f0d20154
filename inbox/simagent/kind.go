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

// kind is what the agents of a version do. It is all that they know of it.
type kind struct {
	locksConfig bool // config.json is written under its lock
	replaces    bool // inboxes are replaced by rename, not written in place
	removes     bool // what was taken is removed, not marked as read
	atStart     bool // a team is made with its session, and is named after it
	refuses     bool // only members can be written to
	tags        bool // rows have msgV, msg_id and type
	takesFirst  bool // rows are taken under the lock, and then delivered
	results     bool // idle_notification has the final text of the turn
	leadProcess bool // config.json has leadProcess
}

// kindOf asks the table for what simulated agents do. What is not known of a
// version is what came before: the table is sure of all Kinds.
func kindOf(v teams.Version) (kind, error) {
	if !v.Known() {
		return kind{}, errors.New("simagent: no version of Claude Code is given")
	}
	has := func(t teams.Trait) bool { return v.Has(t) == teams.Yes }
	return kind{
		locksConfig: has(teams.LocksConfig),
		replaces:    has(teams.RenamesInbox),
		removes:     has(teams.RemovesTaken),
		atStart:     has(teams.TeamAtStart),
		refuses:     has(teams.RefusesUser),
		tags:        has(teams.TagsRows),
		takesFirst:  has(teams.MarksFirst),
		results:     has(teams.IdleResult),
		leadProcess: has(teams.LeadProcessWritten),
	}, nil
}

// poll is how often an agent looks into its inbox.
func (k kind) poll(name string) time.Duration {
	if k.removes && name == Lead {
		return time.Second
	}
	return 500 * time.Millisecond
}
