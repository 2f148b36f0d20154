package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/status/api"
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
relays, and teambridge's own files; with --team only that team. Nothing is
changed without --fix.

--fix removes what certainly belongs to nobody: anything in the place of a lock
that is not a lock (a file, or a directory that is not empty), and temporary
files of killed teambridge processes. It also makes teambridge's own directory
private. It never changes an inbox.

Exit status: 0 no problems, or all are fixed; 1 problems were found; 3 there is
no Claude directory, or no such team.`,
		Example: `  teambridge doctor --fix`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), fix) },
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "remove what blocks agents and belongs to nobody")
	return cmd
}

// finding is one thing that doctor has to say. The names are those of --json.
type finding struct {
	Level   string `json:"level"` // "problem", or "note" for what harms nobody
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

// examination collects findings.
type examination struct {
	app      *app
	findings []finding
}

func (x *examination) add(f finding) { x.findings = append(x.findings, f) }

func (a *app) doctor(ctx context.Context, fix bool) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	defer root.Close()
	x := &examination{app: a, findings: []finding{}}
	all, err := root.Teams()
	if err != nil {
		return err
	}
	if a.teamName != "" {
		t, err := root.Team(a.teamName)
		if err != nil {
			return err
		}
		t.Close()
		all = slices.DeleteFunc(all, func(l teams.Listing) bool { return l.Name != a.teamName })
	}
	for _, l := range all {
		if err := x.team(ctx, root, l); err != nil {
			return err
		}
	}
	if a.teamName == "" {
		if err := x.leftTeams(root); err != nil {
			return err
		}
	}
	x.state(ctx, root)
	wrong := 0
	for i := range x.findings {
		f := &x.findings[i]
		if fix && f.remedy != nil {
			if err := f.remedy(); err != nil {
				f.Advice = fmt.Sprintf("it could not be put right: %v", err)
			} else {
				f.Fixed = true
			}
		}
		if f.Level == problem && !f.Fixed {
			wrong++
		}
	}
	if err := x.print(len(all)); err != nil {
		return err
	}
	if wrong > 0 {
		return exitStatus(api.ExitError)
	}
	return nil
}

func (x *examination) print(teams int) error {
	a := x.app
	if a.json {
		return a.printJSON(x.findings)
	}
	for _, f := range x.findings {
		level := a.paint(yellow, f.Level)
		switch {
		case f.Fixed:
			level = a.paint(green, "fixed")
		case f.Level == problem:
			level = a.paint(red, f.Level)
		}
		if err := a.printf("%s  %s\n    %s\n", level, escape(f.Message, false), escape(f.Path, false)); err != nil {
			return err
		}
		if !f.Fixed && f.Advice != "" {
			if err := a.printf("    %s\n", escape(f.Advice, false)); err != nil {
				return err
			}
		}
	}
	if len(x.findings) == 0 {
		return a.printf("%s looked at; nothing is wrong\n", plural(teams, "team"))
	}
	return nil
}

// team examines one team.
func (x *examination) team(ctx context.Context, root *teams.Root, l teams.Listing) error {
	path := filepath.Join(root.Path(), "teams", l.Name)
	switch {
	case l.Err != nil:
		x.add(finding{Level: problem, Code: "unreadable_team", Team: l.Name, Path: path, Message: view.Describe(l.Err),
			Advice: "teambridge leaves it alone"})
		return nil
	case l.Orphan:
		x.add(finding{Level: notice, Code: "orphan_team", Team: l.Name, Path: path,
			Message: "a team directory without config.json: what a crash, or a deletion that did not finish, leaves behind",
			Advice:  "remove it, if no session of this name is running"})
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
			return nil // ended while we looked
		case err != nil:
			x.add(finding{Level: problem, Code: "corrupt_config", Team: l.Name, Path: filepath.Join(path, "config.json"),
				Message: view.Describe(err), Advice: "messages cannot be sent to this team; its session, if it runs, may repair it"})
		default:
			c = got
			x.config(path, t, c)
		}
	}
	x.objects(l.Name, path, "config.json")
	names, err := t.Inboxes()
	if err != nil {
		x.add(finding{Level: problem, Code: "unreadable_inboxes", Team: l.Name, Path: filepath.Join(path, "inboxes"),
			Message: view.Describe(err), Advice: "look at its permissions"})
		return nil
	}
	for _, name := range names {
		if err := x.inbox(ctx, t, c, name); err != nil {
			return err
		}
	}
	x.objects(l.Name, filepath.Join(path, "inboxes"), "")
	return nil
}

// config says what is wrong with what config.json says.
func (x *examination) config(path string, t *teams.Team, c *teams.Config) {
	file := filepath.Join(path, "config.json")
	if t.LeadState(c, time.Now()) == teams.Gone {
		message := "the process that led this team has ended without cleaning up"
		if c.LeadProcess != nil {
			message = fmt.Sprintf("the process that led this team (%d) has ended without cleaning up", c.LeadProcess.PID)
		}
		x.add(finding{Level: notice, Code: "stale_team", Team: c.Team, Path: path, Message: message,
			Advice: "nobody reads messages to it; remove the directory, or resume its session " + c.LeadSessionID})
	}
	for _, fault := range c.Faults {
		x.add(finding{Level: notice, Code: "odd_config", Team: c.Team, Path: file, Message: view.Describe(fault),
			Advice: "it is passed over"})
	}
}

// inbox examines one inbox.
func (x *examination) inbox(ctx context.Context, t *teams.Team, c *teams.Config, name string) error {
	box, err := x.app.inbox(t, name)
	if err != nil {
		return err
	}
	f := finding{Level: problem, Team: t.Name(), Path: box.Path()}
	rows, err := box.Read(ctx)
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, inbox.ErrMissing), errors.Is(err, teams.ErrTeamGone):
		return nil
	case errors.Is(err, inbox.ErrEmpty):
		f.Level, f.Code, f.Message = notice, "empty_inbox", "the inbox has no content, not even an empty array"
		f.Advice = "the next message repairs it"
		x.add(f)
		return nil
	case errors.Is(err, lockedfile.ErrTooLarge):
		f.Code, f.Message = "oversized_inbox", view.Describe(err)
		f.Advice = "move the file away while no agent of this team runs"
		x.add(f)
		return nil
	case errors.Is(err, inbox.ErrBusy):
		f.Level, f.Code, f.Message = notice, "busy_inbox", view.Describe(err)
		f.Advice = "look again later"
		x.add(f)
		return nil
	case errors.Is(err, fs.ErrPermission):
		f.Code, f.Message = "unreadable_inbox", view.Describe(err)
		f.Advice = "run as the user who runs Claude Code, or look at its permissions"
		x.add(f)
		return nil
	case err != nil:
		f.Code, f.Message = "corrupt_inbox", view.Describe(err)
		f.Advice = "save a copy: the next agent that writes here replaces the file, and what is in it is gone"
		x.add(f)
		return nil
	}
	_, member := c.Member(name)
	if !member && name != "user" {
		x.add(finding{Level: notice, Code: "orphan_inbox", Team: t.Name(), Path: box.Path(),
			Message: fmt.Sprintf("nobody called %s is a member; %s in this inbox", name, plural(len(rows), "message")),
			Advice:  "a member that shut down leaves its inbox behind"})
		return nil
	}
	for _, r := range rows {
		if at, ok := r.Time(); member && !r.Read && ok && time.Since(at) > mail.StillUnread {
			m, _ := c.Member(name)
			if m.Guest() {
				break // a person reads when there is time
			}
			x.add(finding{Level: notice, Code: "unread_inbox", Team: t.Name(), Path: box.Path(),
				Message: fmt.Sprintf("a message of %s has not been read since %s", dash(r.From), clock(at)),
				Advice:  "its agent may be headless (then it needs a relay), busy, or gone"})
			break
		}
	}
	return nil
}

// objects looks for what should not be in a directory: things in the place of
// locks, locks that nobody holds any more, our own leftovers. With a name, only
// those that belong to the file of that name.
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
		if !ok || !strings.HasSuffix(of, ".json") || only != "" && of != only {
			continue
		}
		x.lock(team, path, e)
	}
}

// lock examines what is in a lock's place.
func (x *examination) lock(team, path string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil {
		return // released while we looked
	}
	f := finding{Level: problem, Code: "foreign_lock", Team: team, Path: path,
		Advice: "teambridge doctor --fix removes it"}
	age := time.Since(info.ModTime()).Round(time.Second)
	if !e.IsDir() {
		f.Message = "a file stands where a lock belongs: no agent can write to the file it is for, and none will say so"
		f.remedy = func() error { return removeSame(path, info, os.Remove) }
		x.add(f)
		return
	}
	inside, err := os.ReadDir(path)
	switch {
	case err != nil:
	case len(inside) > 0:
		f.Message = fmt.Sprintf("a lock directory with something in it (%s): no agent can take it over", inside[0].Name())
		f.remedy = func() error { return removeSame(path, info, os.RemoveAll) }
		if age < lockedfile.StaleAfter {
			f.remedy = nil
			f.Advice = "it is in use; look again later"
		}
		x.add(f)
	case age > lockedfile.StaleAfter:
		f.Level, f.Code = notice, "stale_lock"
		f.Message = fmt.Sprintf("a lock that nobody has touched for %s", age)
		f.Advice = "it harms nobody: whoever writes next takes it over"
		x.add(f)
	}
}

// leftover reports a temporary file of ours. One that is young may be in use.
func (x *examination) leftover(team, path string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < 2*lockedfile.StaleAfter {
		return
	}
	x.add(finding{Level: notice, Code: "leftover", Team: team, Path: path,
		Message: "a temporary file of a teambridge that was killed",
		Advice:  "the next message to this inbox removes it, as does teambridge doctor --fix",
		remedy:  func() error { return removeSame(path, info, os.Remove) }})
}

// leftTeams reports what is left of teams of ours that were being made or removed.
func (x *examination) leftTeams(root *teams.Root) error {
	paths, err := root.Leftovers()
	for _, path := range paths {
		x.add(finding{Level: notice, Code: "leftover", Path: path,
			Message: "what is left of a team that a teambridge was making or removing when it was killed",
			Advice:  "teambridge run --create-team removes it, as do teambridge gc and teambridge doctor --fix",
			remedy:  root.Sweep})
	}
	return err
}

// removeSame removes path if it is still what was looked at.
func removeSame(path string, was fs.FileInfo, remove func(string) error) error {
	now, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !os.SameFile(was, now) || !was.ModTime().Equal(now.ModTime()) {
		return errors.New("it has changed since it was looked at")
	}
	return remove(path)
}

// state examines our own files.
func (x *examination) state(ctx context.Context, root *teams.Root) {
	dir := x.app.state
	if dir == "" {
		x.add(finding{Level: problem, Code: "no_state", Message: "there is no home directory for teambridge's own files", Advice: "set $TEAMBRIDGE_STATE"})
		return
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return // nothing was sent yet
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		x.add(finding{Level: problem, Code: "open_state", Path: dir,
			Message: fmt.Sprintf("others can look into teambridge's files (mode %o)", info.Mode().Perm()),
			Advice:  "chmod 700 " + dir + ", as teambridge doctor --fix does",
			remedy:  func() error { return os.Chmod(dir, info.Mode().Perm()&0o700) }})
	}
	path := filepath.Join(dir, "ledger.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return
	}
	l, err := x.app.ledger(ctx)
	if err != nil {
		x.add(finding{Level: problem, Code: "ledger", Path: path, Message: view.Describe(err),
			Advice: "messages can be sent, but not under an --id, and nothing remembers them"})
		return
	}
	x.relays(ctx, dir, l, root)
	if err := l.Close(); err != nil {
		x.add(finding{Level: problem, Code: "ledger", Path: path, Message: view.Describe(err)})
	}
}
