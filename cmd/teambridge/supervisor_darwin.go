package main

import (
	"os"
	"path/filepath"

	"teambridge/status/login"
)

func ownSupervisor(a *app) (supervisor, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	i := login.LaunchAgent(home, os.Getuid(), filepath.Join(a.state, "service.log"))
	i.Debug = a.debug
	return i, nil
}
