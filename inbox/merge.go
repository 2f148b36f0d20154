package inbox

import (
	"cmp"
	"slices"
	"time"
)

// Entry is a row with its place.
type Entry struct {
	Row
	Inbox string // the name of the inbox
	Index int    // the index of the row among the rows of the inbox, from 0
}

// Merge merges the rows of several inboxes, ordered by time, then by the name of the inbox, then by position
// in the file. A row whose time cannot be parsed gets the time of the row before it.
func Merge(inboxes map[string][]Row) []Entry {
	type timed struct {
		Entry
		at time.Time
	}
	var all []timed
	for name, rows := range inboxes {
		var last time.Time
		for i, r := range rows {
			if at, ok := r.Time(); ok {
				last = at
			}
			all = append(all, timed{Entry{Row: r, Inbox: name, Index: i}, last})
		}
	}
	slices.SortFunc(all, func(a, b timed) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.Inbox, b.Inbox), a.Index-b.Index)
	})
	entries := make([]Entry, len(all))
	for i, t := range all {
		entries[i] = t.Entry
	}
	return entries
}
