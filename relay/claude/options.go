package claude

import (
	"cmp"
	"io"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/profile"
)

// Options say what to start and how to treat it. Command is all that is needed.
type Options struct {
	// Command is the program and its arguments. Missing flags are added at its end, see [Options.Argv].
	Command []string
	// Plain adds no flags: for other programs than Claude Code, and wrappers that add them.
	Plain bool
	// Root is the Claude directory, which holds the transcripts. Empty: what a process did not print before it died is
	// not looked up, and its open turn has failed.
	Root string
	// Dir is the working directory; empty is ours.
	Dir string
	// Env is the whole environment, as "NAME=value"; nil is ours.
	Env []string

	// Session is the id of the conversation, a UUID. Empty: what Command names, or a new one.
	Session string
	// Resume continues that conversation. Its transcript must exist ([Transcript.Exists]), and no other process may
	// have it ([process.Predecessor]).
	Resume bool
	// Mode is what the process starts with. A default gets a flag only where a resumed conversation has another value.
	Mode mode.Mode
	// Profile is what the agent is to be; the zero Ref is none. It is read again by each process that starts.
	Profile profile.Ref
	// Member makes the process a member of a team, which cannot spawn others.
	Member Member

	// Permission answers the process when it asks whether a tool may be used. Nil: the process denies by itself. Only a
	// person can decide on any use of a tool in plan mode, ExitPlanMode, AskUserQuestion, and what Claude Code says
	// requires a person. More than 64 open questions are denied.
	Permission *agent.Permission

	// Stderr, if not nil, gets what the process prints there. A Write that blocks holds up only the process's writes to
	// stderr. The last 64 KiB are kept in any case.
	Stderr io.Writer

	// FrameLimit is the largest frame in bytes, its newline not counted; 0 is DefaultFrameLimit.
	FrameLimit int
	// LineLimit is the longest line of output that is read, in bytes; longer ones are [Skipped]. 0 is 16 MiB.
	LineLimit int
	// Buffer is how many bytes of events are kept for a consumer that is behind; 0 is 64 MiB. Beyond it a [Gap] takes
	// the place of [Assistant], [Other] and [Skipped]; other events are kept without their lines. At twice as much the
	// process is killed with [ErrOverrun].
	Buffer int64

	// WriteTimeout is how long a line may take to get into the pipe; 0 is 10 s.
	WriteTimeout time.Duration
	// AnswerTimeout is how long the answer to a control request may take; 0 is 10 s.
	AnswerTimeout time.Duration
}

// Member is a place in a team.
type Member struct {
	Name, Team string
}

const (
	// keptStderr is the end of stderr that goes into an ExitError.
	keptStderr = 64 << 10
	// drain is how long output is read that others than the process, which is gone, hold open.
	drain = 2 * time.Second
	// waiting bounds the lines that wait for stdin.
	waiting = 256
	// asking bounds the questions that wait for Permission.Ask.
	asking = 64
)

func (o Options) withDefaults() Options {
	o.LineLimit = cmp.Or(o.LineLimit, 16<<20)
	o.Buffer = cmp.Or(o.Buffer, 64<<20)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, 10*time.Second)
	return o
}
