package view

import (
	"fmt"
	"strings"
	"teambridge/relay/shell"
	"time"
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

// Plural returns a number with its noun: 1 message, 2 messages, 2 inboxes.
func Plural(n int, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "x"):
		one += "e"
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// HistoryHint says how to see what was said in a team that has ended.
func HistoryHint(team string) string {
	return "see what was said: teambridge history --team " + shell.Quote(team)
}
