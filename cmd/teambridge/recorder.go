package main

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/sqlite"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/client"
	"teambridge/teams"
)

func (a *app) journal(ctx context.Context) (*journal.Journal, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, sqlite.Patience))
	defer cancel()
	j, err := journal.Open(ctx, filepath.Join(a.state, "journal.db"))
	if err == nil {
		a.opened = append(a.opened, j.Close)
	}
	return j, err
}

// journalWait is how long a command that can do without the journal waits for its lock.
const journalWait = 2 * time.Second

// recheck is how often the files are read without a sign of news.
const recheck = time.Second

// recorder is a journal that is filled from the inboxes while a command runs.
type recorder struct {
	*bridge.Recorder
	app    *app
	silent error // why the last statuses lack what only the service knows; nil if they do not
}

// startRecorder records the messages of one team, or of all if team is empty, until the
// recorder is closed. When it returns, the present content is recorded.
func (a *app) startRecorder(ctx context.Context, team string) (*recorder, error) {
	r, err := a.local().Record(ctx, team)
	return &recorder{Recorder: r, app: a}, err
}

// statuses returns the status of each member of team. The service is asked if it knows more.
func (t *recorder) statuses(ctx context.Context, team *teams.Team) (all []api.Status, err error) {
	t.silent = nil
	if l := t.Ledger(ctx); l != nil && hasRelays(ctx, l, team.Root(), team.Name()) {
		answered, err := t.app.askService(ctx, team.Root(), func(ctx context.Context, c *client.Client) (err error) {
			all, err = c.Status(ctx, team.Name())
			return err
		})
		if answered || isGone(err) {
			return all, err
		}
		t.silent = err
	}
	return t.app.local().StatusOf(ctx, &bridge.Target{Team: team})
}

// within bounds a wait; 0 is no bound. what says what has not happened at the timeout.
func within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, api.Decide(api.CodeTimeout, "", "timed out after %s: %s", d, what))
}

// ended is the cause of ctx if it has ended and there is an error, else err.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
