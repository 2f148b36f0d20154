package main

import (
	"path/filepath"

	"teambridge/status/login"
	"teambridge/status/systemd"
)

// simulatedSupervisors are those of all systems, which scripts choose by $TEST_SUPERVISOR. The programs that they run are
// the script's.
var simulatedSupervisors = map[string]func(*app) (supervisor, error){
	"systemd": func(a *app) (supervisor, error) {
		u := systemd.Service()
		u.Debug = a.debug
		return u.For(a.lookup, a.home)
	},
	"launchd": func(a *app) (supervisor, error) {
		home, err := a.home()
		i := login.LaunchAgent(home, 501, filepath.Join(a.state, "service.log"))
		i.Debug = a.debug
		return i, err
	},
	"tasks": func(a *app) (supervisor, error) {
		i := login.ScheduledTask(a.state, "S-1-5-21-1-2-3-1001", filepath.Join(a.state, "service.log"))
		i.Debug = a.debug
		return i, nil
	},
}
