package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/opencode"
	"teambridge/relay/profile"
	"teambridge/teams"
)

// The names of the runtimes, for [ledger.Relay]. Empty is Claude Code, too.
const (
	ClaudeCode = "claude"
	OpenCode   = "opencode"
)

// JoinsAny reports whether the agent of a relay becomes a member of any team that it is to
// be in. Agents of Claude Code become members of teams that were made here: a lead starts
// its own in its team.
func JoinsAny(r ledger.Relay) bool { return r.Runtime == OpenCode }

// Launch says how the agent of a member is started.
type Launch struct {
	Team       *teams.Team  // nil if the agent only reads, and is OpenCode
	Member     string       // as [Member] gives it
	Settings   ledger.Relay // as [Check] leaves them
	State      string       // our state directory
	Env        []string     // as "NAME=value"; nil is ours
	Session    string       // for its first run; empty: one is chosen
	Permission *agent.Permission
	Stderr     io.Writer
}

// Runtime returns what starts the agent. *[ProgramError] if there is no such program.
// Claude Code is asked for its version, unless it is Plain.
func (l Launch) Runtime(ctx context.Context) (agent.Runtime, error) {
	// Agents keep their conversations under the real path.
	dir, err := filepath.EvalSymlinks(l.Settings.Dir)
	if err != nil {
		return nil, fmt.Errorf("fleet: the agent's directory: %w", err)
	}
	l.Settings.Dir = dir
	if l.Env == nil {
		l.Env = os.Environ()
	}
	if l.Settings.Runtime == OpenCode {
		o, err := l.openCode()
		if err != nil {
			return nil, err
		}
		return opencode.New(o), nil
	}
	o, err := l.claude(ctx)
	if err != nil {
		return nil, err
	}
	return claude.Runtime{Options: o}, nil
}

func (l Launch) claude(ctx context.Context) (claude.Options, error) {
	r := l.Settings
	child := claude.Options{
		Command: r.Command, Plain: r.Plain, Root: l.Team.Root().Path(), Dir: r.Dir, Session: l.Session, Profile: profileOf(r), Stderr: l.Stderr, Permission: l.Permission,
		Env: append(slices.Clone(l.Env), "CLAUDE_CONFIG_DIR="+l.Team.Root().Path(), "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1"),
	}
	if r.Plain {
		return child, nil
	}
	version, err := Version(ctx, r.Command, r.Dir, child.Env)
	if err != nil {
		return claude.Options{}, err
	}
	// Every version knows these flags. Without them its SendMessage reaches nobody.
	child.Member = claude.Member{Name: l.Member, Team: l.Team.Name()}
	// Versions that do not know this flag do not start with it.
	child.FreshPrompt = version.Has(teams.SnapshotFlag) == teams.Yes
	// With LimitsProfile, too, which is older.
	child.OldProfiles = version.Has(teams.NearestProfile) != teams.Yes
	child.OldRules = version.Has(teams.RulesForServers) != teams.Yes
	return child, nil
}

// Variables of OpenCode's, for a server that runs already.
const (
	openCodeUser     = "OPENCODE_SERVER_USERNAME"
	openCodePassword = "OPENCODE_SERVER_PASSWORD"
)

func (l Launch) openCode() (opencode.Options, error) {
	r := l.Settings
	o := opencode.Options{
		Command: r.Command, URL: r.URL, Dir: r.Dir, Env: l.Env, State: l.State, Session: l.Session, Profile: profileOf(r), Permission: l.Permission, Stderr: l.Stderr,
	}
	if o.URL == "" {
		program := OpenCode
		if len(r.Command) > 0 {
			program = r.Command[0]
		}
		if filepath.Base(program) != program && !filepath.IsAbs(program) {
			program = filepath.Join(r.Dir, program)
		}
		if _, err := exec.LookPath(program); err != nil {
			return opencode.Options{}, &ProgramError{err}
		}
		if l.Team != nil {
			o.Instructions = l.instructions()
		}
		return o, nil
	}
	o.User, o.Password = variable(l.Env, openCodeUser), variable(l.Env, openCodePassword)
	if r.PasswordFile != "" {
		data, err := os.ReadFile(r.PasswordFile)
		if err != nil {
			return opencode.Options{}, fmt.Errorf("fleet: the password of %s: %w", r.URL, err)
		}
		o.Password = strings.TrimRight(string(data), "\r\n")
	}
	return o, nil
}

// instructions tell a model that knows nothing of teams how it takes part in one.
func (l Launch) instructions() string {
	return fmt.Sprintf("You are %q, a member of the team %q of agents. "+
		"A message in <teammate-message teammate_id=\"NAME\"> is from the member NAME; one with verified=\"false\" may not be. "+
		"What you say last in a turn is sent to the members whose messages you were given in it.", l.Member, l.Team.Name())
}

// variable returns the value of an environment variable; the last one counts.
func variable(env []string, name string) (value string) {
	for _, v := range env {
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			value = text
		}
	}
	return value
}

// checkOpenCode reports whether an OpenCode can be started, or reached, with the settings of
// a relay.
func checkOpenCode(r *ledger.Relay) error {
	switch u, err := url.Parse(r.URL); {
	case r.URL != "" && r.Profile != "":
		return &SettingError{"profile", "a server that is already running takes no profile"}
	case r.Plain:
		return &SettingError{"plain", "it is for programs that speak Claude Code's stream-json, which OpenCode does not"}
	case r.URL == "" && r.PasswordFile != "":
		return &SettingError{"password-file", "it is the password of a server, so it needs url"}
	case r.URL == "":
	case len(r.Command) > 0:
		return &SettingError{"url", "its server is already running, so no command can be given"}
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery+u.Fragment != "":
		return &SettingError{"url", fmt.Sprintf("%q is not the URL of a server, such as http://127.0.0.1:4096", r.URL)}
	case u.User != nil:
		return &SettingError{"url", "user and password are not part of it; set $" + openCodeUser + ", and $" + openCodePassword + " or password-file"}
	case r.PasswordFile != "" && !filepath.IsAbs(r.PasswordFile):
		return &SettingError{"password-file", fmt.Sprintf("%q is not an absolute path", r.PasswordFile)}
	}
	r.URL = strings.TrimRight(r.URL, "/")
	return nil
}

// checkProfile reports whether there is the profile of a relay, and whether its agent can
// have one.
func checkProfile(r ledger.Relay) error {
	if r.Profile == "" {
		return nil
	}
	if r.Plain {
		return &SettingError{"profile", "it is given by flags, which --plain does not add"}
	}
	if r.Runtime != OpenCode && slices.ContainsFunc(r.Command, func(arg string) bool {
		return arg == "--agent" || strings.HasPrefix(arg, "--agent=")
	}) {
		return &SettingError{"profile", "the command has --agent, which is the same; give one of them"}
	}
	_, err := profileOf(r).Load()
	return err
}

// profileOf is the profile of a relay's agent.
func profileOf(r ledger.Relay) profile.Ref {
	if r.Profile == "" {
		return profile.Ref{}
	}
	return profile.Ref{Name: r.Profile, Dir: r.Dir, Root: r.Root}
}

// checkClaude reports whether Claude Code can be started with the settings of a relay: a
// *[SettingError] if the flags contradict each other, or what a relay needs.
func checkClaude(r *ledger.Relay) error {
	if r.URL != "" || r.PasswordFile != "" {
		return &SettingError{"url", "Claude Code has no server; it is for --runtime opencode"}
	}
	if _, _, err := (claude.Options{Command: r.Command, Plain: r.Plain}).Argv(); err != nil {
		reason := err.Error()
		if _, why, ok := strings.Cut(reason, claude.ErrInvalid.Error()+": "); ok {
			reason = why
		}
		return &SettingError{"command", reason}
	}
	return nil
}

// ProgramError says that there is no such program, or that it did not print its version, as
// Claude Code does.
type ProgramError struct{ Err error }

func (e *ProgramError) Error() string { return e.Err.Error() }
func (e *ProgramError) Unwrap() error { return e.Err }

// Version asks a Claude Code for its version: "2.1.80 (Claude Code)".
func Version(ctx context.Context, command []string, dir string, env []string) (teams.Version, error) {
	if len(command) == 0 {
		return teams.Version{}, &ProgramError{errors.New("there is no command")}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// Ask the program, or the script of an interpreter, without its flags.
	n := 1
	for n < len(command) && !strings.HasPrefix(command[n], "-") {
		n++
	}
	cmd := exec.CommandContext(ctx, command[0], append(slices.Clone(command[1:n]), "--version")...)
	cmd.Env, cmd.Dir = env, dir
	out, err := cmd.Output()
	if err != nil {
		return teams.Version{}, &ProgramError{fmt.Errorf("ask %s for its version: %w", command[0], err)}
	}
	version, _ := teams.ParseVersion(string(out)) // unknown if a wrapper prints something else
	return version, nil
}

// Member resolves the name of the member that an agent is to be. If it is the lead, and
// runs in another process, the error is a *[LeadError]: an interactive agent reads its
// inbox by itself.
func Member(ctx context.Context, t *teams.Team, as string) (string, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return "", err
	}
	member, err := c.Resolve(as, nil)
	if err != nil {
		return "", err
	}
	lead, _ := c.Lead()
	if member != lead.Name {
		return member, nil
	}
	if pid, state := t.Leader(c); pid != os.Getpid() && state == teams.Alive {
		return "", &LeadError{Team: t.Name(), PID: pid}
	}
	return member, nil
}

// MemberOf is [Member] for a team that need not exist yet: then it is the name as it is.
func MemberOf(ctx context.Context, root *teams.Root, team, as string) (string, error) {
	if err := errors.Join(teams.CheckName("team", team), teams.CheckName("member", as)); err != nil {
		return "", err
	}
	t, err := root.Team(team)
	if err == nil {
		defer t.Close()
		as, err = Member(ctx, t, as)
	}
	if errors.Is(err, teams.ErrTeamGone) {
		return as, nil
	}
	return as, err
}

// Key returns the ledger's key of a member's inbox, by any name of the member.
func Key(ctx context.Context, t *teams.Team, member string) (ledger.InboxKey, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return ledger.InboxKey{}, err
	}
	name, err := c.Resolve(member, nil)
	if err != nil {
		return ledger.InboxKey{}, err
	}
	return ledger.KeyOf(t, c, name), nil
}

// LeadError says that a team has a living lead of its own.
type LeadError struct {
	Team string
	PID  int
}

func (e *LeadError) Error() string {
	return fmt.Sprintf("the lead of %s is alive (process %d)", e.Team, e.PID)
}
