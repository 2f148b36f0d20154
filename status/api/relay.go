package api

import (
	"encoding/json"
	"strings"
	"time"
)

// Relay is the state of the relay of one headless member.
type Relay struct {
	// starting, waiting, idle, working, asleep (the agent was ended because it was idle; the next message starts it),
	// backing off, dead, stopped, ended (the agent was shut down, as it was asked to), local (the session is at a person's
	// terminal), switching (it is being moved)
	State       string     `json:"state"`
	Running     bool       `json:"running"`
	Queue       int        `json:"queue"`              // messages that were claimed and are not done
	DeadLetters int        `json:"deadLetters"`        // messages that could not be delivered
	LastAck     *time.Time `json:"lastAck,omitempty"`  // when the agent last accepted or finished a message
	Started     *time.Time `json:"started,omitempty"`  // when the agent was last started
	PID         int        `json:"pid,omitempty"`      // of the relay
	AgentPID    int        `json:"agentPid,omitempty"` // of the agent
	Session     string     `json:"session,omitempty"`
	Reason      string     `json:"reason,omitempty"` // why it waits, is asleep or is dead, or what is held

	// what the agent reports of its permissions, such as default, plan or acceptEdits; missing if it has not since it was
	// started, or none runs
	PermissionMode string `json:"permissionMode,omitempty"`

	Held  []Hold `json:"held,omitempty"`  // senders whose messages are held back, because they and the agent answered each other too often or a person held them
	Place *Place `json:"place,omitempty"` // of a session that can move, while its launcher runs
}

// Place says where a session runs that can move between a person's terminal (local) and a
// relay (remote).
type Place struct {
	At      string    `json:"at" enum:"local,remote"`               // local or remote
	To      string    `json:"to,omitempty" enum:"local,remote"`     // where it is going
	Wanted  string    `json:"wanted,omitempty" enum:"local,remote"` // where it was requested to be, until it is there or the request is refused
	Reason  string    `json:"reason,omitempty"`                     // why it has not gone there yet
	Refused string    `json:"refused,omitempty"`                    // why the last request was refused
	Since   time.Time `json:"since"`                                // since when these values hold
}

// The values of [Place.At], To and Wanted.
const (
	PlaceLocal  = "local"
	PlaceRemote = "remote"
)

// Held returns why the session has not moved yet to where it is going; "" if nothing holds it,
// or if p is nil.
func (p *Place) Held() string {
	if p == nil || p.To == "" || p.To == p.At {
		return ""
	}
	return p.Reason
}

// Text says for people where the session is.
func (p *Place) Text() string {
	switch {
	case p.Held() != "":
		return p.At + ", switch held: " + p.Reason
	case p.To != "" && p.To != p.At:
		return p.At + ", switching to " + p.To
	}
	return p.At
}

// NewPlace asks for a session to be moved.
type NewPlace struct {
	To    string `json:"to" enum:"local,remote"` // local or remote
	Force bool   `json:"force,omitempty"`        // interrupt a turn, and give up a draft that cannot be kept
}

// Placed is where the session of a member is.
type Placed struct {
	Team   string `json:"team"`
	Member string `json:"member"`
	Place  Place  `json:"place"`
}

// Hold keeps the messages of one sender to a headless agent unread in the inbox until it
// is released, because the two answered each other too often, or a person held them.
type Hold struct {
	Team   string    `json:"team"`
	Member string    `json:"member"` // the agent
	Sender string    `json:"sender"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// Lasting returns r without the fields that change with each message.
func (r *Relay) Lasting() *Relay {
	if r == nil {
		return nil
	}
	return &Relay{State: r.State, DeadLetters: r.DeadLetters, Reason: r.Reason, Held: r.Held, Place: r.Place, PermissionMode: r.PermissionMode}
}

// RelayEntry is a relay that was added to the service, or one that "teambridge run"
// runs or ran.
type RelayEntry struct {
	ID           string          `json:"relay"` // its id; for "teambridge run", derived from the inbox
	Team         string          `json:"team"`
	Member       string          `json:"member"`
	Runtime      string          `json:"runtime,omitempty" enum:"opencode,acp"` // opencode or acp; empty: Claude Code, or the relay is of "teambridge run"
	Command      []string        `json:"command"`                               // empty: the usual command of the runtime, or a server that runs already
	URL          string          `json:"url,omitempty"`                         // of the server that the agent works in; empty: one is started
	PasswordFile string          `json:"passwordFile,omitempty"`
	Profile      string          `json:"profile,omitempty"`
	Dir          string          `json:"dir,omitempty"`
	OnCut        string          `json:"onCut,omitempty" enum:"nudge,report"`
	Permissions  string          `json:"permissions,omitempty"`
	Mode         json.RawMessage `json:"mode,omitempty" schema:"Mode"`
	Plain        bool            `json:"plain,omitempty"`
	CreateTeam   bool            `json:"createTeam,omitempty"`
	IdleExit     string          `json:"idleExit,omitempty"`                      // the agent is ended after it was idle for this time; missing: never
	IdleReports  string          `json:"idleReports,omitempty" enum:"all,result"` // which reports of idle agents it gets; missing: those with a summary or a result
	Created      *time.Time      `json:"created,omitempty"`                       // when it was added; missing for teambridge run
	Relay

	Settings  json.RawMessage `json:"settings,omitempty" schema:"Mode"` // how the agent works since its last message; missing for teambridge run, unless its session can move
	Questions []Question      `json:"questions,omitempty"`              // that wait for a person; only the service knows them

	Added bool `json:"-"` // by the request that this answers; see [Bridge.AddRelay]
}

// CommandLine is what is run, for people.
func (e RelayEntry) CommandLine() string {
	switch {
	case e.URL != "":
		return e.Runtime + " at " + e.URL
	case len(e.Command) == 0:
		return e.Runtime
	}
	return strings.Join(e.Command, " ")
}

// The kinds of questions.
const (
	AsksPermission = "permission" // whether a tool may be used
	AsksPlan       = "plan"       // whether a plan is approved, so that the agent leaves plan mode
	AsksPerson     = "question"   // something that the person answers
)

// Question asks a person to allow an agent to use a tool, to approve its plan, or to
// answer what it asks. All but ID, Digest, Kind and At comes from the agent. It is
// answered by a [Permit].
type Question struct {
	ID     string          `json:"id"`
	Digest string          `json:"digest"`                               // of Tool and Input
	Kind   string          `json:"kind" enum:"permission,plan,question"` // [AsksPermission] and its like
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input,omitempty"`
	At     time.Time       `json:"at"`

	Display     string            `json:"display,omitempty"`     // the tool's name for people, according to the runtime; an MCP server's tool can have the name of a tool of the runtime
	Description string            `json:"description,omitempty"` // of this use
	Reason      string            `json:"reason,omitempty"`      // why it asks
	BlockedPath string            `json:"blockedPath,omitempty"`
	Subagent    string            `json:"subagent,omitempty"`    // which subagent asks; missing for the agent itself
	Plan        string            `json:"plan,omitempty"`        // the plan to approve
	Suggestions []json.RawMessage `json:"suggestions,omitempty"` // permission updates that the runtime suggests
	Session     []string          `json:"session,omitempty"`     // rules that can be allowed for the session, such as Bash(go test *)
}

// Asked returns what the agent asks, if Kind is [AsksPerson].
func (q Question) Asked() (texts []string) {
	var in struct {
		Questions []struct {
			Question string `json:"question"`
		} `json:"questions"`
	}
	if q.Kind == AsksPerson && json.Unmarshal(q.Input, &in) == nil {
		for _, asked := range in.Questions {
			texts = append(texts, asked.Question)
		}
	}
	return texts
}

// The states of questions.
const (
	QuestionOpen    = "open"
	QuestionAllowed = "allowed"
	QuestionDenied  = "denied"
)

// Terminal is the [Asked.Relay] of a session's question that can be answered elsewhere. Relays have UUIDs.
const Terminal = "terminal"

// Asked is a question, and the agent that asks it.
type Asked struct {
	Relay  string `json:"relay"` // its id, or [Terminal]
	Team   string `json:"team"`
	Member string `json:"member"`
	State  string `json:"state" enum:"open,allowed,denied"` // [QuestionOpen] and its like
	Question
}

// NewRelay is the request to add a relay: which agent to run, and how.
type NewRelay struct {
	Team    string   `json:"team"`                                                            // need not exist yet
	Member  string   `json:"member"`                                                          // a name, or lead
	Runtime string   `json:"runtime,omitempty" enum:",claude,opencode,acp,codex,gemini,qwen"` // claude, opencode, or acp, which is any program that speaks the Agent Client Protocol; codex, gemini and qwen are acp with a usual command; empty is claude
	Command []string `json:"command,omitempty"`                                               // the program and its arguments, to which flags are added; needed for claude and acp, and opencode if it is missing for OpenCode
	// an OpenCode server that runs, in place of a command; user and password are in the environment of the service, as
	// OPENCODE_SERVER_USERNAME and OPENCODE_SERVER_PASSWORD
	URL          string          `json:"url,omitempty"`
	PasswordFile string          `json:"passwordFile,omitempty"`               // the file with the password of that server, an absolute path
	Profile      string          `json:"profile,omitempty"`                    // the name of an agent profile
	Dir          string          `json:"dir"`                                  // the working directory, an absolute path
	OnCut        string          `json:"onCut,omitempty" enum:",nudge,report"` // what to do after a crash cut a turn: nudge (default: tell the agent to continue) or report
	Permissions  string          `json:"permissions,omitempty"`                // tools that the agent's own rules do not decide: deny (default), allow=TOOL,TOOL or ask (see Question)
	Mode         json.RawMessage `json:"mode,omitempty" schema:"Mode"`         // the mode at the start
	Plain        bool            `json:"plain,omitempty"`                      // add no flags to the command, for other programs that speak stream-json
	IdleExit     string          `json:"idleExit,omitempty"`                   // end the agent after this idle time, such as 30m; the next message starts it again
	// which reports of idle agents it gets: all; summary, the default: those with a summary, such as to whom the agent
	// has written, or a result; result: those with a result, a finished task, an interruption or a failure. The others
	// are marked as read in the inbox, and skipped
	IdleReports string `json:"idleReports,omitempty" enum:"all,summary,result"`
	CreateTeam  bool   `json:"createTeam,omitempty"` // create the team, with the member as its lead, if it does not exist; take it over if the service that created it was killed
}

// Permit answers a [Question].
type Permit struct {
	Question string `json:"question"` // the id of the question
	Digest   string `json:"digest"`   // its digest: an answer to another input is refused
	Allow    bool   `json:"allow"`
	// Session, if allowed, is one of the question's session rules. It is allowed until the
	// agent is restarted.
	Session string            `json:"session,omitempty"`
	Answers map[string]string `json:"answers,omitempty"` // texts by question, to a question of kind question; needed to allow it. Several choices are separated by a comma and a space.
	Reason  string            `json:"reason,omitempty"`  // sent to the agent if the tool is not allowed
}

// Unfinished is the [DeliveryQuery.State] of deliveries that are on their way or have failed.
const Unfinished = "claimed,written,accepted,cut,failed"

// DeliveryQuery selects deliveries. The zero value selects those in any state.
type DeliveryQuery struct {
	Team  string `query:"team"`  // only to this team
	Relay string `query:"relay"` // only to the member of this relay: its id, or MEMBER@TEAM
	// only in these states, separated by commas: claimed, written, accepted, cut (not finished), failed (dead letters), done,
	// cancelled, dropped, taken_by_agent, skipped
	State string `query:"state"`
	Limit int    `query:"limit" min:"0" default:"0"` // the largest number of items; 0: all
}

// Outcome is the state of a message in words for people: the same words for each way.
type Outcome struct {
	// waiting, or held for a reason; sent: it is where its agent takes it; received: taken by the agent; seen: given to
	// its model; done: its task has ended; lost and not sent: it did not arrive; unknown: it may have arrived; failed:
	// its agent failed while it worked on it; given up and cancelled: by a person; not relayed: it is not for the agent
	Word string `json:"word,omitempty" enum:"waiting,sent,received,seen,done,lost,not sent,unknown,failed,given up,cancelled,not relayed"`
	Why  string `json:"why,omitempty"` // why it waits or did not arrive
}

// Delivery is one message on its way to a headless agent.
type Delivery struct {
	Delivery string `json:"delivery"` // its own id
	Team     string `json:"team"`
	Member   string `json:"member"`
	ID       string `json:"id"` // of the message
	From     string `json:"from"`
	Kind     string `json:"kind"`
	// claimed, written, accepted, cut, done, cancelled, failed, dropped, taken_by_agent, skipped
	State  string    `json:"state" enum:"claimed,written,accepted,cut,done,cancelled,failed,dropped,taken_by_agent,skipped"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`               // when it reached the state
	Person bool      `json:"person,omitempty"` // it is a user prompt

	Outcome
}

// RelayEvent is an event of a message on its way to a headless agent or, if Delivery
// is empty, of the relay itself.
type RelayEvent struct {
	Seq       int64     `json:"seq"`
	Team      string    `json:"team"`
	CreatedAt int64     `json:"createdAt"` // of the team, in milliseconds
	Member    string    `json:"member"`
	At        time.Time `json:"at"` // when it happened
	// of a message, as in Delivery; of a relay: waiting, running (again if the process or session changed), asleep, backing
	// off, dead, ended; held or released, of the messages of a sender. A message to a pane is claimed while it waits, held
	// if it does so for a reason, written when it is typed, accepted when Enter was pressed, done when the agent has taken
	// it, given when the agent's model was given it, and finished at the end of its task
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`

	Delivery string `json:"delivery,omitempty"`
	ID       string `json:"id,omitempty"` // of the message
	From     string `json:"from,omitempty"`
	Person   bool   `json:"person,omitempty"` // it is a user prompt
	Pane     bool   `json:"pane,omitempty"`   // it is typed into a pane

	AgentPID int    `json:"agentPid,omitempty"` // of the agent; missing if it does not run
	Session  string `json:"session,omitempty"`  // of the agent

	Outcome // of a message
}

// Fate is the state of a relayed message, or of one that is typed into a pane.
type Fate struct {
	Delivery string `json:"delivery"`
	// claimed, written, accepted, cut, done, cancelled, failed, dropped, taken_by_agent, skipped; to a pane also held,
	// given, finished: see RelayEvent; to another machine queued, stored, received, verified, consumed, seen, refused, lost,
	// unknown, failed, dropped
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`             // when it reached the state
	Pane   bool      `json:"pane,omitempty"` // it is typed into a pane
	// Machine is where it goes, if that is another machine.
	Machine string `json:"machine,omitempty"`

	Outcome
}
