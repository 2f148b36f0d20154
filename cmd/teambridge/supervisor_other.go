//go:build !darwin && !windows

package main

import "teambridge/status/supervisor"

func ownJob(a *app) (supervisor.Job, error) { return supervisor.Service(a.lookup, a.home) }
