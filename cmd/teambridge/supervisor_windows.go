package main

import (
	"fmt"
	account "os/user"
	"path/filepath"

	"teambridge/status/login"
)

func ownSupervisor(a *app) (supervisor, error) {
	who, err := account.Current()
	if err != nil {
		return nil, fmt.Errorf("find your account: %w", err)
	}
	i := login.ScheduledTask(a.state, who.Uid, filepath.Join(a.state, "service.log"))
	i.Debug = a.debug
	return i, nil
}
