package main

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"teambridge/inbox/journal"
)

// minPrefix is how many characters of an id are enough, if no other id begins with them.
const minPrefix = 4

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

// wholeID returns the one of ids that is query, or that begins with it, or "" if there is
// none. It is a usage error if several begin with it.
func wholeID(query string, ids []string) (string, error) {
	var found []string
	for _, id := range ids {
		if id == query {
			return id, nil
		}
		if len(query) >= minPrefix && strings.HasPrefix(id, query) && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	const most = 10
	more := ""
	if len(found) > most {
		found, more = found[:most], " and others"
	}
	return "", usage("matches are "+strings.Join(found, ", ")+more, "several ids begin with %q", query)
}

// recordedID is wholeID among the messages and envelopes that the journal has of an inbox,
// a team, or all.
func recordedID(ctx context.Context, j *journal.Journal, q journal.Query, query string) (string, error) {
	if len(query) < minPrefix {
		return query, nil
	}
	q.Limit = 20
	ids, err := j.IDs(ctx, q, query)
	if err != nil {
		return "", err
	}
	return wholeID(query, ids)
}
