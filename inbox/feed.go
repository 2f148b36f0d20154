package inbox

import (
	"encoding/json"
	"slices"
	"time"
)

// Entry is a row with where it was found.
type Entry struct {
	Row
	Inbox string // the name whose inbox it is in
	Index int    // of the row among those of the inbox, from 0
}

// Merge puts the rows of several inboxes into one order: by time, rows of one
// time by inbox name, rows of one inbox never out of the order of their file
// where their times are equal. A row whose time cannot be understood stands
// right behind the one in front of it in its file.
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
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		if a.Inbox != b.Inbox {
			if a.Inbox < b.Inbox {
				return -1
			}
			return 1
		}
		return a.Index - b.Index
	})
	entries := make([]Entry, len(all))
	for i, t := range all {
		entries[i] = t.Entry
	}
	return entries
}

// Noise reports whether the row says nothing that anybody needs to read or to
// act on: an agent that is idle and has neither a result nor anything it said,
// and the confirmations of a shutdown. A type that is not known is never noise.
func (r *Row) Noise() bool {
	switch r.Kind() {
	case "idle_notification":
		var idle struct {
			IdleReason, Summary, Result, FailureReason, CompletedTaskID string
		}
		if err := json.Unmarshal([]byte(r.Text), &idle); err != nil {
			return false
		}
		return idle.IdleReason == "available" && idle.Summary == "" && idle.Result == "" &&
			idle.FailureReason == "" && idle.CompletedTaskID == ""
	case "shutdown_approved", "teammate_terminated":
		return true
	}
	return false
}
