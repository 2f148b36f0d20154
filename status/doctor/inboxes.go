package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

func (x *examination) inbox(ctx context.Context, t *teams.Team, c *teams.Config, name string) error {
	box, err := inbox.Open(t, name, x.Locker)
	if err != nil {
		return err
	}
	rows, passed, err := box.ReadAll(ctx)
	if err != nil {
		if errors.Is(err, inbox.ErrMissing) || errors.Is(err, teams.ErrTeamGone) {
			return nil
		}
		f := x.add(api.LevelProblem, "corrupt_inbox", t.Name(), box.Path(), view.Describe(err),
			"save a copy: the next agent that writes here replaces the file, and its content is lost")
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, inbox.ErrEmpty):
			f.Level, f.Code, f.Message = api.LevelNote, "empty_inbox", "the inbox has no content, not even an empty array"
			f.Advice = "the next message repairs it"
		case errors.Is(err, lockedfile.ErrTooLarge):
			f.Code, f.Advice = "oversized_inbox", "move the file away while no agent of this team runs"
		case errors.Is(err, inbox.ErrBusy):
			f.Level, f.Code, f.Advice = api.LevelNote, "busy_inbox", "look again later"
		case errors.Is(err, fs.ErrPermission):
			f.Code, f.Advice = "unreadable_inbox", "run as the user who runs Claude Code, or check its permissions"
		}
		return nil
	}
	if len(passed) > 0 {
		x.add(api.LevelNote, "passed_over", t.Name(), box.Path(), view.PassedOver(box.Path(), passed),
			`the program that wrote it must write objects with a "from" and a "text", as teambridge send does`)
	}
	m, member := c.Member(name)
	if !member && name != "user" {
		x.add(api.LevelNote, "orphan_inbox", t.Name(), box.Path(), fmt.Sprintf("there is no member %s; %s in this inbox", name, plain.Plural(len(rows), "message")),
			"a member that shut down leaves its inbox behind")
	}
	if !member || m.Guest() { // a person may read later
		return nil
	}
	for _, r := range rows {
		if at, ok := r.Time(); !r.Read && ok && time.Since(at) > mail.StillUnread {
			x.add(api.LevelNote, "unread_inbox", t.Name(), box.Path(), fmt.Sprintf("a message from %s has not been read since %s", cmp.Or(r.From, "-"), view.Clock(at)),
				"its agent may be headless (then it needs a relay), busy, or gone")
			break
		}
	}
	return nil
}
