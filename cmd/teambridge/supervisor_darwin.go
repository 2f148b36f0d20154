package main

import (
	"os"

	"teambridge/status/supervisor"
)

func ownJob(a *app) (supervisor.Job, error) {
	home, err := a.home()
	return supervisor.LaunchAgent(home, os.Getuid(), serviceLog(a)), err
}
