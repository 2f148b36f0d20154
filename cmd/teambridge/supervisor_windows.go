package main

import (
	"fmt"
	account "os/user"

	"teambridge/status/supervisor"
)

func ownJob(a *app) (supervisor.Job, error) {
	who, err := account.Current()
	if err != nil {
		return supervisor.Job{}, fmt.Errorf("find your account: %w", err)
	}
	return supervisor.ScheduledTask(a.state, who.Uid, serviceLog(a)), nil
}
