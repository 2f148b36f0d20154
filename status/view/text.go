package view

import (
	"fmt"
	"strings"
	"time"

	"teambridge/relay/shell"
	"teambridge/status/api"
)

// Clock formats a local time for a person, without the date if it is today.
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

// HistoryHint returns the hint for reading the history of a team that has ended.
func HistoryHint(team string) string {
	return "see what was said: teambridge history --team " + shell.Quote(team)
}

// RelayText describes the state of a relay; "-" if there is none.
func RelayText(i *api.Relay) string {
	if i == nil {
		return "-"
	}
	state := RelayState(i.State, i.Place)
	if i.Reason != "" {
		state += " (" + i.Reason + ")"
	}
	parts := []string{state}
	if i.Queue > 0 {
		parts = append(parts, fmt.Sprintf("%d under way", i.Queue))
	}
	if i.DeadLetters > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", i.DeadLetters))
	}
	if i.LastAck != nil {
		parts = append(parts, "last answer "+Clock(*i.LastAck))
	}
	return strings.Join(parts, ", ")
}

// RelayState returns the state of a relay and, of a session that can move, its place.
func RelayState(state string, p *api.Place) string {
	switch {
	case p == nil:
		return state
	case state == api.PlaceLocal:
		return p.Text()
	}
	return state + ", " + p.Text()
}

// FateText describes the outcome of a relayed message.
func FateText(f *api.Fate) string {
	text := f.Word
	if f.Machine != "" {
		text = f.Machine + ": " + text
	}
	if f.Why != "" {
		text += " (" + f.Why + ")"
	}
	return text + ", " + Clock(f.At)
}
