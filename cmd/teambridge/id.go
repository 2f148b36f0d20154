package main

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"teambridge/inbox/journal"
	"teambridge/status/view"
)

// shortID is the id as tables show it: the beginning of one that was made at random or from
// a digest. Others are shown whole.
func shortID(id string) string {
	const digits = 8
	if u, err := uuid.Parse(id); err == nil && len(id) == 36 && (u.Version() == 4 || u.Version() == 5) {
		return id[:digits]
	}
	if hex, ok := strings.CutPrefix(id, "inbox-"); ok && len(hex) == 16 {
		return id[:len(id)-len(hex)+digits]
	}
	return id
}

// recordedID is [view.WholeID] among the messages and envelopes that the journal has of an inbox,
// a team, or all.
func recordedID(ctx context.Context, j *journal.Journal, q journal.Query, query string) (string, error) {
	if len(query) < view.MinPrefix {
		return query, nil
	}
	q.Limit = 20
	ids, err := j.IDs(ctx, q, query)
	if err != nil {
		return "", err
	}
	return view.WholeID(query, ids)
}
