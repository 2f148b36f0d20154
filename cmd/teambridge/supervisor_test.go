package main

import "teambridge/status/supervisor"

// simulatedSupervisors has the supervisors of all systems. A script chooses one by $TEST_SUPERVISOR, and has its
// program.
var simulatedSupervisors = map[string]func(*app) (supervisor.Job, error){
	"systemd": func(a *app) (supervisor.Job, error) { return supervisor.Service(a.lookup, a.home) },
	"launchd": func(a *app) (supervisor.Job, error) {
		home, err := a.home()
		return supervisor.LaunchAgent(home, 501, serviceLog(a)), err
	},
	"tasks": func(a *app) (supervisor.Job, error) {
		return supervisor.ScheduledTask(a.state, "S-1-5-21-1-2-3-1001", serviceLog(a)), nil
	},
}
