//go:build !darwin && !windows

package main

import "teambridge/status/systemd"

func ownSupervisor(a *app) (supervisor, error) {
	u := systemd.Service()
	u.Debug = a.debug
	return u.For(a.lookup, a.home)
}
