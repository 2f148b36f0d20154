package teams

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"teambridge/teams/transcript"
)

// SessionTeam is the name of the team of all Claude Code sessions that are in no other team. It has no
// directory. SessionTeamCreated takes the place of its time of creation, in milliseconds.
const (
	SessionTeam        = "sessions"
	SessionTeamCreated = 1
)

// A Session is a process of Claude Code with its session.
type Session struct {
	transcript.Process
	Liveness Liveness // Alive, or Unknown if this system cannot decide

	// Team and Member name the owner of the process. A lead takes precedence over the teammates in its
	// process. Both are empty if the session is in no team.
	Team, Member string
}

// Sessions returns the sessions of all processes on this machine, or in this container, that may be alive,
// the oldest process first. Unreadable teams are reported in the error, and do not prevent the result.
func (r *Root) Sessions(ctx context.Context) ([]Session, error) {
	var list []Session
	for _, p := range transcript.Processes(r.Path()) {
		if state := StateOf(p); state != Gone {
			list = append(list, Session{Process: p, Liveness: state})
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	agents, err := r.agents(ctx)
	for i, s := range list {
		list[i].Team, list[i].Member = agents[s.PID].Team, agents[s.PID].Member
	}
	slices.SortFunc(list, func(a, b Session) int {
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.PID, b.PID))
	})
	return list, err
}

// StateOf reports whether the process of a session is alive. It checks the processes of this machine, even if
// the session file names another machine: a killed process leaves its file behind.
func StateOf(p transcript.Process) Liveness {
	if p.PID <= 0 {
		return Unknown
	}
	return stateOf(p.PID, p.ProcStart)
}

// Moved returns where the conversation of a session continues in a living process: see [transcript.Moved].
func Moved(root, session string) (now, job string, in transcript.Process) {
	return transcript.Moved(root, session, func(p transcript.Process) bool { return StateOf(p) != Gone })
}

// ThisStart returns when this process started, in the form of session files; "" if unknown on this system.
func ThisStart() string {
	_, start := thisProcess()
	return start
}

// agents returns the team and member of each agent's process.
func (r *Root) agents(ctx context.Context) (map[int]Session, error) {
	all, err := r.Teams()
	if err != nil {
		return nil, err
	}
	agents := map[int]Session{}
	var failed []error
	for _, l := range all {
		if l.Orphan || l.Err != nil {
			failed = append(failed, l.Err)
			continue
		}
		t, err := r.Team(l.Name)
		if err != nil {
			if !errors.Is(err, ErrTeamGone) && !errors.As(err, new(*NotFoundError)) {
				failed = append(failed, err)
			}
			continue
		}
		c, err := t.Config(ctx)
		if err == nil {
			of := t.Processes(c)
			for _, name := range slices.Sorted(maps.Keys(of)) {
				if p := of[name]; !p.Shared {
					agents[p.PID] = Session{Team: l.Name, Member: name}
				}
			}
		} else {
			failed = append(failed, err)
		}
		failed = append(failed, t.Close())
	}
	return agents, errors.Join(failed...)
}
