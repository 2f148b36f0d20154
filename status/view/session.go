package view

import (
	"strings"

	"teambridge/relay/pane"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/teams"
)

// Session converts a session.
func Session(s teams.Session) api.Session {
	shown := api.Session{
		Name: s.Name, Session: s.Session, PID: s.PID, Cwd: s.Cwd, Version: s.Version, Headless: strings.HasPrefix(s.Entrypoint, "sdk"),
		Word: status.ProcessWord(s.Process), Team: s.Team, Member: s.Member, Socket: s.Socket != "", StartedAt: s.Started(), WordSince: timeOrNil(s.Changed),
	}
	switch outdated := pane.CheckVersion(s.Process, "it"); {
	case outdated != nil:
		shown.Outdated, shown.Word, shown.Why = true, api.WordUnknown, outdated.Error()
	case shown.Word == api.WordWaiting:
		shown.Why = s.WaitingFor
	}
	return shown
}
