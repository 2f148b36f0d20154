package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/runtimes"
	"teambridge/relay/shell"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
	"teambridge/teams"
)

func (x *examination) relays(ctx context.Context, l *ledger.Ledger) error {
	sessions, err := l.Sessions.List(ctx, x.Root.Path())
	if err != nil {
		return err
	}
	for _, s := range sessions {
		if err := x.relay(ctx, l, s); err != nil && !errors.Is(err, teams.ErrTeamGone) {
			x.add(api.LevelProblem, "relay", s.Team, "", view.Describe(err), "")
		}
	}
	if err := x.openCodeRelays(ctx, l); err != nil {
		return err
	}
	holds, err := l.Holds.List(ctx, x.Root.Path())
	if err != nil {
		return err
	}
	for _, h := range holds {
		t, err := x.Root.Team(h.Team)
		if err != nil {
			continue // the team has ended
		}
		if c, err := t.Config(ctx); err == nil && c.Instance().CreatedAt == h.CreatedAt {
			x.add(api.LevelNote, "held", h.Team, "", "the messages of "+h.Sender+" to "+h.Inbox+" are held: "+h.Reason,
				fmt.Sprintf("teambridge relay release %s@%s %s", h.Inbox, h.Team, h.Sender))
		}
		_ = t.Close()
	}
	failed, _, err := x.failed(ctx, l)
	if err == nil && len(failed) > 0 {
		x.add(api.LevelNote, "dead_letters", failed[0].Team, "", fmt.Sprintf("%s could not be delivered, the last because: %s", plain.Plural(len(failed), "message"), failed[0].Reason),
			"list them with: teambridge relay list; retry them with: teambridge relay retry")
	}
	return err
}

// runtimeArgs returns the arguments of "teambridge run" for a relay's command, which is all that the ledger has of it.
func runtimeArgs(command string) string {
	program, _, _ := strings.Cut(command, " ")
	switch {
	case strings.HasPrefix(command, "http://"), strings.HasPrefix(command, "https://"):
		return "--runtime opencode --url " + shell.Quote(command)
	case slices.ContainsFunc(strings.Fields(command), func(word string) bool { // true of all known commands of the Agent Client Protocol
		return word == "acp" || word == "--acp" || strings.HasSuffix(filepath.Base(word), "-acp")
	}):
		return "--runtime acp -- " + command
	case strings.HasPrefix(filepath.Base(program), runtimes.OpenCode):
		return "--runtime opencode -- " + command
	}
	return "-- " + command
}

// killedLauncher reports a session whose launcher was killed, and the number of messages that wait for it.
func (x *examination) killedLauncher(s ledger.Session, h ledger.Handoff, waiting int) {
	level, kept := api.LevelNote, ""
	if h.Draft != "" {
		level, kept = api.LevelProblem, "; the draft at its prompt is kept"
	}
	if waiting > 0 {
		level, kept = api.LevelProblem, kept+"; messages wait for it: "+strconv.Itoa(waiting)
	}
	x.add(level, "killed_launcher", s.Team, s.Command, fmt.Sprintf("the launcher of the session of %s@%s was killed%s", s.Inbox, s.Team, kept),
		fmt.Sprintf("run it again in its directory to go on with the session: teambridge run --local --team %s --as %s -- COMMAND", shell.Quote(s.Team), shell.Quote(s.Inbox)))
}

// relay reports an agent that does not stay alive, and messages for an agent whose relay does not run. It skips
// sessions of ended teams.
func (x *examination) relay(ctx context.Context, l *ledger.Ledger, s ledger.Session) error {
	t, err := x.Root.Team(s.Team)
	if err != nil {
		return err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil || c.Instance().CreatedAt != s.CreatedAt {
		return err
	}
	if _, lost, ok := strings.Cut(s.Reason, agent.LostWrites); ok {
		x.add(api.LevelProblem, "lost_writes", s.Team, s.Command, s.Inbox+": "+agent.LostWrites+lost,
			"make room there; the agent continues with the content of its transcript, so repeat what it should remember")
	}
	if s.Dead != "" {
		x.add(api.LevelProblem, "dead_relay", s.Team, s.Command, "the agent "+s.Inbox+" does not stay alive: "+s.Dead,
			"run it again with teambridge run; if it was added, with teambridge relay retry; waiting messages are kept")
		return nil
	}
	f, err := relay.Facts(ctx, l, x.State, t, c, s.Inbox)
	if err != nil || !f.Headless || f.Relayed {
		return err
	}
	o, _, err := relay.Stat(ctx, l, x.State, t, c, s.Inbox)
	if err != nil {
		return err
	}
	unread, err := view.Unread(ctx, t, s.Inbox)
	if err != nil {
		return err
	}
	if h, found, err := l.Sessions.Handoff(ctx, s.InboxKey); err != nil || found && s.State != ledger.RelayEnded {
		x.killedLauncher(s, h, o.Queue+unread)
		return err
	}
	if o.Queue+unread == 0 {
		return nil
	}
	how, waits := "has ended", "1 message waits"
	if s.State != ledger.RelayEnded {
		how = "is gone"
	}
	if n := o.Queue + unread; n > 1 {
		waits = fmt.Sprintf("%d messages wait", n)
	}
	x.add(api.LevelProblem, "no_relay", s.Team, s.Command, fmt.Sprintf("the relay of %s %s, and %s for it; no other process reads that inbox", s.Inbox, how, waits),
		runAgain(s, s.Inbox == lead(c) && owned(ctx, l, x.Root, c)))
	return nil
}

// runAgain returns the command that continues a run. With own, it also takes over the team that the run made, whose
// config.json otherwise still names the ended process as the lead.
func runAgain(s ledger.Session, own bool) string {
	create := ""
	if own {
		create = "--create-team "
	}
	return fmt.Sprintf("teambridge run --team %s --as %s %s%s", shell.Quote(s.Team), shell.Quote(s.Inbox), create, runtimeArgs(s.Command))
}

func lead(c *teams.Config) string {
	m, _ := c.Lead()
	return m.Name
}

// owned reports whether teambridge made a team, and no other program has taken it over.
func owned(ctx context.Context, l *ledger.Ledger, root *teams.Root, c *teams.Config) bool {
	known, _ := l.Teams.List(ctx, root.Path(), c.Team) // after an error, it counts as not owned
	return slices.ContainsFunc(known, func(k ledger.OwnedTeam) bool {
		return c.IsOwned(teams.OwnedTeam{Team: k.Team, CreatedAt: k.CreatedAt, Lead: k.Lead, Session: k.Session, Leaders: k.Leaders})
	})
}

// takeBack returns how to take over a team that teambridge made and left behind, or "" for other teams.
func (x *examination) takeBack(ctx context.Context, c *teams.Config) string {
	l, err := x.Ledger(ctx) // an error of the ledger is reported elsewhere
	if err != nil || l == nil || !owned(ctx, l, x.Root, c) {
		return ""
	}
	sessions, err := l.Sessions.List(ctx, x.Root.Path())
	if err != nil {
		return ""
	}
	if relays, err := l.Relays.List(ctx, x.Root.Path()); err != nil || slices.ContainsFunc(relays, func(r ledger.Relay) bool { return r.Team == c.Team && r.OwnTeam }) {
		return "a service takes it back: teambridge serve"
	}
	for _, s := range sessions {
		if s.Team != c.Team || s.CreatedAt != c.Instance().CreatedAt || s.Inbox != lead(c) {
			continue
		}
		if _, local, err := l.Sessions.Handoff(ctx, s.InboxKey); err != nil || local {
			return fmt.Sprintf("run it again in its directory to go on with the session: teambridge run --local --team %s --as %s -- COMMAND", shell.Quote(s.Team), shell.Quote(s.Inbox))
		}
		return "take it back, with what waits in it: " + runAgain(s, true)
	}
	return ""
}

// openCodeRelays reports agents of the service whose OpenCode is not installed.
func (x *examination) openCodeRelays(ctx context.Context, l *ledger.Ledger) error {
	list, err := l.Relays.List(ctx, x.Root.Path())
	for _, r := range list {
		if r.Runtime != runtimes.OpenCode || r.URL != "" {
			continue
		}
		program := append(r.Command, runtimes.OpenCode)[0]
		find := x.lookPath
		if filepath.Base(program) != program {
			find = exec.LookPath
			if !filepath.IsAbs(program) {
				program = filepath.Join(r.Dir, program)
			}
		}
		if _, err := find(program); err != nil {
			x.add(api.LevelProblem, "no_opencode", r.Team, program, "the OpenCode of "+r.Member+"@"+r.Team+" is not installed",
				"npm install -g opencode-ai; the service needs it in its $PATH, or add the relay again with the command of one")
		}
	}
	return err
}
