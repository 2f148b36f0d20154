package claude

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"teambridge/relay/profile"
)

// Terminal returns the command for a process that a person uses at a terminal, and its session. It uses the
// options Command, Session, Resume and Mode, and appends to Command
//
//	--session-id UUID, or --resume UUID
//	--prefill=TEXT                          with a text, which is put at the prompt and not run, without
//	                                        spaces at its ends
//	--model, --permission-mode, …           as [Options.Argv] does
//	--settings=VALUE                        the result of settings for the value in Command, which is empty if there is
//	                                        none; an empty result keeps that value
//
// In plan mode neither --dangerously-skip-permissions nor the flag that lets a person switch to it is passed:
// see [Options.Argv].
//
// It refuses with [ErrInvalid] the session flags that Argv refuses; flags for a program that is not at this
// terminal, or whose session is not known, such as --print, --background and --teleport; two --settings, since
// only one would take effect; and a prompt or a subcommand, since a prompt would run again at each resume of
// the session. A prompt after an unknown flag is taken for that flag's value.
func (o Options) Terminal(prefill string, settings func(own string) (string, error)) (argv []string, session string, err error) {
	invalid := func(err error) ([]string, string, error) {
		return nil, "", &CommandError{err}
	}
	if len(o.Command) == 0 || o.Command[0] == "" {
		return invalid(errors.New("there is none"))
	}
	program, args := split(o.Command)
	for _, name := range []string{
		"-p", "--print", "--input-format", "--output-format", "--bg", "--background", "--cloud", "--teleport", "--from-pr", "--desktop", "--tmux",
	} {
		if args.has(name) {
			return invalid(fmt.Errorf("%s is in it: the program must run at the terminal, with a session that is known", name))
		}
	}
	session, resume, err := o.conversation(&args)
	if err != nil {
		return invalid(err)
	}
	if prompt := args.prompt(); prompt != "" {
		return invalid(fmt.Errorf("%.40q is in it, a prompt or a command, which would run each time: type it at the prompt", prompt))
	}
	if resume {
		args.forget(o.Mode, &profile.Profile{})
		args.add("--resume", session)
	} else {
		args.add("--session-id", session)
	}
	if err := args.mode(o.Mode); err != nil {
		return invalid(err)
	}
	if value, ok := o.Mode.PermissionMode.Value(); ok && value == planMode {
		args.remove(allowSkipping)
	}
	own, _ := args.take("--settings")
	if args.has("--settings") {
		return invalid(errors.New("--settings is in it twice, and only one of them would count"))
	}
	value, err := settings(own)
	if err != nil {
		return invalid(err)
	}
	if value == "" {
		value = own
	}
	if value != "" {
		args.add("--settings=" + value)
	}
	if prefill != "" {
		args.add("--prefill=" + prefill)
	}
	return append(program, args.list...), session, nil
}

// Flags without a value, and flags that take all following arguments. All others take one value.
var (
	plainFlags = []string{
		skipPermissions, allowSkipping, "--ax-screen-reader", "--bare", "--brief", "--chrome", "--no-chrome", "--disable-slash-commands",
		"--exclude-dynamic-system-prompt-sections", "--ide", "--mcp-debug", "--restricted", "--safe-mode", "--strict-mcp-config", "--verbose",
	}
	listFlags = []string{
		"--add-dir", "--allowedTools", "--allowed-tools", "--betas", "--disallowedTools", "--disallowed-tools", "--file", "--mcp-config", "--tools",
	}
)

// prompt returns the first argument that is neither a flag nor a flag's value; empty if there is none.
func (f *flags) prompt() string {
	values := 0 // how many values may follow
	for i, arg := range f.list {
		name, _, inside := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return strings.Join(f.list[i:], " ")
		case strings.HasPrefix(arg, "-") && (inside || slices.Contains(plainFlags, name)):
			values = 0
		case strings.HasPrefix(arg, "-") && slices.Contains(listFlags, name):
			values = len(f.list)
		case strings.HasPrefix(arg, "-"):
			values = 1
		case values == 0:
			return arg
		default:
			values--
		}
	}
	return ""
}

// TakeSession removes the session from a command whose session can change, as with /clear. The session is
// empty if the command names none. The error wraps [ErrInvalid].
func TakeSession(command []string) (rest []string, session string, err error) {
	program, args := split(command)
	if !args.has("--resume", "-r", "--session-id") {
		return command, "", nil
	}
	if session, _, err = (Options{}).conversation(&args); err != nil {
		return nil, "", &CommandError{err}
	}
	return append(program, args.list...), session, nil
}
