package claude

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"teambridge/relay/mode"
	"teambridge/relay/profile"
)

// launch is a command that is ready to start, made of [Options].
type launch struct {
	argv    []string
	env     []string
	session string
	resume  bool
	mode    string // the permission mode in the flags; empty if there is none
	profile string // the name of the required profile; empty if none
}

// Argv returns the command that [Start] runs, and its session. It appends these flags to Options.Command
// unless they are there already:
//
//	-p --input-format stream-json --output-format stream-json --verbose --replay-user-messages
//	--session-id UUID, or --resume UUID
//	--permission-prompt-tool stdio                          with a Permission
//	--agent-id NAME@TEAM --agent-name NAME --team-name TEAM with a Member
//	--agent NAME                                            with a Profile
//	--model, --permission-mode, --fallback-model, --system-prompt, --append-system-prompt, --allowedTools,
//	--disallowedTools                                       with a Mode
//	--system-prompt-snapshot off                            with a system prompt, or its default, in the Mode, or a
//	                                                        Profile: a resumed conversation would keep its first prompt
//	--model default                                         with Resume, and the default model in the Mode or, with a
//	                                                        Profile, no model; not if the Profile has one
//	--permission-mode default                               without another, or --dangerously-skip-permissions: the
//	                                                        settings of a project could name another, and 2.1.285 to
//	                                                        2.1.301 begin in auto by themselves
//	--settings={"permissions":{"ask":["Bash",…]},…}         in plan mode, see below
//	--disallowedTools=ExitPlanMode                          in plan mode, unless a Permission asks
//
// With a permission mode, --dangerously-skip-permissions becomes --allow-dangerously-skip-permissions, so
// that the mode takes effect and can be changed back.
//
// In plan mode neither flag is passed, since plan mode with one of them can allow everything. Plan mode alone
// can be undermined by files of the project: rules in its settings allow shell commands; a subagent with a
// permissionMode of its own works in that mode; a sandbox approves commands that run in it. So --settings adds
// rules, which precede all others, to ask about each tool that can change something, and turns off approval
// by the sandbox and by a model. ExitPlanMode is disallowed, since a member of a team may use it without a
// question; with a Permission it is allowed, and a rule makes Claude Code ask. A command with its own
// --settings gets none of these settings; all of these tools are disallowed instead.
//
// --session-id and --resume of the command are replaced; they name the session if Options.Session is empty.
// Refused with [ErrInvalid] are other formats, --continue and --fork-session (the session would be unknown),
// --no-session-persistence (no transcript would show which frames were taken), and --permission-mode plan
// together with --dangerously-skip-permissions (no version then plans).
func (o Options) Argv() (argv []string, session string, err error) {
	l, err := o.launch()
	return l.argv, l.session, err
}

func (o Options) launch() (launch, error) {
	invalid := func(format string, args ...any) (launch, error) {
		return launch{}, &CommandError{fmt.Errorf(format, args...)}
	}
	if len(o.Command) == 0 || o.Command[0] == "" {
		return invalid("there is none")
	}
	l := launch{session: o.Session, resume: o.Resume, env: o.Env}
	if l.env == nil {
		l.env = os.Environ()
	}
	if o.Plain {
		if o.Profile.Name != "" {
			return invalid("a profile needs flags, which other programs do not get")
		}
		l.argv = slices.Clone(o.Command)
		return l, nil
	}
	program, args := split(o.Command)
	var err error
	if l.session, l.resume, err = o.conversation(&args); err != nil {
		return invalid("%w", err)
	}

	if !args.has("-p", "--print") {
		args.add("-p")
	}
	for _, name := range []string{"--input-format", "--output-format"} {
		if value, there := args.value(name); !there {
			args.add(name, "stream-json")
		} else if value != "stream-json" {
			return invalid("%s %s is in it, must be stream-json", name, value)
		}
	}
	for _, name := range []string{"--verbose", "--replay-user-messages"} {
		if !args.has(name) {
			args.add(name)
		}
	}
	if l.resume {
		args.add("--resume", l.session)
	} else {
		args.add("--session-id", l.session)
	}
	if o.Permission != nil && !args.has("--permission-prompt-tool") {
		args.add("--permission-prompt-tool", "stdio")
	}
	if m := o.Member; m != (Member{}) {
		if m.Name == "" || m.Team == "" {
			return invalid("a member needs a name and a team, has %q and %q", m.Name, m.Team)
		}
		for _, f := range [][2]string{{"--agent-id", m.Name + "@" + m.Team}, {"--agent-name", m.Name}, {"--team-name", m.Team}} {
			if !args.has(f[0]) {
				args.add(f[0], f[1])
			}
		}
		l.env = append(slices.Clone(l.env), "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1")
	}
	p, err := o.profile(&args)
	if err != nil {
		return launch{}, err
	}
	l.profile = p.Name
	if l.resume {
		args.forget(o.Mode, p)
	}
	if err := args.mode(o.Mode); err != nil {
		return invalid("%w", err)
	}
	if l.mode, err = args.permissions(o); err != nil {
		return invalid("%w", err)
	}
	asked := p.Name != "" || !o.Mode.CustomSystemPrompt.IsAbsent() || !o.Mode.AppendSystemPrompt.IsAbsent()
	if asked && !args.has("--system-prompt-snapshot") {
		args.add("--system-prompt-snapshot", "off")
	}
	l.argv = append(program, args.list...)
	return l, nil
}

// conversation removes the flags that name a session, and returns the session that they and the options name.
func (o Options) conversation(args *flags) (id string, resume bool, err error) {
	invalid := func(format string, args ...any) (string, bool, error) {
		return "", false, fmt.Errorf(format, args...)
	}
	id, resume = o.Session, o.Resume
	for _, name := range [][]string{{"-c", "--continue"}, {"--fork-session"}, {"--no-session-persistence"}} {
		if args.has(name...) {
			return invalid("%s is in it: the session must be known, and remembered; name it with --resume", name[len(name)-1])
		}
	}
	for _, name := range []string{"--session-id", "--resume", "-r"} {
		for value, there := args.take(name); there; value, there = args.take(name) {
			switch {
			case value == "":
				return invalid("%s is in it without the id of a session", name)
			case o.Session == "" && (id == "" || id == value):
				id = value
				resume = resume || name != "--session-id"
			case id != value:
				return invalid("%s %s is in it, and the session is to be %s", name, value, id)
			}
		}
	}
	if id == "" {
		if resume {
			return invalid("nothing says which session to resume")
		}
		id = uuid.NewString()
	}
	if _, err := uuid.Parse(id); err != nil {
		return invalid("session %.60q is no UUID", id)
	}
	return id, resume, nil
}

// split returns the program, including its script if it is an interpreter, and copies of its flags. If the
// program's name is not Claude Code's, as with a shell, its short flags have a meaning of their own.
func split(command []string) (program []string, args flags) {
	at := func(first int, short bool) ([]string, flags) {
		return slices.Clone(command[:first]), flags{slices.Clone(command[first:]), short}
	}
	if len(command) == 0 {
		return at(0, false)
	}
	switch strings.TrimSuffix(filepath.Base(command[0]), ".exe") {
	case "claude":
		return at(1, true)
	case "node", "bun", "deno", "npx", "bunx":
		for i, arg := range command[1:] {
			switch previous := command[i]; {
			case i > 0 && (previous == "-r" || previous == "--require" || previous == "--import"):
			case filepath.Base(arg) == "claude", strings.HasSuffix(arg, "claude-code"),
				strings.HasSuffix(arg, ".js"), strings.HasSuffix(arg, ".mjs"), strings.HasSuffix(arg, ".cjs"):
				return at(i+2, true)
			}
		}
	}
	return at(1, false)
}

// flags are the command-line arguments of Claude Code.
type flags struct {
	list  []string
	short bool // short flags are Claude Code's, too
}

func (f *flags) add(args ...string) { f.list = append(f.list, args...) }

// find returns the first index of a flag, with or without "=value".
func (f *flags) find(names ...string) int {
	return slices.IndexFunc(f.list, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains(names, name) && (f.short || strings.HasPrefix(arg, "--"))
	})
}

// remove removes a flag that has no value.
func (f *flags) remove(name string) {
	f.list = slices.DeleteFunc(f.list, func(arg string) bool { return arg == name })
}

func (f *flags) has(names ...string) bool { return f.find(names...) >= 0 }

// value returns the value of a flag, or "" if the flag is missing.
func (f *flags) value(name string) (value string, there bool) {
	i := f.find(name)
	if i < 0 {
		return "", false
	}
	if _, value, inside := strings.Cut(f.list[i], "="); inside {
		return value, true
	}
	if i+1 < len(f.list) && !strings.HasPrefix(f.list[i+1], "-") {
		return f.list[i+1], true
	}
	return "", true
}

// take is value, and removes the flag.
func (f *flags) take(name string) (value string, there bool) {
	value, there = f.value(name)
	if i := f.find(name); there {
		n := 1
		if !strings.Contains(f.list[i], "=") && value != "" {
			n = 2
		}
		f.list = slices.Delete(f.list, i, i+n)
	}
	return value, there
}

// forget adds the flag for the default model, since a resumed process would otherwise use the conversation's
// model. A profile with a model needs no flag: its model takes precedence.
func (f *flags) forget(m mode.Mode, p *profile.Profile) {
	if (m.Model.IsDefault() || m.Model.IsAbsent() && p.Name != "") && p.Model == "" && !f.has("--model") {
		f.add("--model", "default")
	}
}

// flagged is a setting and the names of its flags. The first name is the one to add.
type flagged[T string | []string] struct {
	setting *mode.Setting[T]
	names   []string
}

// flagsOf returns a mode's settings with their flags.
func flagsOf(m *mode.Mode) ([]flagged[string], []flagged[[]string]) {
	return []flagged[string]{
			{&m.Model, []string{"--model"}},
			{&m.PermissionMode, []string{"--permission-mode", skipPermissions}},
			{&m.FallbackModel, []string{"--fallback-model"}},
			{&m.CustomSystemPrompt, []string{"--system-prompt", "--system-prompt-file"}},
			{&m.AppendSystemPrompt, []string{"--append-system-prompt", "--append-system-prompt-file"}},
		}, []flagged[[]string]{
			{&m.AllowedTools, []string{"--allowedTools", "--allowed-tools"}},
			{&m.DisallowedTools, []string{"--disallowedTools", "--disallowed-tools"}},
		}
}

// mode adds the flags of a mode, replacing those of the command.
func (f *flags) mode(m mode.Mode) error {
	if _, ok := m.PermissionMode.Value(); ok && f.has(skipPermissions) {
		f.remove(skipPermissions)
		if !f.has(allowSkipping) {
			f.add(allowSkipping)
		}
	}
	texts, lists := flagsOf(&m)
	for _, s := range texts {
		if value, ok := s.setting.Value(); ok {
			f.set(s.names[0], value)
		}
	}
	for _, s := range lists {
		list, ok := s.setting.Value()
		if !ok || len(list) == 0 {
			continue
		}
		for _, tool := range list {
			// "Bash(git log, git diff)" is one rule: a comma inside parentheses does not separate rules.
			if tool == "" || strings.HasPrefix(tool, "-") {
				return errors.New(s.names[0] + " would hold a rule that is empty or looks like a flag")
			}
		}
		f.set(s.names[0], strings.Join(list, ","))
	}
	return nil
}

// permissions returns the permission mode in the flags, adding one if there is none, and secures plan mode.
func (f *flags) permissions(o Options) (mode string, err error) {
	mode, _ = f.value("--permission-mode")
	switch {
	case mode == planMode && f.has(skipPermissions):
		return "", fmt.Errorf("%s is in it next to --permission-mode plan, which it overrides", skipPermissions)
	case mode == planMode:
		return mode, f.plan(o)
	case f.has(skipPermissions):
		return "bypassPermissions", nil
	case mode == "":
		mode = defaultMode
		f.set("--permission-mode", mode)
	}
	return mode, nil
}

// plan adds the flags that secure plan mode.
func (f *flags) plan(o Options) error {
	f.remove(allowSkipping)
	guarded := slices.Clone(changing)
	denied := []string{exitPlanMode}
	if f.has("--settings") { // the flag must not occur twice
		denied = append(denied, guarded...)
	} else {
		if o.Permission != nil && o.Permission.Ask != nil {
			guarded, denied = append(guarded, exitPlanMode), nil
		}
		settings, err := planSettings(guarded)
		if err != nil {
			return err
		}
		f.add("--settings=" + settings)
	}
	if len(denied) > 0 {
		// Claude Code adds these tools to those of another flag with this name.
		f.add("--disallowedTools=" + strings.Join(denied, ","))
	}
	return nil
}

// plans reports whether a process that starts in a mode has the flags that secure plan mode.
func (o Options) plans(m mode.Mode) bool {
	value, ok := m.PermissionMode.Value()
	if !ok {
		_, args := split(o.Command)
		value, _ = args.value("--permission-mode")
	}
	return value == planMode && !o.Plain
}

// Unnamed returns the mode without the settings for which Command has a flag of its own.
func (o Options) Unnamed(m mode.Mode) mode.Mode {
	_, args := split(o.Command)
	texts, lists := flagsOf(&m)
	for _, s := range texts {
		if args.has(s.names...) {
			*s.setting = mode.Setting[string]{}
		}
	}
	for _, s := range lists {
		if args.has(s.names...) {
			*s.setting = mode.Setting[[]string]{}
		}
	}
	return m
}

// set sets a flag to a value that may begin with anything, even a dash.
func (f *flags) set(name, value string) {
	for f.has(name) {
		f.take(name)
	}
	f.add(name + "=" + value)
}

// NeedsRestart reports whether the change of mode needs a new process. [Process.SetMode] can change the model
// and the permission mode of a running one, but plan mode is only secure with the flags of [Options.Argv].
func (o Options) NeedsRestart(from, to mode.Mode) bool {
	if o.plans(from) != o.plans(to) {
		return true
	}
	back := func(from, to mode.Setting[string]) bool {
		_, before := from.Value()
		_, after := to.Value()
		return before && !after
	}
	if back(from.Model, to.Model) || back(from.PermissionMode, to.PermissionMode) {
		return true
	}
	to.Model, to.PermissionMode = from.Model, from.PermissionMode
	// An absent setting and a default one are the same to a new process.
	return from.WithoutDefaults() != to.WithoutDefaults()
}
