package view

import (
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/teams"
)

// Message converts a row of an inbox of team.
func Message(team string, e inbox.Entry) api.Message {
	return api.Message{
		Team: team, Inbox: e.Inbox, ID: e.ID(), From: e.From, Text: e.Text, Timestamp: e.Timestamp,
		Read: e.Read, Summary: e.Summary, Color: e.Color, Kind: e.Kind(),
	}
}

// Recorded converts a message of the journal to the fields that every row has.
func Recorded(m journal.Record) api.Message {
	shown := Message(m.Team, m.Entry())
	shown.Read = m.Read || !m.ReadAt.IsZero()
	shown.Gone, shown.Kind = !m.GoneAt.IsZero(), m.Kind()
	return shown
}

// Record converts a message of the journal. The receipt is nil unless the message was sent with teambridge.
func Record(m journal.Record, r *journal.Receipt) api.Record {
	shown := api.Record{
		Message: Recorded(m), Seq: m.Seq, CreatedAt: m.CreatedAt, Noise: m.Noise(), FirstSeen: m.FirstSeen,
		ReadAt: timeOrNil(m.ReadAt), GoneAt: timeOrNil(m.GoneAt), Person: m.Prompt != "",
	}
	if m.Answer != "" {
		shown.Answer = &api.Answer{Frame: m.Answer, InReplyTo: m.InReplyTo(), Truncated: m.Truncated()}
	}
	if r != nil {
		shown.Receipt = new(Receipt(*r))
	}
	return shown
}

// Receipt converts a receipt.
func Receipt(r journal.Receipt) api.Receipt {
	shown := api.Receipt{
		Seq: r.Seq, Team: r.Team, CreatedAt: r.CreatedAt, Member: r.Inbox, ID: r.ID, State: string(r.State), Reason: r.Reason,
		VerifiedAt: timeOrNil(r.VerifiedAt), ConsumedAt: timeOrNil(r.ConsumedAt), LostAt: timeOrNil(r.LostAt), SeenAt: timeOrNil(r.SeenAt),
	}
	switch cause, why := ledger.SplitReason(r.Reason); {
	case shown.SeenAt != nil:
		shown.Word = State(api.Seen)
	case cause == ledger.CauseNotSent:
		shown.Outcome = api.Outcome{Word: State(api.NotSent), Why: why}
	default:
		shown.Outcome = api.Outcome{Word: State(shown.State), Why: why}
	}
	return shown
}

// timeOrNil returns nil for the zero time, which stands for an event that has not happened.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Hit converts a search hit. found is the converted record.
func Hit(h journal.Excerpt, found api.Record) api.Hit {
	hit := api.Hit{Record: found, Snippet: []api.Piece{}}
	add := func(text string, match bool) {
		if text != "" {
			hit.Snippet = append(hit.Snippet, api.Piece{Text: text, Match: match})
		}
	}
	end := 0
	for _, m := range h.Matches {
		add(h.Snippet[end:m[0]], false)
		add(h.Snippet[m[0]:m[1]], true)
		end = m[1]
	}
	add(h.Snippet[end:], false)
	return hit
}

// Sent converts the result of sending a message.
func Sent(d mail.Delivered) api.Sent {
	s := api.Sent{
		Team: d.Team, Member: d.Member, ID: d.ID, State: d.State, Deduplicated: d.Deduplicated, Recorded: d.Recorded,
		WaitedMs: d.Waited.Milliseconds(),
	}
	if d.Version.Outdated() || d.Version.Newer() {
		s.Unlisted = d.Version.String()
	}
	SetReach(&s, d.Reach)
	return s
}

// SetReach records in a sent message whether somebody will read it, in words, too.
func SetReach(s *api.Sent, reach teams.Deliverability) {
	if s.Reachable = reach == teams.Reachable; s.Reachable {
		return
	}
	s.Reach = string(reach)
	switch reach {
	case teams.NotMember:
		s.ReachWhy = "is not a member of " + s.Team + ": the message may not be read"
	case teams.LeadGone:
		s.ReachWhy = "has no running lead: the message is not read until the lead's session is resumed"
	case teams.AgentGone:
		s.ReachWhy = "has ended: the message will not be read"
	case teams.NoRelay:
		s.ReachWhy = "is headless and has no running relay: it gets this when a relay runs it again"
	case teams.NoTeammate:
		s.ReachWhy = "has no teammate from this session: it may not read its inbox until it spawns one"
	case teams.AtTerminal:
		s.ReachWhy = "has its session at a person's terminal: this waits in the inbox until the session moves"
	case teams.Unread:
		s.ReachWhy = "has not read older messages for minutes"
	case teams.Outdated:
		s.ReachWhy = "is a Claude Code that is too old: what becomes of this message is not proved"
		if v, err := teams.ParseVersion(s.Unlisted); err == nil && v.Outdated() {
			s.ReachWhy = strings.TrimPrefix(v.Check("it").Error(), "it ") + "; what becomes of this message is not proved"
		}
	}
}
