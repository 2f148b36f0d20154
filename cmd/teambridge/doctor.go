package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/inbox/sqlite"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

func newDoctor(a *app) *cobra.Command {
	var fix bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps messages from arriving",
		Long: `Find what keeps messages from arriving, and say what to do about it.

Checked are locks, inboxes, teams whose lead is gone, inboxes without a member,
relays, panes, the Stop hook, and teambridge's own files; with --team only that
team. Without it, what is in order is listed too: the versions of Claude Code
that are installed or run an agent, and what is known of each; OpenCode, if it
is installed; whether agent teams are enabled; whether the service runs; since
when messages are recorded; the size of the databases.
Nothing is changed without --fix.

--fix removes what belongs to nobody: anything in the place of a lock that is
not a lock (a file, or a directory that is not empty), and temporary files of
killed teambridge processes. What was changed within 10 s, is locked, is open in
a process (seen on Linux), or names a process that runs, is in use and stays.
It also makes teambridge's own directory private. It never changes an inbox.

Exit status: 0 no problems, or all are fixed; 1 problems were found; 3 there is
no Claude directory, or no such team.`,
		Example: `  teambridge doctor --fix`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), fix) },
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "remove what blocks agents and belongs to nobody")
	return cmd
}

// finding is a problem, a note, or what is in order.
type finding struct {
	Level   string `json:"level"` // "problem", "note" for what harms nobody, or "ok"
	Code    string `json:"code"`
	Team    string `json:"team,omitempty"`
	Path    string `json:"path"`
	Message string `json:"message"`
	Advice  string `json:"advice"`
	Fixed   bool   `json:"fixed"`

	remedy func() error // what --fix does; nil: nothing
}

const (
	problem = "problem"
	notice  = "note"
)

type examination struct {
	app      *app
	findings []finding
	inboxes  int // that were looked at
}

// goesOn says what works if this command cannot use a database because of why: otherwise,
// unless a service has it open.
func (x *examination) goesOn(root *teams.Root, why error, otherwise string) string {
	c, err := client.Find(x.app.state, root.Path())
	if err != nil {
		return otherwise
	}
	c.Close()
	if _, strayed := x.app.strayed(root); len(strayed) > 0 {
		return otherwise
	}
	if errors.Is(why, sqlite.ErrInUse) {
		return "the service still uses it: what goes through the service is recorded there"
	}
	return "the service still has it open: what goes through the service may not be recorded"
}

// add adds a finding. team and path may be empty.
func (x *examination) add(level, code, team, path, message, advice string) *finding {
	x.findings = append(x.findings, finding{Level: level, Code: code, Team: team, Path: path, Message: message, Advice: advice})
	return &x.findings[len(x.findings)-1]
}

func (a *app) doctor(ctx context.Context, fix bool) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	only, err := a.namedTeam("")
	if err != nil {
		return err
	}
	done := a.working("checking")
	defer done()
	x := &examination{app: a, findings: []finding{}}
	all, err := root.Teams()
	if err != nil {
		return err
	}
	if only != "" {
		t, err := root.Team(only)
		if err != nil {
			return err
		}
		t.Close()
		all = slices.DeleteFunc(all, func(l teams.Listing) bool { return l.Name != only })
	}
	if only == "" {
		if err := x.environment(ctx, root, all); err != nil {
			return err
		}
	}
	for _, l := range all {
		if err := x.team(ctx, root, l); err != nil {
			return err
		}
	}
	if only == "" {
		if err := x.leftTeams(root); err != nil {
			return err
		}
		if err := x.panes(ctx, root); err != nil {
			return err
		}
	}
	x.state(ctx, root)
	wrong := 0
	for i := range x.findings {
		f := &x.findings[i]
		if fix && f.remedy != nil {
			err := f.remedy()
			if f.Fixed = err == nil; err != nil {
				f.Advice = fmt.Sprintf("it could not be fixed: %v", err)
			}
		}
		if f.Level == problem && !f.Fixed {
			wrong++
		}
	}
	done()
	if err := x.print(len(all), wrong); err != nil {
		return err
	}
	if wrong > 0 {
		return exitStatus(api.ExitError)
	}
	return nil
}

func (x *examination) print(teams, wrong int) error {
	a := x.app
	if a.json {
		return a.printJSON(x.findings)
	}
	for _, f := range x.findings {
		level := a.paint(yellow, f.Level)
		switch {
		case f.Fixed:
			level = a.paint(green, "fixed")
		case f.Level == checked:
			level = a.paint(green, f.Level)
		case f.Level == problem:
			level = a.paint(red, f.Level)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s  %s\n", level, escape(f.Message, false))
		if f.Path != "" {
			fmt.Fprintf(&b, "    %s\n", escape(f.Path, false))
		}
		if !f.Fixed {
			a.indent(&b, escape(f.Advice, false))
		}
		if err := a.print([]byte(b.String())); err != nil {
			return err
		}
	}
	found := "no problems"
	if wrong > 0 {
		found = plural(wrong, "problem")
	}
	return a.printf("%s and %s checked; %s found\n", plural(teams, "team"), plural(x.inboxes, "inbox"), found)
}

func (x *examination) team(ctx context.Context, root *teams.Root, l teams.Listing) error {
	path := filepath.Join(root.Path(), "teams", l.Name)
	switch {
	case l.Err != nil:
		x.add(problem, "unreadable_team", l.Name, path, view.Describe(l.Err), "teambridge leaves it alone")
		return nil
	case l.Orphan:
		x.add(notice, "orphan_team", l.Name, path, "a team directory without config.json: what a crash, or a deletion that did not finish, leaves behind",
			"remove it, if no session of this name is running")
	}
	t, err := root.Team(l.Name)
	if errors.Is(err, teams.ErrTeamGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer t.Close()
	c := &teams.Config{Team: l.Name}
	if !l.Orphan {
		switch got, err := t.Config(ctx); {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, teams.ErrTeamGone):
			return nil // it has just ended
		case err != nil:
			x.add(problem, "corrupt_config", l.Name, filepath.Join(path, "config.json"), view.Describe(err),
				"messages cannot be sent to this team; its session, if it runs, may repair it")
		default:
			c = got
			x.config(path, t, c)
		}
	}
	x.objects(l.Name, path, "config.json")
	names, err := t.Inboxes()
	if err != nil {
		x.add(problem, "unreadable_inboxes", l.Name, filepath.Join(path, "inboxes"), view.Describe(err), "check its permissions")
		return nil
	}
	x.inboxes += len(names)
	for _, name := range names {
		if err := x.inbox(ctx, t, c, name); err != nil {
			return err
		}
	}
	x.objects(l.Name, filepath.Join(path, "inboxes"), "")
	return nil
}

// config examines what config.json says.
func (x *examination) config(path string, t *teams.Team, c *teams.Config) {
	lead, _ := c.Lead()
	// The process in it may be that of an earlier run, whose relay another one has taken over.
	served, err := relay.Running(x.app.state, t, lead.Name)
	if err != nil {
		x.add(notice, "unknown_relay", c.Team, path, view.Describe(err), "look at the locks in the state directory")
	}
	if !served && t.LeadState(c, time.Now()) == teams.Gone {
		process, advice := "", "nobody reads messages to it; remove the directory"
		if pid, _ := t.Leader(c); pid != 0 {
			process = fmt.Sprintf(" (%d)", pid)
		}
		if c.LeadProcess != nil { // other versions do not take it back
			advice += ", or resume its session " + c.LeadSessionID
		}
		x.add(notice, "stale_team", c.Team, path, "the process that led this team"+process+" has ended without cleaning up", advice)
	}
	for _, fault := range c.Faults {
		x.add(notice, "odd_config", c.Team, filepath.Join(path, "config.json"), view.Describe(fault), "it is ignored")
	}
}

func (x *examination) inbox(ctx context.Context, t *teams.Team, c *teams.Config, name string) error {
	box, err := x.app.inbox(t, name)
	if err != nil {
		return err
	}
	rows, err := box.Read(ctx)
	if err != nil {
		if errors.Is(err, inbox.ErrMissing) || errors.Is(err, teams.ErrTeamGone) {
			return nil
		}
		f := x.add(problem, "corrupt_inbox", t.Name(), box.Path(), view.Describe(err),
			"save a copy: the next agent that writes here replaces the file, and what is in it is gone")
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, inbox.ErrEmpty):
			f.Level, f.Code, f.Message = notice, "empty_inbox", "the inbox has no content, not even an empty array"
			f.Advice = "the next message repairs it"
		case errors.Is(err, lockedfile.ErrTooLarge):
			f.Code, f.Advice = "oversized_inbox", "move the file away while no agent of this team runs"
		case errors.Is(err, inbox.ErrBusy):
			f.Level, f.Code, f.Advice = notice, "busy_inbox", "look again later"
		case errors.Is(err, fs.ErrPermission):
			f.Code, f.Advice = "unreadable_inbox", "run as the user who runs Claude Code, or check its permissions"
		}
		return nil
	}
	m, member := c.Member(name)
	if !member && name != "user" {
		x.add(notice, "orphan_inbox", t.Name(), box.Path(), fmt.Sprintf("there is no member %s; %s in this inbox", name, plural(len(rows), "message")),
			"a member that shut down leaves its inbox behind")
	}
	if !member || m.Guest() { // a person reads when there is time
		return nil
	}
	for _, r := range rows {
		if at, ok := r.Time(); !r.Read && ok && time.Since(at) > mail.StillUnread {
			x.add(notice, "unread_inbox", t.Name(), box.Path(), fmt.Sprintf("a message from %s has not been read since %s", dash(r.From), clock(at)),
				"its agent may be headless (then it needs a relay), busy, or gone")
			break
		}
	}
	return nil
}

// objects looks in a directory for things in the place of locks, locks that nobody holds,
// and our own leftovers; if only is not empty, just for those of that file.
func (x *examination) objects(team, dir, only string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // reported by who has to read it, or not there yet
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if of, ok := lockedfile.TempOf(e.Name()); ok && (only == "" || of == only) {
			x.leftover(team, path, e)
			continue
		}
		of, ok := strings.CutSuffix(e.Name(), ".lock")
		if ok && strings.HasSuffix(of, ".json") && (only == "" || of == only) {
			x.lock(team, path, e)
		}
	}
}

// lock examines what is in a lock's place.
func (x *examination) lock(team, path string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil {
		return // released while we looked
	}
	inside, derr := os.ReadDir(path)
	what, remove := "a file stands where a lock belongs: no agent can write to the file it is for, and none will say so", os.Remove
	switch {
	case !e.IsDir():
	case derr != nil:
		return
	case len(inside) > 0:
		what, remove = fmt.Sprintf("a lock directory with something in it (%s): no agent can take it over", inside[0].Name()), os.RemoveAll
	case time.Since(info.ModTime()) > lockedfile.StaleAfter:
		x.add(notice, "stale_lock", team, path, fmt.Sprintf("a lock that nobody has touched for more than %s", lockedfile.StaleAfter), "it does no harm: the next writer takes it over")
		return
	default:
		return
	}
	f := x.add(problem, "foreign_lock", team, path, what, removable)
	if why := lockUser(path); why != "" {
		f.Advice = why + "; look again later"
		return
	}
	f.remedy = func() error {
		if why := lockUser(path); why != "" { // since it was looked at
			return errors.New(why)
		}
		return removeSame(path, info, remove)
	}
}

const removable = "teambridge doctor --fix removes it"

// leftover reports a temporary file of ours. One that is young may be in use.
func (x *examination) leftover(team, path string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < 2*lockedfile.StaleAfter {
		return
	}
	x.add(notice, "leftover", team, path, "a temporary file of a teambridge that was killed",
		"the next message to this inbox removes it, as does teambridge doctor --fix").
		remedy = func() error { return removeSame(path, info, os.Remove) }
}

// leftTeams reports what is left of teams that were being made or removed.
func (x *examination) leftTeams(root *teams.Root) error {
	paths, err := root.Leftovers()
	for _, path := range paths {
		x.add(notice, "leftover", "", path, "what is left of a team that a teambridge was making or removing when it was killed",
			"teambridge run --create-team removes it, as do teambridge gc and teambridge doctor --fix").
			remedy = root.Sweep
	}
	return err
}

// removeSame removes path unless it has changed.
func removeSame(path string, was fs.FileInfo, remove func(string) error) error {
	now, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !os.SameFile(was, now) || !was.ModTime().Equal(now.ModTime()):
		return errors.New("it has changed since it was looked at")
	}
	return remove(path)
}

func (x *examination) state(ctx context.Context, root *teams.Root) {
	dir := x.app.state
	if dir == "" {
		x.add(problem, "no_state", "", "", "there is no home directory for teambridge's own files", "set $TEAMBRIDGE_STATE")
		return
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return // nothing was sent yet
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		x.add(problem, "open_state", "", dir, fmt.Sprintf("others can read teambridge's files (mode %o)", info.Mode().Perm()),
			"chmod 700 "+dir+", as teambridge doctor --fix does").
			remedy = func() error { return os.Chmod(dir, info.Mode().Perm()&0o700) }
	}
	l, err := x.app.local().Ledger(ctx)
	if err != nil {
		x.add(problem, "ledger", "", filepath.Join(dir, "ledger.db"), view.Describe(err),
			x.goesOn(root, err, "messages are sent only with --force, and no history has them"))
		return
	}
	if l == nil {
		return
	}
	if err := x.relays(ctx, l, root); err != nil {
		x.add(problem, "ledger", "", "", err.Error(), "")
	}
}

func (x *examination) relays(ctx context.Context, l *ledger.Ledger, root *teams.Root) error {
	sessions, err := l.Sessions(ctx, root.Path())
	if err != nil {
		return err
	}
	for _, s := range sessions {
		if err := x.relay(ctx, l, root, s); err != nil && !errors.Is(err, teams.ErrTeamGone) {
			x.add(problem, "relay", s.Team, "", view.Describe(err), "")
		}
	}
	if err := x.openCodeRelays(ctx, l, root); err != nil {
		return err
	}
	holds, err := l.Holds(ctx, root.Path())
	if err != nil {
		return err
	}
	for _, h := range holds {
		t, err := root.Team(h.Team)
		if err != nil {
			continue // it has ended
		}
		if c, err := t.Config(ctx); err == nil && c.Instance().CreatedAt == h.CreatedAt {
			x.add(notice, "held", h.Team, "", "the messages of "+h.Sender+" to "+h.Inbox+" are held: "+h.Reason,
				fmt.Sprintf("teambridge relay release %s@%s %s", h.Inbox, h.Team, h.Sender))
		}
		_ = t.Close()
	}
	failed, err := l.Deliveries(ctx, ledger.DeliveryQuery{Root: root.Path(), States: []ledger.DeliveryState{ledger.Failed}})
	if err == nil && len(failed) > 0 {
		x.add(notice, "dead_letters", failed[0].Team, "", fmt.Sprintf("%s could not be delivered, the last because: %s", plural(len(failed), "message"), failed[0].Reason),
			"list them with: teambridge relay list; retry them with: teambridge relay retry")
	}
	return err
}

// runtimeArgs are the arguments of run for what a relay has started. The ledger has no more
// than that.
func runtimeArgs(command string) string {
	program, _, _ := strings.Cut(command, " ")
	switch {
	case strings.HasPrefix(command, "http://"), strings.HasPrefix(command, "https://"):
		return "--runtime opencode --url " + view.ShellQuote(command)
	case strings.HasPrefix(filepath.Base(program), fleet.OpenCode):
		return "--runtime opencode -- " + command
	}
	return "-- " + command
}

// killedLauncher reports a session that was left at a terminal or a relay, with the number
// of messages that wait for it.
func (x *examination) killedLauncher(s ledger.Session, h ledger.Handoff, waiting int) {
	level, kept := notice, ""
	if h.Draft != "" {
		level, kept = problem, "; what was at its prompt is kept"
	}
	if waiting > 0 {
		level, kept = problem, kept+"; messages wait for it: "+strconv.Itoa(waiting)
	}
	x.add(level, "killed_launcher", s.Team, s.Command, fmt.Sprintf("the launcher of the session of %s@%s was killed%s", s.Inbox, s.Team, kept),
		fmt.Sprintf("run it again in its directory to go on with the session: teambridge run --local --team %s --as %s -- COMMAND", view.ShellQuote(s.Team), view.ShellQuote(s.Inbox)))
}

// relay reports an agent that does not stay alive, and messages that wait for one whose
// relay does not run. Sessions of a team that has ended do not matter.
func (x *examination) relay(ctx context.Context, l *ledger.Ledger, root *teams.Root, s ledger.Session) error {
	t, err := root.Team(s.Team)
	if err != nil {
		return err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil || c.Instance().CreatedAt != s.CreatedAt {
		return err
	}
	if s.Dead != "" {
		x.add(problem, "dead_relay", s.Team, s.Command, "the agent that is "+s.Inbox+" does not stay alive: "+s.Dead,
			"run it again with teambridge run; if it was added, with teambridge relay retry; what waits for it is kept")
		return nil
	}
	f, err := relay.Facts(ctx, l, x.app.state, t, c, s.Inbox)
	if err != nil || !f.Headless || f.Relayed {
		return err
	}
	o, _, err := relay.Stat(ctx, l, x.app.state, t, c, s.Inbox)
	if err != nil {
		return err
	}
	unread, err := view.Unread(ctx, t, s.Inbox)
	if err != nil {
		return err
	}
	if h, found, err := l.Handoff(ctx, s.InboxKey); err != nil || found && s.State != ledger.RelayEnded {
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
	x.add(problem, "no_relay", s.Team, s.Command, fmt.Sprintf("the relay of %s %s, and %s for it; nobody else reads that inbox", s.Inbox, how, waits),
		fmt.Sprintf("teambridge run --team %s --as %s %s", view.ShellQuote(s.Team), view.ShellQuote(s.Inbox), runtimeArgs(s.Command)))
	return nil
}
