package client_test

import (
	"testing"

	"teambridge/status/api"
	"teambridge/status/bridge/bridgetest"
	"teambridge/teams/teamstest"
)

// A service answers as the files do, also through a pipe.
func TestBridge(t *testing.T) {
	t.Parallel()
	t.Run("socket", func(t *testing.T) {
		t.Parallel()
		bridgetest.Run(t, func(t *testing.T, f *teamstest.Fixture) api.Bridge {
			w := &world{f, t}
			w.serve()
			return w.find()
		})
	})
	t.Run("pipe", func(t *testing.T) {
		if testing.Short() {
			t.Skip("not with -short: it is the same over HTTP/2")
		}
		t.Parallel()
		bridgetest.Run(t, func(t *testing.T, f *teamstest.Fixture) api.Bridge {
			w := &world{f, t}
			addrs, _ := w.serve()
			c, _ := w.pipe(addrs[0])
			return c
		})
	})
}
