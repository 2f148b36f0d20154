package reply

import (
	"context"
	"encoding/json"
	"fmt"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
)

// shutDown approves the shutdown request whose turn has come, if any.
func (s *sender) shutDown(ctx context.Context) error {
	d, asked, err := s.opts.Ledger.Replies.ShutdownAsked(ctx, s.Key())
	if err != nil || !asked {
		return err
	}
	m, err := s.mail(ctx)
	if err != nil {
		return err
	}
	to, ok := member(m, d.From)
	if !ok && d.From == mail.User {
		to, ok = mail.User, true
	}
	if !ok {
		s.opts.Warn(fmt.Errorf("relay: %.64q asked %s to shut down, but is not a member: ignored", d.From, m.From()))
		return s.opts.Ledger.Deliveries.End(ctx, ledger.Done, "ignored: its sender is not a member", d.UUID)
	}
	request, reason := requestOf(d)
	text, err := approval(m.From(), request, d.At)
	if err != nil {
		return err
	}
	if _, err := s.put(ctx, m, to, mail.Message{ID: ledger.DeriveID(ledger.ReplyIDs, d.UUID, to), Text: string(text), Own: true}); err != nil {
		return err
	}
	s.at(approved)
	why := to + " asked it to shut down"
	if reason != "" {
		why += ": " + reason
	}
	s.shutdown = &shutdown{request: d.UUID, why: why}
	return nil
}

// requestOf parses a shutdown request.
func requestOf(d ledger.Delivery) (id, reason string) {
	row, err := inbox.ParseRow(d.Raw)
	if err != nil {
		return "", ""
	}
	// A map keeps the case of keys, as JavaScript does; a struct would not.
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(row.Text), &fields) != nil {
		return "", ""
	}
	text := func(key string) (s string) {
		if json.Unmarshal(fields[key], &s) != nil {
			return ""
		}
		return cut(s)
	}
	if id = text("requestId"); id == "" {
		id = text("request_id")
	}
	return id, text("reason")
}
