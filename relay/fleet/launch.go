package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude"
	"teambridge/teams"
)

// Launch says how the agent of a member is started.
type Launch struct {
	Team       *teams.Team
	Member     string // as [Member] gives it
	Command    []string
	Plain      bool     // add no flags: for programs that speak the same lines
	Dir        string   // its working directory; empty is ours
	Env        []string // as "NAME=value"; nil is ours
	Session    string   // for its first run; empty: one is chosen
	Permission *claude.Permission
	Stderr     io.Writer
}

// Options returns how the agent is started. It asks the program for its version, unless it
// is Plain: *[VersionError] if that fails.
func (l Launch) Options(ctx context.Context) (claude.Options, error) {
	dir, err := filepath.Abs(l.Dir)
	if err == nil {
		// The agent keeps its transcript under the real path.
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return claude.Options{}, fmt.Errorf("fleet: the agent's directory: %w", err)
	}
	env := l.Env
	if env == nil {
		env = os.Environ()
	}
	child := claude.Options{
		Command: l.Command, Plain: l.Plain, Dir: dir, Session: l.Session, Stderr: l.Stderr, Permission: l.Permission,
		Env: append(slices.Clone(env), "CLAUDE_CONFIG_DIR="+l.Team.Root().Path(), "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS=1"),
	}
	if l.Plain {
		return child, nil
	}
	version, err := versionOf(ctx, l.Command, dir, child.Env)
	if err != nil {
		return claude.Options{}, err
	}
	// Every version knows these flags. Without them its SendMessage reaches nobody.
	child.Member = claude.Member{Name: l.Member, Team: l.Team.Name()}
	// Versions that do not know this flag do not start with it.
	child.FreshPrompt = version.Has(teams.SnapshotFlag) == teams.Yes
	return child, nil
}

// CheckCommand reports whether an agent can be started by a command: a *[SettingError]
// if its flags contradict each other, or what a relay needs.
func CheckCommand(command []string, plain bool) error {
	if _, _, err := (claude.Options{Command: command, Plain: plain}).Argv(); err != nil {
		reason := err.Error()
		if _, why, ok := strings.Cut(reason, claude.ErrInvalid.Error()+": "); ok {
			reason = why
		}
		return &SettingError{"command", reason}
	}
	return nil
}

// VersionError says that a program did not print its version, as Claude Code does.
type VersionError struct {
	Program string
	Err     error
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("ask %s for its version: %v", e.Program, e.Err)
}

func (e *VersionError) Unwrap() error { return e.Err }

// versionOf asks a Claude Code for its version: "2.1.80 (Claude Code)".
func versionOf(ctx context.Context, command []string, dir string, env []string) (teams.Version, error) {
	if len(command) == 0 {
		return teams.Version{}, &VersionError{Err: errors.New("there is no command")}
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
		return teams.Version{}, &VersionError{Program: command[0], Err: err}
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
	if p := c.LeadProcess; member == lead.Name && p != nil && p.PID != os.Getpid() && p.Liveness() == teams.Alive {
		return "", &LeadError{Team: t.Name(), PID: p.PID}
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
	i := c.Instance()
	return ledger.InboxKey{Root: t.Root().Path(), Team: i.Team, CreatedAt: i.CreatedAt, Inbox: name}, nil
}

// LeadError says that a team has a living lead of its own.
type LeadError struct {
	Team string
	PID  int
}

func (e *LeadError) Error() string {
	return fmt.Sprintf("the lead of %s is alive (process %d)", e.Team, e.PID)
}
