package ledger

import (
	"context"

	"teambridge/inbox/sqlite"
)

// A RelayInfo is how a relay stands, as far as its ledger says. Whether the relay
// still runs is not among it.
type RelayInfo struct {
	Session
	Open     int    // deliveries that have not ended
	Failed   int    // deliveries that failed, and of which nobody has decided yet
	InFlight string // uuid of the frame that has not ended; "" for none
}

// RelayInfos lists how the relays of a Claude root stand, in the order of
// [Ledger.Sessions]; those of every root if root is "".
func (l *Ledger) RelayInfos(ctx context.Context, root string) ([]RelayInfo, error) {
	return l.relayInfos(ctx, "?1='' OR root=?1 ORDER BY root, team, created_at, inbox", root)
}

// RelayInfo tells how the relay of an inbox stands, and whether there ever was one.
func (l *Ledger) RelayInfo(ctx context.Context, p InboxKey) (RelayInfo, bool, error) {
	if err := p.check(); err != nil {
		return RelayInfo{}, false, err
	}
	list, err := l.relayInfos(ctx, "root=? AND team=? AND created_at=? AND inbox=?", p.args()...)
	if err != nil || len(list) == 0 {
		return RelayInfo{}, false, err
	}
	return list[0], true, nil
}

func (l *Ledger) relayInfos(ctx context.Context, rest string, args ...sqlite.Value) ([]RelayInfo, error) {
	var list []RelayInfo
	err := l.db.Do(ctx, "relay infos", func(c *sqlite.Conn) error {
		list = nil // f runs again when the file was busy
		return c.Query(func(v []sqlite.Value) error {
			list = append(list, RelayInfo{
				Session: scanSession(v),
				Open:    int(integer(v[sessionColumnCount])), Failed: int(integer(v[sessionColumnCount+1])),
				InFlight: text(v[sessionColumnCount+2]),
			})
			return nil
		}, `SELECT `+sessionColumns+`,
			(SELECT count(*) FROM deliveries WHERE inbox_id=inboxes.inbox_id AND `+unended+`),
			(SELECT count(*) FROM deliveries WHERE inbox_id=inboxes.inbox_id AND state='failed'),
			coalesce((SELECT uuid FROM frames WHERE inbox_id=inboxes.inbox_id AND `+unended+` ORDER BY kind='nudge' DESC LIMIT 1), '')
			FROM inboxes JOIN sessions USING (inbox_id) WHERE `+rest, args...)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// DeliveryOf gives the delivery that a row of an inbox became, and whether it did:
// the occurrence-th row with that key, from 1. Raw and Mode are left out.
func (l *Ledger) DeliveryOf(ctx context.Context, p InboxKey, key string, occurrence int) (d Delivery, found bool, err error) {
	if err := p.check(); err != nil {
		return Delivery{}, false, err
	}
	err = l.db.Do(ctx, "fate", func(c *sqlite.Conn) error {
		s, err := c.Statement("SELECT " + deliveryColumns + ` FROM inboxes JOIN deliveries USING (inbox_id)
			WHERE root=? AND team=? AND created_at=? AND inbox=? AND key=? AND occurrence=? AND key<>''`)
		if err != nil {
			return err
		}
		found = false
		return s.Query(func(v []sqlite.Value) error {
			d, found = scanDelivery(v), true
			return nil
		}, append(p.args(), key, int64(occurrence))...)
	})
	return d, found, err
}
