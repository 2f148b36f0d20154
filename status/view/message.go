package view

import (
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/status/api"
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
	return api.Receipt{
		Seq: r.Seq, Team: r.Team, CreatedAt: r.CreatedAt, Member: r.Inbox, ID: r.ID, State: string(r.State), Reason: r.Reason,
		VerifiedAt: timeOrNil(r.VerifiedAt), ConsumedAt: timeOrNil(r.ConsumedAt), LostAt: timeOrNil(r.LostAt), SeenAt: timeOrNil(r.SeenAt),
	}
}

// timeOrNil returns nil for the zero time, which stands for an event that has not happened.
func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Hit converts a hit of a search. found is the converted record.
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
		Reachable: d.Reachable(), WaitedMs: d.Waited.Milliseconds(),
	}
	if !s.Reachable {
		s.Reach = string(d.Reach)
	}
	if d.Version.Outdated() || d.Version.Newer() {
		s.Unlisted = d.Version.String()
	}
	return s
}
