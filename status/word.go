package status

import (
	"cmp"
	"time"

	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// Known is a status by [Of], with evidence from other sources.
type Known struct {
	api.Status
	Signs
}

// Signs are the evidence about a member that is not in messages.
type Signs struct {
	Turn     Turn
	Process  *teams.AgentProcess // the living interactive process that it runs in; nil if none
	Agent    *api.Relay          // its relay, if it is headless
	Question *api.Question       // its oldest open question
	LeadGone bool                // the process that led its team is not running
	Gone     bool                // its own process is not running
	Version  teams.Version       // of its Claude Code; zero if unknown
}

// Turn is the state of the last recorded turn of an agent's session.
type Turn struct {
	Running bool
	At      time.Time // of its start, or of its end; zero if no turn is recorded
	Outcome string    // of its end: completed, failed or cancelled
	Heard   time.Time // of the newest record
}

const (
	leadGone  = "the team's lead is not running"
	gone      = "its process has ended"
	notHeard  = "nothing was heard from it for 5 minutes or more"
	neverSaid = "nothing was heard from it yet"
)

// Decide returns the status with its word. The first of these sources that is conclusive decides: the
// member's shutdown; an open question; its relay; its interactive process; the end of its lead's or its own
// process; its newest turn or message. A turn or message means that it works, for [IdleAfter] after the last
// sign of it. For a Claude Code older than [teams.Oldest], only an end is certain.
func (k Known) Decide(now time.Time) api.Status {
	s, said := k.Status, k.WordSince // said is the time of the newest message
	s.Relay = k.Agent
	if s.Relay != nil && s.Relay.LastAck != nil {
		s.Heard = latest(s.Heard, *s.Relay.LastAck)
	}
	if k.Process != nil && !k.Process.Shared {
		s.Heard = latest(s.Heard, k.Process.Changed)
	}
	if s.Heard.After(now) {
		s.Heard = now.UTC()
	}
	is := func(word, why, basis string, since time.Time) {
		if since.After(now) {
			since = now
		}
		s.Word, s.Why, s.Basis, s.WordSince = word, why, basis, since.UTC()
	}
	recent := now.Sub(s.Heard) < IdleAfter
	byProcess := ofProcess(k.Process, s.Detail == api.DetailWorking)
	// At a person's terminal, its process decides, unless a switch is held there.
	atTerminal := s.Relay != nil && s.Relay.State == "local" && byProcess != "" && (byProcess != api.WordIdle || s.Relay.Place.Held() == "")
	switch {
	case s.State == api.StateTerminated:
		is(api.WordEnded, "it has shut down", api.BasisMessage, said)
		return s
	case k.Version.Outdated() && (k.Process != nil || !k.LeadGone):
		is(api.WordUnknown, k.Version.Check("it").Error(), s.Basis, s.Heard)
		return s
	case k.Question != nil:
		is(api.WordWaiting, "it asks to use "+k.Question.Tool, api.BasisQuestion, k.Question.At)
		return s
	case s.Relay != nil && (s.Relay.Running || k.Process == nil) && !atTerminal:
		word, why, since := ofRelay(s.Relay, s.Unread)
		if since.IsZero() {
			since = s.Heard
		}
		is(word, why, api.BasisRelay, since)
		// An agent can start a turn itself, when one of its background tasks ends.
		switch {
		case word == api.WordEnded && k.LeadGone:
			s.Why = leadGone
		case (word == api.WordIdle || word == api.WordWorking) && k.Turn.Running && recent:
			is(api.WordWorking, "", api.BasisTurn, k.Turn.At)
		case word == api.WordIdle:
			s.Why = cmp.Or(k.Turn.end(), s.Why)
		}
		return s
	}
	newer := k.Turn.At.After(said)
	switch {
	case byProcess != "":
		is(byProcess, "", api.BasisProcess, k.Process.Changed)
		s.PID = k.Process.PID
		switch {
		case byProcess == api.WordWaiting:
			s.Why = k.Process.WaitingFor
		case byProcess == api.WordIdle:
			s.Why = k.lastTurn(said)
		}
	case k.LeadGone:
		is(api.WordEnded, leadGone, api.BasisTeam, s.Heard)
	case k.Gone:
		is(api.WordEnded, gone, api.BasisTeam, s.Heard)
	case newer && !k.Turn.Running:
		is(api.WordIdle, k.Turn.end(), api.BasisTurn, k.Turn.At)
	case newer && recent:
		is(api.WordWorking, "", api.BasisTurn, k.Turn.At)
	case !newer && s.Detail != api.DetailWorking:
		is(api.WordIdle, k.lastTurn(said), api.BasisMessage, said)
	case recent:
		is(api.WordWorking, "", s.Basis, said)
	case newer:
		is(api.WordUnknown, notHeard, api.BasisTurn, s.Heard)
	case s.Basis == api.BasisTeam && !s.Heard.After(said):
		is(api.WordUnknown, neverSaid, s.Basis, s.Heard)
	default:
		is(api.WordUnknown, notHeard, s.Basis, s.Heard)
	}
	if k.LeadGone {
		s.Why = cmp.Or(s.Why, leadGone)
	}
	return s
}

// LastTurn returns when the member's last known turn ended, and whether it failed. It must be called before
// [Known.Decide]. ok is false for a member that never worked.
func (k *Known) LastTurn() (ended time.Time, failed, ok bool) {
	if k.Turn.At.After(k.WordSince) {
		return k.Turn.At, k.Turn.Outcome == "failed", true
	}
	return k.WordSince, k.Detail == api.DetailFailed, k.Evidence.ID != ""
}

// Rests reports whether a member counts as idle for those who wait for that: it is idle and no message waits
// for it, or it has shut down.
func Rests(s api.Status) bool {
	return s.State == api.StateTerminated || s.Word == api.WordIdle && s.Unread == 0
}

// Silent reports whether a member was working, and has shown no sign for [IdleAfter] or more. A member that
// never showed any sign is not silent.
func Silent(s api.Status, now time.Time) bool {
	return s.Word == api.WordUnknown && s.Why == notHeard || s.Word == api.WordWorking && now.Sub(LastSign(s)) >= IdleAfter
}

// LastSign returns when a member last showed a sign, or its agent was started.
func LastSign(s api.Status) time.Time {
	if s.Relay != nil && s.Relay.Started != nil {
		return latest(s.Heard, *s.Relay.Started)
	}
	return s.Heard
}

// LeadGone reports whether a member will send nothing more because its team's lead process is not running.
func LeadGone(s api.Status) bool { return s.Word == api.WordEnded && s.Why == leadGone }

// Gone reports whether a member will send nothing more because its own process or its team's lead process is
// not running.
func Gone(s api.Status) bool { return LeadGone(s) || s.Word == api.WordEnded && s.Why == gone }

// ofRelay returns the word for a relay's agent, and why; since is zero if unknown.
func ofRelay(r *api.Relay, unread int) (word, why string, since time.Time) {
	why = "its relay is " + r.State
	if r.Reason != "" {
		why += ": " + r.Reason
	}
	switch r.State {
	case "working":
		return api.WordWorking, "", since
	case "starting":
		return api.WordWorking, why, since
	case "idle", "asleep":
		if len(r.Held) > 0 {
			return api.WordBlocked, "the messages of " + r.Held[0].Sender + " are held: " + r.Held[0].Reason, r.Held[0].Since
		}
		return api.WordIdle, r.Reason, since
	case "ended":
		return api.WordEnded, r.Reason, since
	case "switching":
		return api.WordWorking, "its session is being switched", since
	case "local":
		if held := r.Place.Held(); held != "" {
			return api.WordBlocked, "its session is at a terminal; the switch is held: " + held, r.Place.Since
		}
		return api.WordIdle, "its session is at a terminal", since
	case "stopped":
		if r.Queue+unread == 0 {
			return api.WordEnded, why, since
		}
	}
	return api.WordBlocked, why, since
}

// ofProcess returns the word that a process gives a member that works or rests according to its messages; ""
// if inconclusive. A shared process only proves that all its teammates rest, since it is busy if any of them
// is.
func ofProcess(p *teams.AgentProcess, works bool) string {
	if p == nil {
		return ""
	}
	switch word := ProcessWord(p.Process); {
	case word == api.WordUnknown, p.Shared && word != api.WordIdle && !works:
		return ""
	case p.Shared && word != api.WordIdle:
		return api.WordWorking
	default:
		return word
	}
}

// ProcessWord returns the word for a process's status, or [api.WordUnknown] if it reports none.
func ProcessWord(p transcript.Process) string {
	switch p.Status {
	case transcript.ProcessIdle:
		return api.WordIdle
	case transcript.ProcessWaiting:
		return api.WordWaiting
	case transcript.ProcessBusy, transcript.ProcessShell:
		return api.WordWorking
	}
	return api.WordUnknown
}

// lastTurn describes how the last turn ended if it was not completed. said is the time of the newest message.
func (k *Known) lastTurn(said time.Time) string {
	switch {
	case k.Turn.At.After(said):
		return k.Turn.end()
	case k.Detail == api.DetailFailed:
		return "its last turn failed"
	}
	return ""
}

func (t *Turn) end() string {
	switch {
	case t.Running:
	case t.Outcome == "failed":
		return "its last turn failed"
	case t.Outcome == "cancelled":
		return "its last turn was cancelled"
	}
	return ""
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b.UTC()
	}
	return a
}
