package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"teambridge/cmd/stdio"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/supervisor"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// host is the process that a command runs in: its streams, environment and timings. Tests replace it.
type host struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookup         func(string) (string, bool) // environment
	cwd            func() (string, error)
	hangUp         func(context.Context) bool // waits until the reader of stdout goes away; nil: unknown
	unread         func(context.Context) bool // the same for stderr
	terminal       bool                       // print in colour
	columns        func() int                 // the width of the terminal on stdout; 0: no terminal
	progress       *stdio.Progress            // on the terminal on stderr; nil: no terminal
	keyboard       bool                       // stdin is a terminal
	wait           time.Duration              // how long to wait for a lock, a service, or the input of a hook; 0: the default
	hold           time.Duration              // how long to hold one at most; 0: the default
	gather         time.Duration              // how long an alert waits for further items; 0: the default
	settles        time.Duration              // how long a service has been running when it has settled; 0: the default
	patience       time.Duration              // how long the reader of queued output has after the command must end; 0: the default
	goesOn         bool                       // the process continues after the command

	supervised func(*app) (supervisor.Job, error) // for tests; nil: this system's
}

func ownProcess() host {
	h := host{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		lookup: os.LookupEnv, cwd: os.Getwd, terminal: stdio.Colourful(os.Stdout, os.LookupEnv), keyboard: stdio.IsTerminal(os.Stdin),
		columns: func() int { return stdio.Columns(os.Stdout) }, // a person can resize it
		hangUp:  func(ctx context.Context) bool { return stdio.HangUp(ctx, os.Stdout) },
		unread:  func(ctx context.Context) bool { return stdio.HangUp(ctx, os.Stderr) },
	}
	if term, _ := os.LookupEnv("TERM"); stdio.Columns(os.Stderr) > 0 && term != "dumb" {
		h.progress = &stdio.Progress{W: os.Stderr, Columns: func() int { return stdio.Columns(os.Stderr) }, Style: func(s string) string { return s }}
		if stdio.Colourful(os.Stderr, os.LookupEnv) {
			h.progress.Style = func(s string) string { return painted(dim, s) }
		}
	}
	return h
}

// app is one run of the program. It is built in layers: console, files, access. None uses the layers above it.
type app struct {
	access
	helpAll bool // --help-all
}

// access has the backend of a command, and the team and host that its flags and the environment select.
type access struct {
	files
	hostName string // --host, else $TEAMBRIDGE_HOST
	broken   bool   // the connection to hostName broke, and a warning was printed
	teamName string
	chosen   string        // the team that was opened last
	agent    bool          // an agent makes the requests: see newMCP
	onFiles  *bridge.Local // see local
	choosing sync.Mutex    // guards backend
	backend  *backend      // see [access.bridge]
}

// files opens the files of this machine on demand, each once. close closes them all.
type files struct {
	console
	claudeDir string
	state     string      // the directory of our own files
	there     *remoteHost // the service of --host; nil: this machine's service or files
	locker    *lockedfile.Locker
	lazy      sync.Mutex // of dir and sends
	dir       *teams.Root
	sends     *ledger.Ledger
	sendsErr  error
	opening   sync.Mutex // of opened
	opened    []func() error
	leaveOpen bool     // closing the ledger would wait for the disk; see [ledger.Ledger.Close]
	damaged   sync.Map // by path; see warnError
}

// console prints the output of a command.
type console struct {
	host
	out     *stdio.Output // stdout
	json    bool
	verbose bool
	drain   func(context.Context) // waits for the reader of a queued stderr; see run

	yours ownNames // of the teams that were asked for
}

func newApp(h host, out *stdio.Output) *app {
	return &app{access: access{files: files{console: console{host: h, out: out}}}}
}

// notifyHangUp relays SIGHUP to c, unless it is ignored, as with nohup.
func notifyHangUp(c chan<- os.Signal) {
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(c, syscall.SIGHUP)
	}
}

// run executes one command line and returns the exit status.
func run(args []string, h host) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt kills the process
	// A closed terminal can send SIGHUP several times, which must not kill the process while it cleans up.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hangUp := make(chan os.Signal, 1)
	notifyHangUp(hangUp)
	defer signal.Stop(hangUp)
	go func() {
		select {
		case <-hangUp:
			cancel()
		case <-ctx.Done():
		}
	}()
	// A closed pipe is an error of the write, after which the command cleans up. SIGPIPE
	// would end the process at once.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	out := &stdio.Output{W: h.stdout}
	h.stdout = out
	a := newApp(h, out)
	only := ""
	if len(args) > 0 {
		only = args[0]
	}
	cmd := newRoot(a, only)
	args = a.helpOnly(afterExec(cmd, args))
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	err = errors.Join(err, a.close())
	if a.drain != nil {
		defer a.drain(ctx)
	}
	if err == nil && out.Err() != nil {
		err = fmt.Errorf("write the answer: %w", out.Err()) // cobra ignores the errors of its help
	}
	switch {
	case err == nil:
		return api.ExitOK
	case out.BecauseUnread(err):
		return api.ExitPipe
	}
	// If a flag was invalid, --json may follow it.
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	a.json = a.json || slices.Contains(args, "--json")
	return a.fail(ctx, err)
}

// stateless lists the commands that work without a state directory.
var stateless = []string{"teambridge", "help", "version", "completion", "teams", "doctor"}

// commands lists all commands by group, the most used first.
var commands = []commandGroup{
	{"write", "Write", []lazyCommand{
		{"send", newSend}, {"ask", newAsk}, {"broadcast", newBroadcast}, {"reply", newReply}, {"permit", newPermit}, {"deny", newDeny}, {"join", newJoin}, {"leave", newLeave},
	}},
	{"read", "Read", []lazyCommand{
		{"inbox", newInbox}, {"status", func(a *app) *cobra.Command { return a.overAllTeams(newStatus(a)) }}, {"watch", newWatch}, {"history", newHistory}, {"search", newSearch}, {"read", newRead}, {"wait", newWait}, {"teams", newTeams}, {"members", newMembers}, {"sessions", newSessions}, {"name", newName}, {"tasks", newTasks}, {"transcript", newTranscript}, {"changes", newChanges}, {"usage", newUsage},
	}},
	{"agents", "Agents", []lazyCommand{
		{"run", newRun}, {"relay", newRelay}, {"switch", newSwitch}, {"pane", newPane}, {"hook", newHook}, {"profile", newProfile}, {"query", newQuery}, {"mcp", newMCP}, {"setup", newSetup},
	}},
	{"service", "Service", []lazyCommand{
		{"serve", newServe}, {"ui", newUI}, {"service", newService}, {"link", newLink}, {"dial-stdio", newDialStdio},
	}},
	{"upkeep", "Upkeep", []lazyCommand{
		{"doctor", newDoctor}, {"probe", newProbe}, {"demo", newDemo}, {"gc", newGC}, {"export", newExport}, {"completion", newCompletion}, {"version", newVersion},
	}},
}

type commandGroup struct {
	id, title string
	all       []lazyCommand
}

// lazyCommand is a command that is created only when needed: creating all costs 65 of 970 page faults.
type lazyCommand struct {
	name string
	make func(*app) *cobra.Command
}

// newRoot returns the root command. It has all subcommands, or just the one named only, if there is one.
func newRoot(a *app, only string) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:           "teambridge",
		Short:         "Messages into and out of Claude Code agent teams",
		Long:          rootLong,
		Example:       `  teambridge ask api-93 "is the build green?"`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if a.state, err = a.findState(a.state); err != nil && !slices.Contains(stateless, cmd.Name()) {
				return err
			}
			return a.chooseHost(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case version:
				return a.version()
			case a.teamName != "": // --team without a command is a mistake
				return cmd.Help()
			}
			return overview(cmd.Context(), a)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.Flags().BoolVar(&version, "version", false, "print the version")
	flags := root.PersistentFlags()
	flags.StringVar(&a.claudeDir, "claude-dir", "", "Claude Code's directory (default $CLAUDE_CONFIG_DIR, else ~/.claude)")
	flags.StringVarP(&a.teamName, "team", "t", "", "the team (default $TEAMBRIDGE_TEAM, else see 'teambridge --help-all')")
	flags.StringVar(&a.hostName, "host", "", "the service of another machine: ssh://[USER@]HOST[:PORT][/SOCKET], or unix:PATH (default $TEAMBRIDGE_HOST)")
	flags.StringVar(&a.state, "state-dir", "", "directory of teambridge's own files (default $TEAMBRIDGE_STATE, else $XDG_STATE_HOME/teambridge, else ~/.local/state/teambridge)")
	flags.BoolVar(&a.json, "json", false, "print JSON: the result on stdout, errors on stderr")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "report progress on stderr")
	must(root.RegisterFlagCompletionFunc("team", completer{a}.completeTeams))
	one := slices.ContainsFunc(commands, func(g commandGroup) bool {
		return slices.ContainsFunc(g.all, func(c lazyCommand) bool { return c.name == only })
	})
	for _, g := range commands {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.all {
			if one && c.name != only {
				continue
			}
			cmd := c.make(a)
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("upkeep")
	setDefaults(root)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_ = a.printHelp(cmd) // run gets the error from the output, since cobra drops it
	})
	return root
}

// group returns a command that only has subcommands.
func group(use, short, long string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subcommands...)
	return cmd
}

// exactly checks for n arguments, none for none.
func exactly(n int) cobra.PositionalArgs { return between(n, n) }

func none(cmd *cobra.Command, args []string) error { return between(0, 0)(cmd, args) }

// between checks for at least low arguments and at most high, if high is not negative.
func between(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint, want := "usage: "+cmd.UseLine(), plural(low, "argument")
		switch {
		case len(args) >= low && (high < 0 || len(args) <= high):
			return nil
		case high == 0:
			return usage(hint, "%s takes no arguments; there is %q", cmd.Name(), args[0])
		case low == high:
			if len(args) > high && wantsText(cmd) {
				hint += "; a text with spaces needs quotes"
			} else if len(args) > high && cmd.Flags().Lookup("reason") != nil {
				hint += "; the reason is given with --reason"
			}
		case len(args) < low:
			want = "at least " + want
		default:
			want = "at most " + plural(high, "argument")
		}
		return usage(hint, "%s takes %s, not %d", cmd.Name(), want, len(args))
	}
}

func wantsText(cmd *cobra.Command) bool { return strings.Contains(cmd.Use, "TEXT") }

// unknownCommand is the error for an argument that should be a command.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := root.CommandPath() + " --help lists the commands"
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if like := similar(args[0], names); len(like) > 0 {
		hint = "did you mean " + strings.Join(like, " or ") + "? " + hint
	}
	_, group, _ := strings.Cut(root.CommandPath()+" ", " ")
	return usage(hint, "unknown command %q", group+args[0])
}

// flagError is the error for a flag that does not exist or has a bad value.
func flagError(cmd *cobra.Command, err error) error {
	// Report an unknown command first, not its flags.
	if args := cmd.Flags().Args(); !cmd.HasParent() && len(args) > 0 {
		return unknownCommand(cmd, args)
	}
	hint := cmd.CommandPath() + " --help explains"
	if wantsText(cmd) {
		hint += `; put "--" before a text that begins with "-"`
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(cmd, hint, unknown)
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usage(hint, "invalid --%s %q: %w", invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap())
	}
	return usage(hint, "%w", err)
}

// unknownFlag is the error for a flag that does not exist.
func unknownFlag(cmd *cobra.Command, hint string, unknown *pflag.NotExistError) error {
	typed, shown := unknown.GetSpecifiedName(), "--"+unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		typed, shown = short, "-"+short
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if like := similar(typed, names); len(like) > 0 {
		return usage(hint, "unknown flag %s; did you mean --%s?", shown, strings.Join(like, " or --"))
	}
	return usage(hint, "unknown flag %s", shown)
}

// oneOfThese checks the value of a flag that has a list of values.
func oneOfThese(flag, value string, list ...string) error {
	if slices.Contains(list, value) {
		return nil
	}
	if value == "" {
		return usage("", "--%s is missing; it must be one of %s", flag, strings.Join(list, ", "))
	}
	return usage("", "--%s must be one of %s; it is %q", flag, strings.Join(list, ", "), value)
}

// must panics on an error that can only be a mistake in this program.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (f *files) close() (err error) {
	if f.leaveOpen && !f.goesOn {
		return nil
	}
	for _, c := range slices.Backward(f.opened) {
		err = errors.Join(err, c())
	}
	f.opened = nil
	return err
}

// atEnd makes close call c. The last call of atEnd comes first.
func (f *files) atEnd(c func() error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	f.opened = append(f.opened, c)
}

// closeUnwritten closes c at the end. It ignores errors, since nothing is written through c.
func (f *files) closeUnwritten(c io.Closer) {
	f.atEnd(func() error { _ = c.Close(); return nil })
}

func (f *files) root() (*teams.Root, error) {
	f.lazy.Lock()
	defer f.lazy.Unlock()
	switch {
	case f.there != nil:
		return nil, f.errNoFiles()
	case f.dir != nil:
		return f.dir, nil
	}
	dir, err := teams.Find(f.claudeDir, f.lookup)
	if err != nil {
		return nil, err
	}
	f.debug("Claude directory %s", dir)
	root, err := teams.Open(dir)
	if errors.Is(err, fs.ErrNotExist) && f.withoutClaude(dir) {
		root, err = teams.OpenExpected(dir)
	}
	if err == nil {
		f.dir = root
		f.closeUnwritten(root)
	}
	return root, err
}

// withoutClaude reports whether dir, which does not exist, is the default Claude directory of a person who has Codex
// or Qwen Code. Their agents can be reached without it. dir may also come from --claude-dir, as in the unit of the
// service.
func (f *files) withoutClaude(dir string) bool {
	home, err := f.home()
	if err != nil || filepath.Base(dir) != ".claude" {
		return false
	}
	is, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return false
	}
	its, err := os.Stat(home)
	if err != nil || !os.SameFile(is, its) {
		return false
	}
	homes := pane.HomesOf(f.lookup)
	return slices.ContainsFunc([]string{homes.Codex, homes.Qwen}, func(dir string) bool {
		has, err := os.Stat(dir)
		return err == nil && has.IsDir()
	})
}

// namedTeam returns the team that an argument (which may be empty), --team or $TEAMBRIDGE_TEAM names, or "".
func (a *access) namedTeam(name string) (string, error) {
	if name != "" && a.teamName != "" && name != a.teamName {
		return "", usage("omit one of them", "--team says %q and the name says %q", a.teamName, name)
	}
	if name = cmp.Or(name, a.teamName); name == "" {
		name, _ = a.lookup("TEAMBRIDGE_TEAM")
	}
	return name, nil
}

// team opens the team that an argument such as MEMBER@TEAM names, or, if name is empty, the default one.
func (a *access) team(ctx context.Context, name string) (*teams.Team, error) {
	name, err := a.namedTeam(name)
	if err != nil {
		return nil, err
	}
	s := a.scope()
	s.Team = name
	t, err := a.local().Open(ctx, s)
	if err == nil {
		a.closeUnwritten(t)
		a.chosen = t.Name()
		a.debug("team %s", t.Name())
	}
	return t, err
}

// findState returns the state directory. flag is --state-dir.
func (f *files) findState(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	return api.StateDir(f.lookup)
}

func (f *files) home() (string, error) { return api.HomeDir(f.lookup) }

func (f *files) locks() *lockedfile.Locker {
	if f.locker == nil {
		f.locker = lockedfile.New(lockedfile.Options{Dir: filepath.Join(f.state, "locks"), Wait: f.wait, Hold: f.hold})
	}
	return f.locker
}

func (f *files) ledger(ctx context.Context) (*ledger.Ledger, error) {
	if f.there != nil {
		return nil, f.errNoFiles()
	}
	f.lazy.Lock()
	defer f.lazy.Unlock()
	if f.sends == nil && f.sendsErr == nil {
		l, err := ledger.Open(ctx, filepath.Join(f.state, "ledger.db"))
		if err != nil && ctx.Err() != nil { // an interrupted call says nothing about the next one
			return nil, err
		}
		if f.sends, f.sendsErr = l, err; err == nil {
			f.atEnd(l.Close)
		}
	}
	return f.sends, f.sendsErr
}
