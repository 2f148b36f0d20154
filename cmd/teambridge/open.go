package main

import (
	"context"

	"teambridge/status/api"
)

// bridge returns what does the operations of this command.
func (a *app) bridge(context.Context) api.Bridge { return a.local() }
