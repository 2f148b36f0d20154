package main

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay/pane"
	"teambridge/relay/shell"
	"teambridge/status/api"
	"teambridge/teams"
)

func newSessions(a *app) *cobra.Command {
	watch := false
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions of agents on this machine",
		Long: `List all processes of Claude Code that live on this machine with their sessions,
whether they are in a team or not: at terminals, in editors, and headless.

Claude Code describes each of its processes in a file, so no setup is needed.
AGENT is the member of a team whose session it is; "(relayed)" marks sessions
that teambridge runs. What a session does whose Claude Code is older than
` + teams.Oldest.String() + ` is "unknown", and the way to it is "-", or "inbox": update it with
"claude update".

Sessions of Qwen Code are listed, too, and on Linux sessions of Codex, once they
have a prompt; their names are "codex-" and the end of their id.

REACH is the way of a message: "inbox" for members of teams; "session" for other
sessions, and Qwen Code's, which listen on sockets of their own; "hook" for
sessions that have the waiting hook instead ("teambridge setup hooks"); "codex"
for sessions in the shared server of Codex; and "-" for sessions that cannot be
reached: doctor says what they need. send and ask accept the names of sessions,
their ids (or the first 8 characters), process ids and directories in place of
members.

With --watch, a line is printed for each session, and then for each that begins,
changes its state, or ends. /clear ends a session and begins another one in the
same process.

Sessions of another Claude directory ($CLAUDE_CONFIG_DIR) are not listed; a note
names the directory, and with --claude-dir all commands work there.

Exit status: 0, even if there are none; 3 there is no Claude directory (with
Codex or Qwen Code, none is needed).`,
		Example: `  teambridge sessions --watch`,
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listSessions(cmd.Context(), a, watch) },
	}
	watchFlag(cmd, &watch)
	return cmd
}

func listSessions(ctx context.Context, a *app, watch bool) error {
	now, err := a.bridge(ctx).Sessions(ctx)
	if err != nil {
		return err
	}
	head := []string{"NAME", "PID", "STATE", "SINCE", "REACH", "AGENT", "VERSION", "SESSION", "DIRECTORY"}
	none := "no process of Claude Code has a session under " + a.where() + ", and none of Codex or Qwen Code has one"
	if !watch {
		if err := printList(&a.console, now, none, head, sessionRow); err != nil || a.json {
			return err
		}
		return a.noteOtherDirs()
	}
	ctx, stop := a.whileRead(ctx)
	defer stop()
	var before []api.Session
	for {
		if err := printSessions(a, changedSessions(before, now)); err != nil {
			return err
		}
		before = now
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(sessionInterval):
		}
		if now, err = a.bridge(ctx).Sessions(ctx); err != nil {
			return err
		}
	}
}

// noteOtherDirs notes other Claude directories with living sessions.
func (a *app) noteOtherDirs() error {
	if a.there != nil {
		return nil // directories on that host are not this person's
	}
	root, err := a.root()
	if err != nil {
		return err
	}
	home, err := a.home()
	if err != nil {
		return nil // then there is no such directory either
	}
	for _, dir := range pane.Elsewhere(root, home) {
		a.note("other sessions are in another Claude directory: teambridge --claude-dir %s sessions", shell.Quote(escape(dir, false)))
	}
	return nil
}

// sessionInterval is how often "sessions --watch" lists the sessions again.
const sessionInterval = time.Second

// printSessions prints one line per session.
func printSessions(a *app, list []api.Session) error {
	var rows [][]string
	for _, s := range list {
		if a.json {
			if err := a.printJSON(s); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, sessionRow(s))
	}
	return a.table(rows)
}

// changedSessions returns the sessions that are new or changed, and those that have ended.
func changedSessions(before, now []api.Session) (list []api.Session) {
	for _, s := range now {
		i := slices.IndexFunc(before, func(b api.Session) bool { return b.PID == s.PID && b.Session == s.Session })
		if i < 0 || !reflect.DeepEqual(before[i], s) {
			list = append(list, s)
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(now, func(s api.Session) bool { return b.PID == s.PID && b.Session == s.Session }) {
			b.Word, b.Why, b.WordSince = api.WordEnded, "", nil
			list = append(list, b)
		}
	}
	return list
}

func sessionRow(s api.Session) []string {
	word, since, agent, reach := s.Word, "-", "-", cmp.Or(s.Way, "-")
	if s.Why != "" {
		word += ": " + s.Why
	}
	if s.WordSince != nil {
		since = clock(*s.WordSince)
	}
	if s.Member != "" {
		agent = s.Member + "@" + s.Team
	}
	if s.Relayed {
		agent += " (relayed)"
	}
	if pane.SessionName(s.Name, "") != "" { // otherwise its address is an id
		s.Name = cmp.Or(s.As, s.Name)
	}
	return []string{cmp.Or(s.Name, "-"), strconv.Itoa(s.PID), word, since, reach, agent, cmp.Or(s.Version, "-"), s.Session, s.Cwd}
}
