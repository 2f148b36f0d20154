package teams

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/teams/proc"
	"teambridge/teams/transcript"
)

// LedBy reports whether the process with a session leads the team, so that the team ends with the process.
// The answer is Unsure if another process may lead it. earlier are earlier sessions of the process.
//
// leadSessionId alone does not decide. Up to 2.1.310 it is random if the session's id was given or the
// session was resumed. In all versions /clear changes the session of the process, but not leadSessionId. And
// after a kill a team keeps it, while a process with another team resumes the session.
func (t *Team) LedBy(c *Config, session string, earlier ...string) Answer {
	if !c.atStart() && slices.Contains(earlier, c.LeadSessionID) {
		return Yes
	}
	l := t.leads()
	leader, known := l.leader(c)
	candidates := l.candidates(c)
	found, answer := false, No
	for _, p := range l.processes {
		if state, looked := sessionLiveness(p); p.Session != session || looked && state != Alive {
			continue
		}
		found = true
		switch {
		case known && p.PID == leader.PID:
			return Yes
		case !known && slices.Contains(candidates, p):
			answer = Unsure
		}
	}
	// A process that has just started has no session file yet.
	if !found && !known && session != "" && c.LeadSessionID == session {
		return Yes
	}
	return answer
}

// Leader returns the process that leads the team. That is the process in leadProcess, which may be ours; or,
// if the team was made at the start of a session, the session's process at a terminal. pid is 0 if unknown.
func (t *Team) Leader(c *Config) (pid int, state Liveness) {
	if c.LeadProcess != nil {
		return c.LeadProcess.PID, t.root.leadLiveness(c.LeadProcess)
	}
	p, ok := t.leads().leader(c)
	if !ok || !c.atStart() {
		return 0, Unknown
	}
	state, _ = sessionLiveness(p)
	return p.PID, state
}

// leads finds out which process leads which team.
type leads struct {
	root      *Root
	processes []transcript.Process
	began     func(transcript.Process) (at time.Time, known bool)

	teams []*Config // teams whose leader config.json does not name
	read  bool      // teams was read
}

func (t *Team) leads() *leads {
	boot := proc.Booted()
	return &leads{root: t.root, processes: transcript.Processes(t.root.Path()), began: func(p transcript.Process) (time.Time, bool) {
		// On another machine, or before this boot, the ticks cannot be compared.
		state, _ := sessionLiveness(p)
		at, ok := after(boot, p)
		return at, ok && state == Alive && !boot.IsZero()
	}}
}

// after returns when a process started, given the boot time of its machine.
func after(boot time.Time, p transcript.Process) (at time.Time, ok bool) {
	const perSecond = 100 // the unit of start times in /proc on all common systems
	ticks, err := strconv.ParseInt(p.ProcStart, 10, 64)
	return boot.Add(time.Duration(ticks) * time.Second / perSecond), err == nil
}

// leader returns the process that leads a team, alive or not, if that is certain. If no file names it, it must be the only candidate and lead
// no other team. If there are several, only the likely ones count.
func (l *leads) leader(c *Config) (p transcript.Process, ok bool) {
	if p, ok := l.proven(c); ok {
		return p, true
	}
	list := l.candidates(c)
	if likely := slices.DeleteFunc(slices.Clone(list), func(p transcript.Process) bool { return !isLikely(c, p) }); len(likely) > 0 {
		list = likely
	}
	if len(list) != 1 {
		return transcript.Process{}, false
	}
	p = list[0]
	for _, o := range l.others(c) {
		if _, proven := l.proven(o); !proven && l.mayLead(o, p) && (isLikely(o, p) || !isLikely(c, p)) {
			return transcript.Process{}, false
		}
	}
	return p, true
}

// session returns the current or last session of a team's lead; empty if unknown.
func (l *leads) session(c *Config) string {
	if p, ok := l.leader(c); ok {
		return p.Session
	}
	if slices.ContainsFunc(l.processes, func(p transcript.Process) bool { return p.Session == c.LeadSessionID }) {
		return "" // another process has resumed it
	}
	return c.LeadSessionID
}

// isLikely reports whether a process runs where the lead began, at a terminal. A process with --worktree runs
// elsewhere, and one that a headless process started reports that it is headless, too.
func isLikely(c *Config, p transcript.Process) bool {
	lead, _ := c.Lead()
	return lead.Cwd != "" && filepath.Clean(lead.Cwd) == filepath.Clean(p.Cwd) && !strings.HasPrefix(p.Entrypoint, "sdk")
}

// candidates returns the processes that may lead a team, and certainly lead no other.
func (l *leads) candidates(c *Config) (list []transcript.Process) {
	for _, p := range l.processes {
		if l.mayLead(c, p) && !slices.ContainsFunc(l.others(c), func(o *Config) bool {
			q, ok := l.proven(o)
			return ok && q.PID == p.PID
		}) {
			list = append(list, p)
		}
	}
	return list
}

// proven returns the process that leads a team according to a file.
func (l *leads) proven(c *Config) (found transcript.Process, ok bool) {
	for _, p := range l.processes {
		if named := c.LeadProcess; named != nil && named.PID == p.PID && named.ProcStart == p.ProcStart && p.ProcStart != "" {
			return p, true
		}
	}
	lead, _ := c.Lead()
	guessed, session, teammate := c.guessed(), transcript.Process{}, []transcript.Process(nil)
	for _, p := range l.processes {
		if guessed && !l.mayLead(c, p) {
			continue
		}
		if c.LeadSessionID != "" && p.Session == c.LeadSessionID && p.StartedAt >= session.StartedAt {
			session = p
		}
		if guessed && transcript.HasTeammate(l.root.Path(), lead.Cwd, p.Session, c.Team) {
			teammate = append(teammate, p)
		}
	}
	switch {
	case session.PID != 0:
		return session, true
	case len(teammate) == 1:
		return teammate[0], true
	}
	return transcript.Process{}, false
}

// guessed reports whether config.json does not name the leader of a team that was made at the start of a
// session. Versions up to 2.1.310 wrote such files.
func (c *Config) guessed() bool { return c.LeadProcess == nil && c.atStart() }

// namesLeader is the first version that writes leadProcess.
var namesLeader = Version{2, 1, 311}

// clockSlack limits changes of the clock since a process started. After a larger change, longestStart
// decides.
const clockSlack = 2 * time.Second

// longestStart limits the time from the start of a process to its session file, if the start is unknown.
// Usually it is a second or two; on a busy machine, it was 9 s.
const longestStart = time.Minute

// mayLead reports whether the team was made while the process was starting, that is, before its session file.
// A person may have answered the question about trust in between.
func (l *leads) mayLead(c *Config, p transcript.Process) bool {
	v, _ := ParseVersion(p.Version)
	if !c.guessed() || !p.Interactive || p.Version == "" || v.Compare(namesLeader) >= 0 {
		return false
	}
	started := time.UnixMilli(p.StartedAt)
	begun := started.Add(-longestStart)
	if at, known := l.began(p); known && at.Before(started) {
		begun = at.Add(-clockSlack)
	}
	return !c.CreatedAt.Before(begun) && !c.CreatedAt.After(started)
}

// others returns the other guessed teams. Unreadable teams are skipped.
func (l *leads) others(c *Config) []*Config {
	if !l.read {
		l.read = true
		all, _ := l.root.Teams()
		for _, listing := range all {
			if o, err := l.root.config(listing.Name); err == nil && o.guessed() {
				l.teams = append(l.teams, o)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(l.teams), func(o *Config) bool { return o.Team == c.Team })
}

// config reads a team's current config.json, without waiting.
func (r *Root) config(name string) (*Config, error) {
	t, err := r.Team(name)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	data, err := t.read()
	if err != nil {
		return nil, err
	}
	return t.parse(data)
}
