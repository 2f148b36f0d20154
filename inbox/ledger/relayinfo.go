package ledger

import (
	"context"

	"teambridge/inbox/sqlite"
)

// A RelayInfo is the state of a relay as its ledger has it. It does not say whether the
// relay still runs.
type RelayInfo struct {
	Session
	Open     int    // deliveries that have not ended
	Failed   int    // deliveries that failed, and of which nobody has decided yet
	InFlight string // uuid of the frame that has not ended; "" for none
}

// RelayInfos lists the states of the relays of a Claude root, or of every root if root is
// "", in the order of [Ledger.Sessions].
func (l *Ledger) RelayInfos(ctx context.Context, root string) ([]RelayInfo, error) {
	return l.relayInfos(ctx, inRoot, root)
}

// RelayInfo returns the state of the relay of an inbox, and whether there ever was one.
func (l *Ledger) RelayInfo(ctx context.Context, k InboxKey) (RelayInfo, bool, error) {
	if err := k.check(); err != nil {
		return RelayInfo{}, false, err
	}
	list, err := l.relayInfos(ctx, thisInbox, k.args()...)
	if err != nil || len(list) == 0 {
		return RelayInfo{}, false, err
	}
	return list[0], true, nil
}

func (l *Ledger) relayInfos(ctx context.Context, rest string, args ...sqlite.Value) ([]RelayInfo, error) {
	return sqlite.Select(ctx, l.db, "relay infos", func(v sqlite.Row) RelayInfo {
		return RelayInfo{Session: scanSession(v), Open: int(v.Int(16)), Failed: int(v.Int(17)), InFlight: v.Text(18)}
	}, `SELECT `+sessionColumns+`,
		(SELECT count(*) FROM deliveries WHERE inbox_id=inboxes.inbox_id AND `+unended+`),
		(SELECT count(*) FROM deliveries WHERE inbox_id=inboxes.inbox_id AND state='failed'),
		coalesce((SELECT uuid FROM frames WHERE inbox_id=inboxes.inbox_id AND `+unended+` ORDER BY kind='nudge' DESC LIMIT 1), '')
		FROM inboxes JOIN sessions USING (inbox_id) WHERE `+rest, args...)
}
