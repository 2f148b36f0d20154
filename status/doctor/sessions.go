package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"teambridge/relay/pane"
	"teambridge/status/api"
)

// sessions reports what keeps messages from reaching sessions that are in no team.
func (x *examination) sessions(ctx context.Context) error {
	if t, err := x.Root.Team(pane.SessionTeam); err == nil {
		_ = t.Close()
		x.add(api.LevelProblem, "team_named_sessions", pane.SessionTeam, "", "a team has the name that the sessions in no team have as a team",
			"no session in no team can be written to until that team has ended")
	}
	all, _ := x.Root.Sessions(ctx) // a team that cannot be read is reported with the teams
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, s := range all {
		if s.Team != "" || s.Socket == "" {
			continue
		}
		if _, err := os.Stat(s.Socket); errors.Is(err, fs.ErrNotExist) {
			x.add(api.LevelNote, "session_without_socket", pane.SessionTeam, s.Path,
				fmt.Sprintf("the session %s (process %d) does not listen at %s, as it says: nobody can write to it", cmp.Or(s.Name, s.Session), s.PID, s.Socket),
				"end it, and resume it with: claude --resume "+s.Session)
		}
	}
	return nil
}
