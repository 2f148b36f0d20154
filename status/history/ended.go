package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// Journal returns the journal for reading. It is nil if nothing was recorded or sent.
func (l *Archive) Journal(ctx context.Context) (*journal.Journal, error) {
	if l.always {
		return l.rec.Journal, nil
	}
	if l.records() {
		return l.OpenJournal(ctx)
	}
	if l.Opts.State == "" {
		return nil, nil
	}
	for _, name := range []string{"journal.db", "ledger.db"} {
		if _, err := os.Stat(filepath.Join(l.Opts.State, name)); !errors.Is(err, fs.ErrNotExist) {
			return l.OpenJournal(ctx)
		}
	}
	return nil, nil
}

// Refresh copies the ledger's messages into the journal, and checks which messages selected by q are still in
// their inboxes. If that fails, it warns.
func (l *Archive) Refresh(ctx context.Context, j *journal.Journal, q journal.Query) {
	l.refresh(ctx, j, func() ([]inbox.InboxKey, error) { return j.Messages.Occupied(ctx, q) })
}

// refresh records the answers of sessions, copies the ledger's messages, and then looks at inboxes. If that fails,
// it warns.
func (l *Archive) refresh(ctx context.Context, j *journal.Journal, inboxes func() ([]inbox.InboxKey, error)) {
	lg, err := l.Ledger(ctx)
	var unsettled error
	if err == nil && lg != nil {
		panes, failed := l.OpenPanes(ctx)
		if failed == nil {
			failed = panes.Tasks.Settle(ctx)
		}
		if !errors.As(failed, new(*teams.NoRootError)) {
			unsettled = failed
		}
	}
	if err == nil { // by the connection that records, so that the two never collide
		j, err = l.OpenJournal(ctx)
	}
	if err == nil && lg != nil {
		_, err = j.Copy(ctx, lg)
	}
	if err == nil {
		var boxes []inbox.InboxKey
		if boxes, err = inboxes(); err == nil {
			err = j.Look(ctx, boxes...)
		}
	}
	if err = errors.Join(err, unsettled); err != nil && ctx.Err() == nil {
		l.Opts.Warn(fmt.Errorf("%w; the latest messages may be missing", err))
	}
}

// Ended returns the teams in the journal that no longer exist, or those with one name. The most recently active
// one comes first.
func (l *Archive) Ended(ctx context.Context, name string) ([]journal.TeamRecord, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	j, err := l.Journal(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	q := journal.Query{Root: root.Path(), Team: name}
	l.Refresh(ctx, j, q)
	list, err := j.Messages.Teams(ctx, q)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(r journal.TeamRecord) bool {
		if there, found, err := l.PaneTeam(ctx, r.Team.Team); err != nil {
			l.Opts.Debug("panes and sessions are not known: %v", err)
		} else if found && r.Team == there {
			return true
		}
		t, err := root.Team(r.Team.Team)
		if err != nil {
			return !errors.As(err, new(*teams.NotFoundError))
		}
		defer t.Close()
		c, err := t.Config(ctx)
		return err != nil || c.Instance() == r.Team
	})
	slices.SortStableFunc(list, func(a, b journal.TeamRecord) int { return b.LastHeard.Compare(a.LastHeard) })
	return list, nil
}

// EndedTeams returns the teams that no longer exist; see [api.Bridge].
func (l *Archive) EndedTeams(ctx context.Context) ([]api.EndedTeam, error) {
	ended, err := l.Ended(ctx, "")
	list := make([]api.EndedTeam, 0, len(ended))
	for _, e := range ended {
		team := api.EndedTeam{Team: e.Team.Team, LastHeard: e.LastHeard}
		if e.Team.CreatedAt != 0 {
			team.CreatedAt = time.UnixMilli(e.Team.CreatedAt).UTC()
		}
		list = append(list, team)
	}
	return list, err
}

// OrEnded replaces the error of opening a team by name if that team has ended.
func (l *Archive) OrEnded(ctx context.Context, name string, err error) error {
	ended, jerr := l.Ended(ctx, name)
	if jerr != nil {
		l.Opts.Debug("whether the team has ended is not known: %s", view.Describe(jerr))
	}
	if len(ended) == 0 {
		return err
	}
	heard, now := ended[0].LastHeard.Local(), time.Now()
	when := heard.Format("on 2006-01-02 15:04")
	if heard.Year() == now.Year() && heard.YearDay() == now.YearDay() {
		when = heard.Format("at 15:04:05")
	}
	return api.Decide(api.CodeGone, view.HistoryHint(name), "the team %s has ended; it was last heard %s", name, when)
}

// Open opens the team of a scope: by its name, or the one that [teams.Root.Choose] chooses. The error is
// [api.CodeGone] if the team has ended and was recorded. The caller closes the team.
func (l *Archive) Open(ctx context.Context, s api.Scope) (*teams.Team, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	name := cmp.Or(s.Team, s.Default)
	if name == "" {
		return root.Choose(ctx, s.Dir)
	}
	t, err := root.Team(name)
	if !l.always && errors.As(err, new(*teams.NotFoundError)) {
		err = l.OrEnded(ctx, name, err)
	}
	return t, err
}
