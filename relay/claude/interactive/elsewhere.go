package interactive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"teambridge/inbox"
	"teambridge/relay/agent"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// Elsewhere returns the id of a living process, other than ours, that has the session; 0 if there is none. Two
// processes with one session write two branches of the conversation, and neither sees the other's. A process to which
// the conversation was moved counts: see [transcript.Moved].
func Elsewhere(root, session string, ours agent.Process) (pid int) {
	if _, _, in := teams.Moved(root, session); in.PID != ours.PID && in.PID != 0 {
		return in.PID
	}
	for _, p := range transcript.Processes(root) {
		if p.PID != ours.PID && p.Session == session && teams.StateOf(p) != teams.Gone {
			return p.PID
		}
	}
	return 0
}

// Ended reports whether no process, headless or not, has the session any more, so that its transcript does not grow
// until a resume. It returns false for an outdated version, which may not report the session that it has resumed, and
// without a transcript.
func Ended(root, session string) bool {
	path, ok := transcript.Session(root, "", session)
	if !ok {
		return false
	}
	last, _ := transcript.Newest(path)
	version, _ := teams.ParseVersion(last.Version)
	return !version.Outdated() && Elsewhere(root, session, agent.Process{}) == 0
}

// Obstacle tells a person why the program must not be ended now; empty if it may. As it ends, Claude Code removes the
// team that it leads, and living teammates and unread rows would be lost. A team that it may lead counts, too, and so
// does a conversation that was moved to the background. own is the team to which teambridge counts the session, which
// is not removed; empty if there is none. earlier are the sessions that the program had before.
func Obstacle(ctx context.Context, root *teams.Root, own, session string, earlier ...string) (reason string, err error) {
	if _, job, _ := teams.Moved(root.Path(), session); job != "" {
		return fmt.Sprintf("its conversation was moved to the background, as %s: end the agent, stop that with claude stop %[1]s, and run this again", job), nil
	}
	all, err := root.Teams()
	if err != nil {
		return "", err
	}
	for _, listing := range all {
		if listing.Name == own || listing.Orphan || listing.Err != nil {
			continue
		}
		reason, err := obstacle(ctx, root, listing.Name, session, earlier)
		if gone := errors.Is(err, teams.ErrTeamGone) || errors.As(err, new(*teams.NotFoundError)); reason != "" || err != nil && !gone {
			return reason, err
		}
	}
	return "", nil
}

// obstacle returns the obstacle in one team.
func obstacle(ctx context.Context, root *teams.Root, name, session string, earlier []string) (reason string, err error) {
	team, err := root.Team(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, team.Close()) }()
	config, err := team.Config(ctx)
	if _, corrupt := errors.AsType[*teams.CorruptError](err); corrupt {
		return "", nil // Claude Code cannot read it either, so no program leads it
	} else if err != nil {
		return "", err
	}
	would := "would"
	switch team.LedBy(config, session, earlier...) {
	case teams.No:
		return "", nil
	case teams.Unsure:
		would = "may"
	}
	lead, _ := config.Lead()
	for _, m := range config.Members {
		if m.Name != lead.Name && !m.Guest() {
			return fmt.Sprintf("teammate %s of team %s %s end with it", m.Name, name, would), nil
		}
	}
	names, err := team.Inboxes()
	if err != nil {
		return "", err
	}
	for _, member := range names {
		box, err := inbox.Open(team, member, nil) // reading takes no lock
		if err != nil {
			return "", err
		}
		rows, err := box.Read(ctx)
		if errors.Is(err, inbox.ErrMissing) || errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", err
		}
		unread := 0
		for _, r := range rows {
			if !r.Read {
				unread++
			}
		}
		if unread > 0 {
			return fmt.Sprintf("unread messages for %s in team %s %s be removed with it: %d", member, name, would, unread), nil
		}
	}
	return "", nil
}
