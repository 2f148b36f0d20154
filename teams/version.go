package teams

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is a version of Claude Code. The zero Version is unknown.
type Version struct{ Major, Minor, Patch int }

// ParseVersion parses three numbers with dots between them. Text after a space,
// as "claude --version" prints it, is ignored.
func ParseVersion(s string) (Version, error) {
	text, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	var v Version
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return Version{}, fmt.Errorf("teams: %.40q is not a version of Claude Code", s)
	}
	for i, n := range []*int{&v.Major, &v.Minor, &v.Patch} {
		var err error
		if *n, err = strconv.Atoi(parts[i]); err != nil || *n < 0 {
			return Version{}, fmt.Errorf("teams: %.40q is not a version of Claude Code", s)
		}
	}
	return v, nil
}

// String returns the version as Claude Code writes it, or "unknown".
func (v Version) String() string {
	if !v.Known() {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// Known reports whether v is not the zero Version.
func (v Version) Known() bool { return v != Version{} }

// Compare returns -1, 0 or 1: v is older than w, the same, or newer.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// Oldest is the oldest Claude Code whose agents teambridge runs, relays to, asks, moves, reaches by socket or hook, or
// proves anything of. It was published on 1 September 2026. Files of any version are read, and rows are put into the
// inboxes of any.
var Oldest = Version{2, 1, 257}

// Outdated reports whether v is known to be older than [Oldest]. An unknown version counts as a current one.
func (v Version) Outdated() bool { return v.Known() && v.Compare(Oldest) < 0 }

// Check returns an [*OutdatedError] if v is [Version.Outdated]. Who names the agent, the session or the program.
func (v Version) Check(who string) error {
	if v.Outdated() {
		return &OutdatedError{who, v}
	}
	return nil
}

// OutdatedError says that an agent is of a version before [Oldest].
type OutdatedError struct {
	Who     string
	Version Version
}

func (e *OutdatedError) Error() string {
	return fmt.Sprintf("%s is Claude Code %s, and teambridge needs %s or newer: update it with claude update", e.Who, e.Version, Oldest)
}

// Answer is what is known about a question.
type Answer int

// The answers. Unsure calls for the careful way.
const (
	Unsure Answer = iota
	No
	Yes
)

func (a Answer) String() string { return [...]string{"unsure", "no", "yes"}[a] }

// Trait is something in which versions of Claude Code differ.
type Trait string

// The traits, each of which came with one version and has stayed since.
const (
	// LocksConfig: config.json is written under the lock directory config.json.lock.
	LocksConfig Trait = "locks config.json"
	// RenamesInbox: an inbox is replaced by rename, not written in place.
	RenamesInbox Trait = "replaces its inbox by rename"
	// RemovesTaken: rows that an agent took are removed, not marked as read.
	RemovesTaken Trait = "removes rows it took"
	// TeamAtStart: each interactive session makes its team, session-<8 hex>, when it starts.
	TeamAtStart Trait = "makes a team at start"
	// RefusesUser: SendMessage reaches only members, and so not "user".
	RefusesUser Trait = "refuses to write to user"
	// HeadlessDeaf: a headless lead does not poll its inbox, not even in a team
	// that its own session made.
	HeadlessDeaf Trait = "does not poll when headless"
	// Lifecycle: a headless agent prints command_lifecycle for each frame.
	Lifecycle Trait = "prints command_lifecycle"
	// MarksFirst: an agent takes rows under the lock before they are delivered.
	// Without it, rows are delivered again at every poll while the lock is held.
	MarksFirst Trait = "marks rows before it delivers them"
	// SnapshotFlag: there is a flag --system-prompt-snapshot.
	SnapshotFlag Trait = "knows --system-prompt-snapshot"
	// KeepsSystemPrompt: a resumed session keeps its first system prompt unless
	// --system-prompt-snapshot off is given.
	KeepsSystemPrompt Trait = "keeps its first system prompt"
	// LeadProcessWritten: config.json has leadProcess.
	LeadProcessWritten Trait = "writes leadProcess"
	// NearestProfile: of two profiles of one name, --agent takes the one nearer to the
	// working directory, not the one further up.
	NearestProfile Trait = "takes the nearest profile"
	// RulesForServers: the permission rule mcp__* is about the tools of all MCP servers.
	RulesForServers Trait = "has a rule for all MCP servers"
	// WrapsUser: a row from "user" reaches a model as <teammate-message>, not as
	// plain text.
	WrapsUser Trait = "wraps rows from user"
	// EscapesGiven: in <teammate-message>, attributes are escaped, and tags in the text.
	// Without it, a message can look like several.
	EscapesGiven Trait = "escapes what it wraps"
	// SessionSocket: each session listens on a socket, on which other sessions write to it.
	SessionSocket Trait = "listens for other sessions"
	// NamesSession: each process, a headless one too, says in sessions/<pid>.json which
	// session it has, even if it has resumed it.
	NamesSession Trait = "names its session in sessions/<pid>.json"

	// StatusFollows: the status in sessions/<pid>.json follows what happens at a terminal.
	StatusFollows Trait = "keeps its status up to date"

	// What follows is for tests: the product does not depend on it.

	// LimitsProfile: an agent that is started with --agent has only the tools of its
	// profile. Without it, it has all.
	LimitsProfile Trait = "limits tools to those of the profile"
	// TellsWork: a process at a terminal says in sessions/<pid>.json which version it is and what it does.
	TellsWork Trait = "says what it does in sessions/<pid>.json"
	// EchoesTime: the echo of a frame that is run has a timestamp.
	EchoesTime Trait = "echoes frames with a timestamp"
	// JoinsFrames: frames that wait for the end of a turn become one turn.
	JoinsFrames Trait = "joins frames that wait"
	// InterruptFails: the result of a turn that was interrupted has is_error true.
	InterruptFails Trait = "reports an interrupted turn as an error"
	// ClearsSession: a frame "/clear" starts another session.
	ClearsSession Trait = "starts another session at /clear"
	// TagsRows: rows that Claude Code writes have msgV, msg_id and type.
	TagsRows Trait = "writes rows with msg_id"
	// EchoesInside: a frame is echoed if it holds a teammate's message, unless it
	// begins with one.
	EchoesInside Trait = "echoes frames that hold a teammate's message"
	// ListsQueued: the answer to an interrupt has still_queued.
	ListsQueued Trait = "lists the frames that are still queued"
	// ChecksMode: set_permission_mode refuses words that are no mode.
	ChecksMode Trait = "refuses unknown permission modes"
	// RunsUnechoed: a frame whose turn was cut before its echo is run when it is
	// sent again after --resume. Without it, the frame is known, and not run.
	RunsUnechoed Trait = "runs a frame again that it did not echo"
	// IdleResult: idle_notification has the final text of the turn as result.
	IdleResult Trait = "reports results in idle_notification"
	// MarksUnverified: <teammate-message> has verified="false" where Claude Code
	// does not vouch for the sender.
	MarksUnverified Trait = `marks messages as verified="false"`
	// LeadSession: leadSessionId of a team that is made at start is the session's id, even
	// if the session was given or resumed. /clear still leaves it as it is.
	LeadSession Trait = "gives its team the id of its session"
	// RemakesTeam: a session that is resumed makes its team again, if it is gone.
	RemakesTeam Trait = "makes its team again when it is resumed"
	// MarksDenials: transcripts mark the results of tools that were not allowed.
	MarksDenials Trait = "marks denials in transcripts"
	// NamesModel: the answer to set_model names the model.
	NamesModel Trait = "names the model in its answer to set_model"
)

// changes says between which two versions a trait came: the last one measured without it,
// and the first one with it. Those between were not measured, and in part never published.
// About 55 versions from 2.1.62 to 2.1.330 were run against a stand-in for the model.
var changes = map[Trait]struct {
	name          string
	without, with Version
}{
	LocksConfig:        {"LocksConfig", Version{2, 1, 104}, Version{2, 1, 105}},
	RenamesInbox:       {"RenamesInbox", Version{2, 1, 153}, Version{2, 1, 154}},
	RemovesTaken:       {"RemovesTaken", Version{2, 1, 159}, Version{2, 1, 160}},
	TeamAtStart:        {"TeamAtStart", Version{2, 1, 177}, Version{2, 1, 178}},
	RefusesUser:        {"RefusesUser", Version{2, 1, 181}, Version{2, 1, 182}},
	HeadlessDeaf:       {"HeadlessDeaf", Version{2, 1, 177}, Version{2, 1, 178}},
	Lifecycle:          {"Lifecycle", Version{2, 1, 205}, Version{2, 1, 206}},
	MarksFirst:         {"MarksFirst", Version{2, 1, 252}, Version{2, 1, 257}},
	SnapshotFlag:       {"SnapshotFlag", Version{2, 1, 252}, Version{2, 1, 257}},
	KeepsSystemPrompt:  {"KeepsSystemPrompt", Version{2, 1, 265}, Version{2, 1, 270}},
	LeadProcessWritten: {"LeadProcessWritten", Version{2, 1, 310}, Version{2, 1, 311}},
	WrapsUser:          {"WrapsUser", Version{2, 1, 197}, Version{2, 1, 198}},
	EscapesGiven:       {"EscapesGiven", Version{2, 1, 160}, Version{2, 1, 170}},
	NearestProfile:     {"NearestProfile", Version{2, 1, 160}, Version{2, 1, 181}},
	RulesForServers:    {"RulesForServers", Version{2, 1, 160}, Version{2, 1, 181}},
	NamesSession:       {"NamesSession", Version{2, 1, 80}, Version{2, 1, 90}},
	SessionSocket:      {"SessionSocket", Version{2, 1, 246}, Version{2, 1, 248}},

	StatusFollows: {"StatusFollows", Version{2, 1, 177}, Version{2, 1, 178}},

	LimitsProfile:   {"LimitsProfile", Version{2, 1, 112}, Version{2, 1, 140}},
	TellsWork:       {"TellsWork", Version{2, 1, 112}, Version{2, 1, 126}},
	EchoesTime:      {"EchoesTime", Version{2, 1, 76}, Version{2, 1, 78}},
	JoinsFrames:     {"JoinsFrames", Version{2, 1, 84}, Version{2, 1, 85}},
	InterruptFails:  {"InterruptFails", Version{2, 1, 85}, Version{2, 1, 89}},
	ClearsSession:   {"ClearsSession", Version{2, 1, 112}, Version{2, 1, 160}},
	TagsRows:        {"TagsRows", Version{2, 1, 195}, Version{2, 1, 196}},
	EchoesInside:    {"EchoesInside", Version{2, 1, 160}, Version{2, 1, 200}},
	ListsQueued:     {"ListsQueued", Version{2, 1, 204}, Version{2, 1, 205}},
	ChecksMode:      {"ChecksMode", Version{2, 1, 206}, Version{2, 1, 220}},
	RunsUnechoed:    {"RunsUnechoed", Version{2, 1, 200}, Version{2, 1, 280}},
	IdleResult:      {"IdleResult", Version{2, 1, 250}, Version{2, 1, 251}},
	MarksUnverified: {"MarksUnverified", Version{2, 1, 278}, Version{2, 1, 280}},
	LeadSession:     {"LeadSession", Version{2, 1, 310}, Version{2, 1, 311}},
	MarksDenials:    {"MarksDenials", Version{2, 1, 190}, Version{2, 1, 200}},
	RemakesTeam:     {"RemakesTeam", Version{2, 1, 280}, Version{2, 1, 329}},
	NamesModel:      {"NamesModel", Version{2, 1, 305}, Version{2, 1, 310}},
}

// IsTrait reports whether that is the name of a trait.
func IsTrait(name string) bool {
	for _, c := range changes {
		if c.name == name {
			return true
		}
	}
	return false
}

// Since is the first version that was measured with the trait.
func (t Trait) Since() Version { return changes[t].with }

// Name is the name of the constant, by which documents and files know the trait.
func (t Trait) Name() string { return changes[t].name }

// Has says whether v has the trait: what was found out on this machine (see [ObserveIn]), else
// what the table says.
func (v Version) Has(t Trait) Answer {
	if a := observed(v)[t.Name()]; a != Unsure {
		return a
	}
	return v.Tabled(t)
}

// Tabled says what the table knows: whether v has the trait, as it was measured on many versions. It is
// Unsure for the zero Version, and for one between the two that were measured.
func (v Version) Tabled(t Trait) Answer {
	c, ok := changes[t]
	switch {
	case !ok || !v.Known():
		return Unsure
	case v.Compare(c.without) <= 0:
		return No
	case v.Compare(c.with) >= 0:
		return Yes
	}
	return Unsure
}

// Listed reports whether v is one of the versions that were measured with "teambridge probe", all of whose points are
// known. Of a later one it is only assumed that it does what the last one does.
func (v Version) Listed() bool { return slices.Contains(listed, v) }

// Listed returns the versions that were measured, the oldest first.
func Listed() []Version { return slices.Clone(listed) }

// Newest is the last of the versions that were measured.
func Newest() Version { return listed[len(listed)-1] }

// listed are the versions of testdata/contract/versions.json.
var listed = []Version{
	{2, 1, 80}, {2, 1, 90}, {2, 1, 100}, {2, 1, 105}, {2, 1, 112}, {2, 1, 126}, {2, 1, 140}, {2, 1, 154}, {2, 1, 159},
	{2, 1, 160}, {2, 1, 170}, {2, 1, 177}, {2, 1, 178}, {2, 1, 181}, {2, 1, 182}, {2, 1, 190}, {2, 1, 196}, {2, 1, 200},
	{2, 1, 206}, {2, 1, 220}, {2, 1, 240}, {2, 1, 248}, {2, 1, 251}, {2, 1, 257}, {2, 1, 265}, {2, 1, 270}, {2, 1, 280},
	{2, 1, 290}, {2, 1, 300}, {2, 1, 311}, {2, 1, 318}, {2, 1, 325}, {2, 1, 329}, {2, 1, 330}, {2, 1, 331}, {2, 1, 332},
}

// Unlisted says of a version newer than [Newest] what it is taken for. Where says who has it, if not empty.
func Unlisted(v Version, where string) string {
	of := ""
	if where != "" {
		of = " of " + where
	}
	return fmt.Sprintf("Claude Code %s%s is newer than all that teambridge was measured with: it is taken to do what %s does", v, of, Newest())
}
