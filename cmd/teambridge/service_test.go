package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"teambridge/status/api"
	"teambridge/status/server"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// A service that still runs after an upgrade is reported, with the advice to restart it.
func TestServiceOfAnotherVersion(t *testing.T) {
	t.Parallel()
	other := build()
	other.Version = "v0.0.1"
	for _, tt := range []struct {
		version api.Version
		named   bool
	}{{build(), false}, {other, true}} {
		f := teamstest.Captured(t, teamstest.OlderVersion)
		s, err := server.New(server.Options{Root: f.Root, State: f.State, Lock: teamstest.Patient, Version: tt.version})
		errtest.Must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		<-s.Ready()
		for command, says := range map[string]string{"service status": "another version than this program: restart it", "doctor": "the service is teambridge v0.0.1"} {
			var out, errs bytes.Buffer
			env := map[string]string{"HOME": t.TempDir(), "CLAUDE_CONFIG_DIR": f.Root.Path(), "TEAMBRIDGE_STATE": f.State, "PATH": "/bin"}
			run(strings.Fields(command), host{
				stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
				lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
				cwd:    func() (string, error) { return env["HOME"], nil },
			})
			if got := strings.Contains(out.String(), says); got != tt.named {
				t.Errorf("%s, of a service of %s: %q, want it %t\n%s%s", command, tt.version.Version, says, tt.named, out.String(), errs.String())
			}
		}
		stop()
		running.Wait()
	}
}
