package probe

import "teambridge/teams"

// Point is a statement about a Claude Code.
type Point struct {
	Name  string
	Trait teams.Trait // whose version says what is expected; empty: it is true of all versions
	Needs teams.Trait // without which nothing is expected
	Says  string      // what is true
	// What it means for teambridge if it is true, and if it is not.
	Yes, No string
}

// Expected is what is known of a version without a probe.
func (p Point) Expected(v teams.Version) teams.Answer {
	switch {
	case p.Needs != "" && v.Tabled(p.Needs) != teams.Yes:
		return teams.Unsure
	case p.Trait == "":
		return teams.Yes
	}
	return v.Tabled(p.Trait)
}

// trait is a point of the table.
func trait(t teams.Trait, says, yes, no string) Point {
	return Point{Name: t.Name(), Trait: t, Says: says, Yes: yes, No: no}
}

// Points are all points, in the order in which they are shown. It is a function, so that no other command makes the list.
func Points() []Point { return append(teamPoints(), headlessPoints()...) }

// teamPoints are those of a session at a terminal and its team.
func teamPoints() []Point {
	return []Point{
		trait(teams.TeamAtStart, "a session at a terminal makes its team when it starts",
			"teams are named after sessions", "a tool call makes a team"),
		trait(teams.LeadProcessWritten, "config.json says which process leads",
			"a dead lead is seen at once", "its files show whether the lead lives"),
		{Name: "DeliversRows", Says: "a row in the inbox of a teammate reaches its model",
			Yes: "messages arrive", No: "messages to teammates do not arrive"},
		{Name: "DeliversToLead", Says: "a row in the inbox of a lead at a terminal reaches its model",
			Yes: "messages arrive", No: "messages to the lead do not arrive"},
		trait(teams.RemovesTaken, "a row that was taken is removed",
			"a missing row proves no loss", "a row stays, marked as read: one that is missing was lost"),
		trait(teams.MarksFirst, "a row is taken from the inbox before it is delivered",
			"the lock may be held", "the lock is held for milliseconds only, or rows come twice"),
		{Name: "RepeatsRows", Says: "a row with an id that was there before is delivered again",
			Yes: "nothing is ever put back", No: "agents tell repeated messages by themselves"},
		trait(teams.WrapsUser, "a row from user is shown to the model as a teammate's message",
			"what the model was given is found by sender", "what user wrote is found by its text alone"),
		trait(teams.EscapesGiven, "what is shown to the model is escaped",
			"one message cannot look like several", "what was given is never quite certain"),
		trait(teams.MarksUnverified, `a row that says it is from team-lead is shown with verified="false"`,
			"who joins is trusted more", "all senders look alike"),
		{Name: "TakesLock", Says: "an agent that writes into an inbox waits for its lock",
			Yes: "messages survive writers at the same time", No: "messages can be overwritten: there is no safe way to write"},
		trait(teams.RenamesInbox, "an agent replaces an inbox by a rename",
			"no torn inbox is read", "a reader waits for whole content"),
		trait(teams.TagsRows, "rows that agents write have msg_id",
			"a row is known by its id", "a row is known by its content"),
		{Name: "ReachesJoined", Says: "SendMessage reaches a name that somebody added to config.json",
			Yes: "people who join get answers", No: "nobody who joins can be written to"},
		trait(teams.RefusesUser, "SendMessage to user is refused",
			"people have to join", "agents reach user without that"),
		trait(teams.LocksConfig, "config.json is written under its lock",
			"join waits for agents", "join can be overwritten, and looks again"),
		{Name: "KeepsJoined", Says: "an entry of ours in config.json survives when an agent writes it",
			Yes: "who joined stays", No: "who joined has to join again"},
		{Name: "TellsIdle", Says: "a teammate that has ended its turn writes idle_notification",
			Yes: "ask and wait know the end of a turn", No: "ask and wait do not end"},
		trait(teams.IdleResult, "idle_notification has the result of the turn",
			"ask takes the answer from it", "ask has only what the agent sends"),
		{Name: "RecordsGiven", Says: "the transcript has the message that the model was given",
			Yes: "a message is known to be seen", No: "no message is ever known to be seen"},
		{Name: "RunsStopHook", Says: "the Stop hook runs at the end of a turn, and names the session",
			Yes: "hooks hand over messages", No: "hooks hand over nothing"},
		{Name: "RemovesTeam", Says: "the team is removed when its lead ends",
			Yes: "a team that is there has a lead, or was killed", No: "teams that have ended stay"},
		trait(teams.TellsWork, "a session at a terminal says what it does",
			"status knows who works", "status knows only what messages say"),
		trait(teams.SessionSocket, "a session has a socket for messages of others",
			"any session can be written to", "sessions in no team need the hook"),
		{Name: "TakesFromSocket", Needs: teams.SessionSocket, Says: "what is written to the socket reaches the model, and the transcript has its id",
			Yes: "such messages are known to be seen", No: "sessions in no team need the hook"},
	}
}

// headlessPoints are those of headless sessions.
func headlessPoints() []Point {
	return []Point{
		trait(teams.NamesSession, "a headless process says which session it has",
			"a session that is used elsewhere is noticed", "a session that is used elsewhere is not noticed"),
		{Name: "EchoesFrames", Says: "a headless agent echoes each frame with its uuid",
			Yes: "the relay knows what was taken", No: "the relay does not know what was taken"},
		trait(teams.EchoesTime, "the echo of a frame that is run has a timestamp",
			"an echo tells whether it is run", "init alone tells whether it is run"),
		{Name: "BeginsWithInit", Says: "init comes before the echo of a frame that is run",
			Yes: "a repeated frame can be distinguished from a new one", No: "a repeated frame looks like a new one"},
		trait(teams.Lifecycle, "a headless agent prints command_lifecycle",
			"the end of a frame is said", "the next result is the end of a frame"),
		{Name: "RunsOnce", Says: "a uuid that was there is not run again",
			Yes: "the relay may repeat a frame", No: "a repeated frame is worked on twice"},
		{Name: "RunsOnceResumed", Says: "nor in the session when it is resumed",
			Yes: "the relay may repeat a frame after a crash", No: "a frame can be worked on twice after a crash"},
		trait(teams.JoinsFrames, "frames that wait become one turn",
			"one frame is written at a time", "each frame is a turn"),
		trait(teams.InterruptFails, "the result of an interrupted turn is an error",
			"the result shows that a turn was interrupted", "an interrupted turn looks like another"),
		trait(teams.ListsQueued, "the answer to an interrupt lists what waits", "nothing depends on it", "nothing depends on it"),
		trait(teams.NamesModel, "the answer to set_model names the model", "nothing depends on it", "nothing depends on it"),
		trait(teams.ChecksMode, "set_permission_mode refuses a word that is no mode",
			"a wrong mode is an error", "a wrong mode is not noticed by the agent"),
		{Name: "SetsMode", Says: "set_permission_mode works between turns",
			Yes: "the mode can be changed", No: "the mode cannot be changed without a restart"},
		{Name: "KeepsID", Says: "--session-id chooses the session",
			Yes: "a session is known before it begins", No: "a killed session cannot be found again"},
		{Name: "RecordsFrames", Says: "the transcript has the uuid of a frame and the end of its turn, and says the version",
			Yes: "after a crash it is known what was done", No: "after a crash nothing is known"},
		trait(teams.KeepsSystemPrompt, "a resumed session keeps its first system prompt",
			"a changed profile needs the flag against it", "a changed profile works at once"),
		trait(teams.HeadlessDeaf, "a headless lead does not read its inbox",
			"a relay reads it", "the relay leaves it the inbox of a team that it has made"),
		{Name: "MemberDeaf", Says: "a headless member does not read its inbox",
			Yes: "a relay reads it, and nothing comes twice", No: "messages of a relay can come twice"},
		{Name: "MemberSends", Says: "SendMessage of a headless member works",
			Yes: "members with a relay can write", No: "members with a relay cannot write"},
	}
}
