package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"teambridge/relay/pane"
	"teambridge/relay/shell"
	"teambridge/relay/stophook"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// sessions reports how messages reach the sessions in no team, or why they cannot.
func (x *examination) sessions(ctx context.Context) error {
	if t, err := x.Root.Team(pane.SessionTeam); err == nil {
		_ = t.Close()
		x.add(api.LevelProblem, "team_named_sessions", pane.SessionTeam, "", "a team has the reserved name of the sessions in no team",
			"sessions in no team cannot be reached until that team has ended")
	}
	all, _ := x.Root.Sessions(ctx) // an unreadable team is reported with the teams
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ours := map[int]bool{}                               // the processes that relays run
	if l, err := x.Ledger(ctx); err == nil && l != nil { // an error of the ledger is reported elsewhere
		relayed, err := l.Sessions.List(ctx, x.Root.Path())
		if ctx.Err() != nil {
			return err
		}
		for _, s := range relayed {
			ours[s.PID] = s.PID != 0
		}
	}
	for _, s := range all {
		if s.Team == "" && !ours[s.PID] {
			x.session(s)
		}
	}
	if home, ok := x.LookupEnv("HOME"); ok {
		for _, dir := range pane.Elsewhere(x.Root, home) {
			x.add(api.LevelOK, "sessions_elsewhere", "", dir, "sessions live in another Claude directory, too", "write to them with: teambridge --claude-dir "+shell.Quote(dir))
		}
	}
	for _, s := range pane.HomesOf(x.LookupEnv).Processes() {
		x.other(s)
	}
	return nil
}

// other reports how messages reach a session of another program.
func (x *examination) other(s transcript.Process) {
	codex := pane.ProgramOf(s) == pane.Codex
	name, by := fmt.Sprintf("the session %s of Qwen Code (process %d)", s.Name, s.PID), "on its socket"
	if codex {
		name, by = fmt.Sprintf("the session %s of Codex (process %d)", s.Name, s.PID), "from Codex's shared server"
	}
	switch reach := pane.ReachOf(x.State, s); {
	case reach == pane.BySocket:
		x.add(api.LevelOK, "session_reach", pane.SessionTeam, s.Path, name+" takes messages "+by,
			"unless it has the tools of teambridge, it asks its person about each; they answer with /peers, and then /peers accept")
	case reach != pane.Nowhere:
		x.add(api.LevelOK, "session_reach", pane.SessionTeam, s.Path, name+" takes messages "+by, "")
	case codex && s.Interactive:
		x.add(api.LevelNote, "session_unreachable", pane.SessionTeam, s.Path, name+" takes no messages: it is not in Codex's shared server",
			"end it, and start it without --no-daemon and -c: codex resume "+s.Session+"; or have it take a message for your own words: teambridge send "+s.Session+" TEXT --via queue")
	case codex:
		x.add(api.LevelOK, "session_unreachable", pane.SessionTeam, s.Path, name+" is one of codex exec, and takes no messages", "")
	default:
		x.add(api.LevelNote, "session_unreachable", pane.SessionTeam, s.Path, name+": "+pane.Refuses(s), "")
	}
}

// session reports how messages reach a session, and whether there is a better way.
func (x *examination) session(s teams.Session) {
	by := pane.ReachOf(x.State, s.Process)
	name := fmt.Sprintf("the session %s (process %d)", cmp.Or(s.Name, s.Session), s.PID)
	switch {
	case by == pane.Outdated:
		x.add(api.LevelNote, "session_outdated", pane.SessionTeam, s.Path, name+" takes no messages: "+pane.Refuses(s.Process), "then end it, and resume it with: claude --resume "+s.Session)
	case by == pane.BySocket:
		advice := `if it bypasses permissions, it asks its person about each message; unless its settings have "crossSessionInbound": "accept", ` +
			"with which all programs of this user can write to it; or unless the waiting hook is used: teambridge setup hooks --unasked"
		if slices.ContainsFunc(x.findings, func(f *finding) bool { return f.Advice == advice }) {
			advice = "" // once is enough
		}
		x.add(api.LevelOK, "session_reach", pane.SessionTeam, s.Path, name+" takes messages on its socket", advice)
	case by == pane.ByHook:
		x.add(api.LevelOK, "session_reach", pane.SessionTeam, s.Path, name+" takes messages by the waiting hook, once in each turn", "")
	case by == pane.Deaf:
		x.add(api.LevelNote, "session_without_socket", pane.SessionTeam, s.Path,
			fmt.Sprintf("%s does not listen at its socket, %s: it cannot be reached", name, s.Socket), "end it, and resume it with: claude --resume "+s.Session)
	case strings.HasPrefix(s.Entrypoint, "sdk"):
		x.add(api.LevelOK, "session_unreachable", pane.SessionTeam, s.Path, name+" is headless, has no socket for messages, and takes none", "")
	case stophook.Waiting(x.Root.Path(), s.Cwd):
		x.add(api.LevelNote, "session_unreachable", pane.SessionTeam, s.Path, name+" takes no messages: it began before the waiting hook was installed, or runs none", "end it, and resume it with: claude --resume "+s.Session)
	default:
		x.add(api.LevelNote, "session_unreachable", pane.SessionTeam, s.Path, name+" takes no messages: it has no socket for them, and no waiting hook",
			"teambridge setup installs the plugin, which has the hook; or the hook alone: teambridge setup hooks, with --project in "+shell.Quote(s.Cwd)+" for it alone; then restart it")
	}
}
