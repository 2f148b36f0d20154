package claude

import (
	"cmp"
	"io"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/profile"
)

// Options say what to run and how. Only Command is required.
type Options struct {
	// Command is the program and its arguments. Missing flags are appended, see [Options.Argv].
	Command []string
	// Plain adds no flags: for programs other than Claude Code, and wrappers that add the flags themselves.
	Plain bool
	// Root is the Claude directory, which holds the transcripts. If it is empty, records that a process did
	// not print before it died are not looked up, and its open turn has failed.
	Root string
	// Dir is the working directory; empty is the caller's.
	Dir string
	// Env is the whole environment, as "NAME=value"; nil is the caller's.
	Env []string

	// Session is the id of the conversation, a UUID. If it is empty, the session that Command names is used,
	// or a new one.
	Session string
	// Resume continues that conversation. Its transcript must exist ([Transcript.Exists]), and no other
	// process may use it ([process.Predecessor]).
	Resume bool
	// Mode is the mode to start in. A default setting becomes a flag only where a resumed conversation has
	// another value.
	Mode mode.Mode
	// Profile is the agent's profile; the zero Ref is none. Each new process reads it again.
	Profile profile.Ref
	// Member makes the process a member of a team. A member cannot spawn other members.
	Member Member

	// Permission answers permission requests of the process. If it is nil, the process denies by itself. Only
	// a person can decide on tools in plan mode, on ExitPlanMode and AskUserQuestion, and on requests that
	// Claude Code marks as requiring a person. More than 64 open requests are denied.
	Permission *agent.Permission

	// Stderr, if not nil, receives the process's stderr. A Write that blocks delays only the process's writes
	// to stderr. The last 64 KiB are kept in any case.
	Stderr io.Writer

	// FrameLimit is the largest frame in bytes, not counting its newline; 0 is DefaultFrameLimit.
	FrameLimit int
	// LineLimit is the longest line of output in bytes; longer ones are [Skipped]. 0 is 16 MiB.
	LineLimit int
	// Buffer is how many bytes of events are kept for a slow consumer; 0 is 64 MiB. Beyond it a [Gap]
	// replaces [Assistant], [Other] and [Skipped]; other events are kept without their lines. At twice the
	// size the process is killed with [ErrOverrun].
	Buffer int64

	// WriteTimeout limits the write of a line to the pipe; 0 is 10 s.
	WriteTimeout time.Duration
	// AnswerTimeout limits the wait for the answer to a control request; 0 is 10 s. A process that has closed
	// its output has three times as long to exit.
	AnswerTimeout time.Duration
}

// Member names a member of a team.
type Member struct {
	Name, Team string
}

const (
	// keptStderr is the size of the end of stderr that is kept for an ExitError.
	keptStderr = 64 << 10
	// drain is how long output is still read from descendants that hold it open after the process is gone.
	drain = 2 * time.Second
	// waiting limits the lines queued for stdin.
	waiting = 256
	// asking limits the requests queued for Permission.Ask.
	asking = 64
)

func (o Options) withDefaults() Options {
	o.LineLimit = cmp.Or(o.LineLimit, 16<<20)
	o.Buffer = cmp.Or(o.Buffer, 64<<20)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, 10*time.Second)
	return o
}
