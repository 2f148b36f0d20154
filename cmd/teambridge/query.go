package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"teambridge/cmd/stdio"
	"teambridge/inbox"
	"teambridge/relay/query"
	"teambridge/relay/runtimes"
	"teambridge/status/api"
)

// The values of --format.
const (
	formatText    = "text"
	formatSummary = "summary"
	formatJSONL   = "jsonl"
)

var queryFormats = []string{formatSummary, formatText, formatJSONL}

type queryOptions struct {
	query.Input
	mcp     string // --mcp-config
	format  string
	command []string // of the agent; empty: the default
}

func newQuery(a *app) *cobra.Command {
	var o queryOptions
	cmd := &cobra.Command{
		Use:   "query [-p TEXT|-] [-- COMMAND...]",
		Short: "Ask an agent, without a team",
		Long: `Run a prompt in a session of an agent, and print the agent's texts and actions.

The query is a JSON object on standard input, on one line or on several:

  {"prompt": "…", "architecture": "claude", "model": "…", "sessionId": "…",
   "cwd": "…", "mcpServers": {"NAME": {"command": "…", "args": ["…"]}},
   "tools": ["Read"], "profile": "…", "permissionMode": "…",
   "streamingInput": true}

Only "prompt" is required. "architecture" is claude, opencode, codex, gemini,
qwen, or acp for any program that speaks the Agent Client Protocol. The agent is
the program of that name, or the COMMAND after --. "sessionId" continues the
session of an earlier result, in the same directory. "mcpServers" has the form
of .mcp.json; only Claude Code can use it. "tools", for Claude Code and
OpenCode, lists all tools of the agent, by the names of its program; the agent
may use them without asking. Without "tools", the agent has its usual tools, or
the tools of its "profile" (see "teambridge profile"), and calls that need
permission are denied. The permission mode is "default" if none is given;
bypassPermissions must be given explicitly.

The output is one JSON object per line: envelopes of the session protocol,
{"type": "error", "message": "…"} for what goes wrong, and, last,

  {"type": "result", "text": "…", "sessionId": "…", "status": "completed",
   "turns": 1, "usage": {…}}

or the status failed or interrupted, and a "failure". With "streamingInput",
each further line of standard input is a message {"prompt": "…"} or {"text":
"…"}. The agent gets each message when the previous turn has ended. The query
ends with standard input. An invalid line, or one longer than 1 MiB, is refused
with an error that has its number, "line", and the session continues.

With -p, flags replace the JSON object, and the output is for a person: the
answer, or with --format summary all texts and actions of the agent. "-p -"
reads the prompt from standard input.

Interrupt (^C) and SIGTERM interrupt the turn and end the agent.

Exit status: 0 each turn was completed; 1 the agent could not be started, or
ended too early; 2 the query or a line is invalid; 3 no such session, directory
or program; 5 Claude Code is too old; 8 a turn failed; 130 interrupted; 141 the
reader of the output went away.`,
		Example: `  echo '{"prompt": "What is 2 + 2?"}' | teambridge query
  teambridge query -p "What is 2 + 2?" --format text
  teambridge query --runtime qwen -p "What is 2 + 2?"`,
		Args: between(0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return usage(`a prompt needs -p; the command of the agent needs "--"`, "query takes no arguments; there is %q", args[0])
			}
			o.command = args
			return runQuery(cmd.Context(), a, cmd.Flags(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Prompt, "prompt", "p", "", "ask this, and take the query from flags; - is standard input")
	f.StringVar(&o.format, "format", "", "text (the answer), summary (the agent's texts and actions) or jsonl (default jsonl, with -p text)")
	runtimeFlag(cmd, &o.Architecture, query.Architectures()[0], query.Architectures()...)
	f.StringVar(&o.Model, "model", "", "model of the agent")
	sessionFlag(cmd, &o.SessionID, "id of the session to continue")
	f.StringVar(&o.Cwd, "cwd", "", "directory that the agent works in (default this one)")
	f.StringVar(&o.mcp, "mcp-config", "", "file with further MCP servers, as .mcp.json")
	f.StringSliceVar(&o.Tools, "tools", nil, "all tools that the agent may use, as TOOL,TOOL")
	profileFlag(cmd, &o.Profile)
	f.StringVar(&o.PermissionMode, "permission-mode", "", "permission mode of the agent")
	complete(cmd, "format", queryFormats...)
	return cmd
}

// queryFlags maps the keys of a query's JSON object to flags.
var queryFlags = [...]struct{ key, flag string }{
	{"architecture", "runtime"}, {"model", "model"}, {"sessionId", "session"}, {"cwd", "cwd"}, {"mcpServers", "mcp-config"}, {"tools", "tools"}, {"profile", "profile"},
	{"permissionMode", "permission-mode"},
}

// queryRun is a query and its output.
type queryRun struct {
	app    *app
	format string
	shown  *conversationPrinter // of --format summary
	stop   context.CancelCauseFunc

	mu      sync.Mutex
	over    bool  // the result was printed
	refused int   // lines of standard input
	failed  error // of the output
}

func runQuery(ctx context.Context, a *app, flags *pflag.FlagSet, o queryOptions) (err error) {
	format := formatJSONL
	if flags.Changed("prompt") && !a.json {
		format = formatText
	}
	r := &queryRun{app: a, format: cmp.Or(o.format, format)}
	if err := oneOfThese("format", r.format, queryFormats...); err != nil {
		return err
	}
	if !flags.Changed("prompt") {
		for _, f := range queryFlags {
			if flags.Changed(f.flag) {
				return usage("give the prompt with -p, too", "--%s is for -p; the JSON object has the key %q", f.flag, f.key)
			}
		}
	}
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	reading, done := a.whileRead(ctx)
	defer done()
	a.queueErrors() // so that the agent does not wait for a reader of stderr
	_, drain := a.queueOutput(r.leftOut, r.fail)
	defer func() {
		drain(reading)
		r.mu.Lock()
		defer r.mu.Unlock()
		err = errors.Join(err, r.failed)
	}()
	r.shown = a.conversationPrinter()
	in, more, err := r.input(reading, flags, o)
	if err != nil {
		return r.refuse(reading, err)
	}
	return r.run(reading, o, in, more)
}

// input returns the query, from flags or from standard input.
func (r *queryRun) input(ctx context.Context, flags *pflag.FlagSet, o queryOptions) (in query.Input, more iter.Seq[query.Message], err error) {
	if !flags.Changed("prompt") {
		return r.readInput(ctx)
	}
	if o.Prompt, err = r.app.text(ctx, o.Prompt); err != nil {
		return in, nil, err
	}
	// The flags are encoded as JSON, which would replace invalid UTF-8.
	flags.VisitAll(func(f *pflag.Flag) {
		if !utf8.ValidString(f.Value.String()) {
			err = usage("", "--%s is not valid UTF-8", f.Name)
		}
	})
	if !utf8.ValidString(o.Prompt) {
		err = &inbox.InvalidError{Field: "text", Reason: "is not valid UTF-8"}
	}
	if err != nil {
		return in, nil, err
	}
	if !flags.Changed("tools") {
		o.Tools = nil
	} else if o.Tools == nil {
		o.Tools = []string{}
	}
	object, err := json.Marshal(o.Input)
	if err == nil && o.mcp != "" {
		object, err = withServers(object, o.mcp)
	}
	if err != nil {
		return in, nil, err
	}
	in, err = query.ParseInput(object)
	return in, nil, err
}

// withServers adds the MCP servers of a file to a JSON object.
func withServers(object []byte, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, notFound("", "there is no file %s", path)
	} else if err != nil {
		return nil, err
	}
	var file, keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil || file["mcpServers"] == nil {
		return nil, usage("", "--mcp-config: %s is not a JSON object with mcpServers", path)
	}
	if err := json.Unmarshal(object, &keys); err != nil {
		return nil, err
	}
	keys["mcpServers"] = file["mcpServers"]
	return json.Marshal(keys)
}

// lineError is an error in a line of standard input.
type lineError struct {
	number int
	err    error
}

func (e *lineError) Error() string {
	return fmt.Sprintf("line %d of standard input: %v", e.number, e.err)
}
func (e *lineError) Unwrap() error { return e.err }

// readInput reads the query from standard input. more reads its further messages.
func (r *queryRun) readInput(ctx context.Context) (in query.Input, more iter.Seq[query.Message], err error) {
	lines := stdio.NewLines(r.app.stdin, stdio.MaxLine)
	late := interruptibly(ctx, func() {
		var object []byte
		number := 0
		if object, number, err = readObject(lines); err == nil {
			in, err = query.ParseInput(object)
		}
		if err != nil {
			err = &lineError{number, err}
		}
	})
	if late != nil {
		return query.Input{}, nil, late
	}
	return in, func(yield func(query.Message) bool) { r.messages(ctx, lines, yield) }, err
}

// readObject reads lines up to the end of the JSON object that begins in the first line. It returns the object
// and the number of its first line.
func readObject(lines *stdio.Lines) (object []byte, number int, err error) {
	depth, quoted, escaped := 0, false, false
	for {
		line, err := lines.Next()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && number > 0:
			return object, number, nil // an incomplete object; the parser reports it
		case errors.Is(err, io.EOF):
			return nil, lines.Number, errors.New("there is no JSON object")
		default:
			return nil, max(number, lines.Number), err
		}
		if number == 0 && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		number = cmp.Or(number, lines.Number)
		if object = append(append(object, line...), '\n'); len(object) > stdio.MaxLine+1 {
			return nil, number, stdio.ErrLongLine
		}
		for _, c := range line {
			switch {
			case escaped:
				escaped = false
			case quoted && c == '\\':
				escaped = true
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
			}
		}
		if depth <= 0 {
			return object, number, nil
		}
	}
}

// messages yields the messages in the remaining lines, and refuses invalid lines.
func (r *queryRun) messages(ctx context.Context, lines *stdio.Lines, yield func(query.Message) bool) {
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var m query.Message
		if err == nil {
			m, err = query.ParseMessage(line)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if !yield(m) {
				return
			}
		default:
			r.mu.Lock()
			r.refused++
			r.mu.Unlock()
			r.tell(query.Event{Error: &query.Failure{Line: lines.Number, Message: err.Error()}})
			if !errors.As(err, new(*query.InputError)) && !errors.Is(err, stdio.ErrLongLine) {
				return // it is unreadable
			}
		}
	}
}

// run runs the query, and prints the agent's events.
func (r *queryRun) run(ctx context.Context, o queryOptions, in query.Input, more iter.Seq[query.Message]) (err error) {
	options := query.Options{ClaudeRoot: r.app.claudeDir, State: r.app.state, Stderr: r.app.stderr}
	switch kind, _ := runtimes.Find(in.Architecture); kind.Name {
	case runtimes.OpenCode:
		options.OpenCode = o.command
	case runtimes.ACP:
		options.ACP = o.command
	default:
		options.Claude = o.command
	}
	client := query.New(options)
	defer func() { err = errors.Join(err, client.Close()) }()
	for e, failure := range client.Query(ctx, in, more) {
		r.tell(e)
		err = failure
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && r.refused > 0 {
		were := "were"
		if r.refused == 1 {
			were = "was"
		}
		return usage("", "%s of standard input %s refused", plural(r.refused, "line"), were)
	}
	return queryFault(err)
}

// refuse prints the result of a query that could not be started.
func (r *queryRun) refuse(ctx context.Context, err error) error {
	result := query.Result{Status: query.Failed, Failure: err.Error()}
	if ctx.Err() != nil {
		result.Status = query.Interrupted
	} else {
		failure := query.Failure{Message: err.Error()}
		if line, ok := errors.AsType[*lineError](err); ok {
			failure = query.Failure{Line: line.number, Message: line.err.Error()}
			err = usage("teambridge query --help shows the object", "%w", err)
		}
		r.tell(query.Event{Error: &failure})
	}
	r.tell(query.Event{Result: &result})
	return queryFault(err)
}

// queryFault classifies the error of a query.
func queryFault(err error) error {
	switch {
	case errors.As(err, new(*api.Decided)):
		return err
	case errors.As(err, new(*query.InputError)):
		return usage("", "%w", err)
	case errors.As(err, new(*query.TurnError)):
		return api.Decide(api.CodeNoAnswer, "", "%w", err)
	case errors.Is(err, query.ErrNoSession):
		return notFound("sessions belong to a directory; name it with cwd, or leave out the session to begin a new one", "%w", err)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return notFound(`install the program, or give its command after "--"`, "%w", err)
	}
	return err
}

// tell prints an event.
func (r *queryRun) tell(e query.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return // an error in a line after the result
	}
	r.over = e.Result != nil
	var err error
	switch {
	case r.format == formatJSONL:
		err = r.app.printJSON(e)
	case e.Error != nil && e.Error.Line > 0:
		r.app.warn("line %d of standard input was refused: %s", e.Error.Line, e.Error.Message)
	case e.Envelope != nil && r.format == formatSummary:
		err = r.shown.one(*e.Envelope)
	case e.Result != nil:
		err = r.conclude(*e.Result)
	}
	if err != nil {
		r.stop(err)
	}
}

// conclude prints how a query ended, for a person.
func (r *queryRun) conclude(result query.Result) error {
	var err error
	if r.format == formatText && result.Status == query.Completed {
		err = r.app.printf("%s\n", escape(result.Text, true))
	} else if r.format == formatSummary {
		spent := ""
		if u := result.Usage; u != nil {
			spent = fmt.Sprintf(", %d tokens in, %d out", u.InputTokens, u.OutputTokens)
		}
		err = r.app.printf("%s, %s%s\n", result.Status, plural(result.Turns, "turn"), spent)
	}
	if result.SessionID != "" {
		r.app.note("go on with --session %s", result.SessionID)
	}
	return err
}

// fail ends the query if its output cannot be written.
func (r *queryRun) fail(err error) {
	r.mu.Lock()
	r.failed = err
	r.mu.Unlock()
	r.stop(err)
}

// leftOut returns the line that replaces unread output.
func (r *queryRun) leftOut(m stdio.Missing) []byte {
	text := fmt.Sprintf("%s of output were left out, since they were not read", m)
	if r.format == formatJSONL {
		if line, err := jsonLine(query.Event{Error: &query.Failure{Message: text}}); err == nil {
			return line
		}
	}
	r.app.warn("%s", text)
	return nil
}
