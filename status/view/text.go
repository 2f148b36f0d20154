package view

import (
	"time"

	"teambridge/relay/shell"
)

// Clock shows a time to a person: only the time of day if it is today.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	t = t.Local()
	if now := time.Now(); now.Year() == t.Year() && now.YearDay() == t.YearDay() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04")
}

// HistoryHint says how to see what was said in a team that has ended.
func HistoryHint(team string) string {
	return "see what was said: teambridge history --team " + shell.Quote(team)
}
