package probe

import "teambridge/teams"

// Answer is the result for a [Point].
type Answer int

// The answers.
const (
	Unsure Answer = iota // not measured
	No
	Yes
)

func (a Answer) String() string { return [...]string{"unsure", "no", "yes"}[a] }

// Point is a statement about Claude Code that teambridge relies on.
type Point struct {
	Name string
	Says string // the statement
	// The consequence for teambridge if the statement is true, and if it is false.
	Yes, No string
	// Without and With are set if [teams.Oldest] does not fulfil the statement: the last version measured
	// without it, and the first one with it.
	Without, With teams.Version
}

// Expected returns the expected answer for a version. It is Unsure between the two measured versions.
func (p Point) Expected(v teams.Version) Answer {
	switch {
	case p.With == teams.Version{} || v.Compare(p.With) >= 0:
		return Yes
	case v.Compare(p.Without) <= 0:
		return No
	}
	return Unsure
}

// Points returns all points, in the order in which they are shown. It is a function, so that other commands
// do not build the list.
func Points() []Point { return append(teamPoints(), headlessPoints()...) }

// teamPoints returns the points that are measured with a session at a terminal and its team.
func teamPoints() []Point {
	return []Point{
		{Name: "TeamAtStart", Says: "a session at a terminal makes its team when it starts",
			Yes: "teams are named after sessions", No: "there is no team until an agent makes one"},
		{Name: "LeadProcessWritten", Says: "config.json says which process leads",
			Yes: "a dead lead is seen at once", No: "its files show whether the lead lives",
			Without: teams.Version{Major: 2, Minor: 1, Patch: 310}, With: teams.Version{Major: 2, Minor: 1, Patch: 311}},
		{Name: "DeliversRows", Says: "a row in the inbox of a teammate reaches its model",
			Yes: "messages arrive", No: "messages to teammates do not arrive"},
		{Name: "DeliversToLead", Says: "a row in the inbox of a lead at a terminal reaches its model",
			Yes: "messages arrive", No: "messages to the lead do not arrive"},
		{Name: "RemovesTaken", Says: "a row that was taken is removed",
			Yes: "a missing row proves no loss", No: "rows that were taken stay, and inboxes grow"},
		{Name: "MarksFirst", Says: "a row is taken from the inbox before it is delivered",
			Yes: "the lock may be held", No: "a row comes twice if the lock is held for long"},
		{Name: "RepeatsRows", Says: "a row with an id that was there before is delivered again",
			Yes: "nothing is ever put back", No: "agents recognize repeated messages themselves"},
		{Name: "WrapsUser", Says: "a row from user is shown to the model as a teammate's message",
			Yes: "messages that the model received are found by sender", No: "messages of user are never known to be seen"},
		{Name: "EscapesGiven", Says: "texts are escaped for the model",
			Yes: "one message cannot look like several", No: "one message can look like several"},
		{Name: "MarksUnverified", Says: `a row that says it is from team-lead is shown with verified="false"`,
			Yes: "people who join are trusted more", No: "all senders look alike",
			Without: teams.Version{Major: 2, Minor: 1, Patch: 278}, With: teams.Version{Major: 2, Minor: 1, Patch: 280}},
		{Name: "TakesLock", Says: "an agent that writes into an inbox waits for its lock",
			Yes: "messages survive writers at the same time", No: "messages can be overwritten: there is no safe way to write"},
		{Name: "RenamesInbox", Says: "an agent replaces an inbox by a rename",
			Yes: "no torn inbox is read", No: "a reader waits for whole content"},
		{Name: "TagsRows", Says: "rows that agents write have msg_id",
			Yes: "a row is known by its id", No: "a row is known by its content"},
		{Name: "ReachesJoined", Says: "SendMessage reaches a name that another program added to config.json",
			Yes: "people who join get answers", No: "people who join cannot be written to"},
		{Name: "RefusesUser", Says: "SendMessage to user is refused",
			Yes: "people have to join", No: "agents reach user without it"},
		{Name: "LocksConfig", Says: "config.json is written under its lock",
			Yes: "join waits for agents", No: "join can be overwritten, and looks again"},
		{Name: "KeepsJoined", Says: "an entry of ours in config.json survives when an agent writes it",
			Yes: "people who joined stay", No: "people who joined have to join again"},
		{Name: "TellsIdle", Says: "a teammate that has ended its turn writes idle_notification",
			Yes: "ask and wait know the end of a turn", No: "ask and wait do not end"},
		{Name: "IdleResult", Says: "idle_notification has the result of the turn",
			Yes: "ask takes the answer from it", No: "ask has only what the agent sends"},
		{Name: "RecordsGiven", Says: "the transcript has the message that the model was given",
			Yes: "a message is known to be seen", No: "no message is ever known to be seen"},
		{Name: "RunsStopHook", Says: "the Stop hook runs at the end of a turn, and names the session",
			Yes: "hooks hand over messages", No: "hooks hand over nothing"},
		{Name: "RemovesTeam", Says: "the team is removed when its lead ends",
			Yes: "a team that exists has a lead, or its lead was killed", No: "teams that have ended stay"},
		{Name: "TellsWork", Says: "a session at a terminal reports what it is doing",
			Yes: "status knows which agents work", No: "status knows only the messages"},
		{Name: "SessionSocket", Says: "a session has a socket for messages of others",
			Yes: "any session can be written to", No: "sessions in no team need the hook"},
		{Name: "TakesFromSocket", Says: "a message to the socket reaches the model, and the transcript has its id",
			Yes: "such messages are known to be seen", No: "sessions in no team need the hook"},
	}
}

// headlessPoints returns the points that are measured with headless sessions.
func headlessPoints() []Point {
	return []Point{
		{Name: "NamesSession", Says: "a headless process names its session",
			Yes: "a session that is used elsewhere is noticed", No: "a session that is used elsewhere is not noticed"},
		{Name: "EchoesFrames", Says: "a headless agent echoes each frame with its uuid",
			Yes: "the relay knows which frames were taken", No: "the relay does not know which frames were taken"},
		{Name: "EchoesTime", Says: "the echo of a frame that is run has a timestamp",
			Yes: "an echo tells whether it is run", No: "init alone tells whether it is run"},
		{Name: "BeginsWithInit", Says: "init comes before the echo of a frame that is run",
			Yes: "a repeated frame can be distinguished from a new one", No: "a repeated frame looks like a new one"},
		{Name: "Lifecycle", Says: "a headless agent prints command_lifecycle",
			Yes: "the end of a frame is known", No: "the end of a frame is not known"},
		{Name: "RunsOnce", Says: "a repeated uuid is not run again",
			Yes: "the relay may repeat a frame", No: "a repeated frame is worked on twice"},
		{Name: "RunsOnceResumed", Says: "a repeated uuid is not run again when the session is resumed",
			Yes: "the relay may repeat a frame after a crash", No: "a frame can be worked on twice after a crash"},
		{Name: "JoinsFrames", Says: "frames that wait become one turn",
			Yes: "one frame is written at a time", No: "each frame is a turn"},
		{Name: "InterruptFails", Says: "the result of an interrupted turn is an error",
			Yes: "the result shows that a turn was interrupted", No: "an interrupted turn looks like any other"},
		{Name: "ChecksMode", Says: "set_permission_mode refuses an unknown mode",
			Yes: "a wrong mode is an error", No: "a wrong mode is not noticed by the agent"},
		{Name: "SetsMode", Says: "set_permission_mode works between turns",
			Yes: "the mode can be changed", No: "the mode cannot be changed without a restart"},
		{Name: "KeepsID", Says: "--session-id chooses the session",
			Yes: "a session is known before it begins", No: "a killed session cannot be found again"},
		{Name: "RecordsFrames", Says: "the transcript has the uuid of a frame and the end of its turn, and the version",
			Yes: "after a crash it is known whether a turn has ended", No: "after a crash it is unknown whether a turn has ended"},
		{Name: "KeepsSystemPrompt", Says: "a resumed session keeps its first system prompt",
			Yes: "a changed profile needs a flag to take effect", No: "a changed profile works at once",
			Without: teams.Version{Major: 2, Minor: 1, Patch: 265}, With: teams.Version{Major: 2, Minor: 1, Patch: 270}},
		{Name: "HeadlessDeaf", Says: "a headless lead does not read its inbox",
			Yes: "a relay reads it, and nothing comes twice", No: "messages of a relay can come twice"},
		{Name: "MemberDeaf", Says: "a headless member does not read its inbox",
			Yes: "a relay reads it, and nothing comes twice", No: "messages of a relay can come twice"},
		{Name: "MemberSends", Says: "SendMessage of a headless member works",
			Yes: "members with a relay can write", No: "members with a relay cannot write"},
	}
}
