package client_test

import (
	"runtime"
	"testing"

	"teambridge/status/api"
	"teambridge/status/bridge/bridgetest"
	"teambridge/teams/teamstest"
)

// A client of a service through a pipe passes the suite of the bridge. The tests of package server use its socket.
func TestBridge(t *testing.T) {
	if testing.Short() && runtime.GOOS != "windows" {
		t.Skip("not with -short: it is the same over HTTP/2")
	}
	t.Parallel()
	bridgetest.Run(t, func(t *testing.T, f *teamstest.Fixture) api.Bridge {
		w := &world{f, t}
		addrs, _ := w.serve()
		if runtime.GOOS == "windows" { // a service listens on a port there
			return w.find()
		}
		c, _ := w.pipe(addrs[0])
		return c
	})
}
