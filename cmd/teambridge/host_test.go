package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"teambridge/cmd/stdio"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
	"teambridge/status/ssh"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// A command that follows messages, and its other requests at the same time, use one ssh.
func TestOneSSH(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	f := teamstest.Captured(t, teamstest.OlderVersion)
	s, err := server.New(server.Options{Root: f.Root, State: f.State, Lock: teamstest.Patient})
	errtest.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-s.Ready()
	log := filepath.Join(t.TempDir(), "log")
	program := filepath.Join(t.TempDir(), "ssh")
	script := fmt.Sprintf("#!/bin/sh\necho >>'%s'\nfor command; do :; done\nunset TEAMBRIDGE_HOST\nCLAUDE_CONFIG_DIR='%s' TEAMBRIDGE_STATE='%s' exec sh -c \"$command\"\n", log, f.Root.Path(), f.State)
	standin.WriteProgram(t, program, script)
	var stderr bytes.Buffer
	d := &ssh.Dialer{Host: ssh.Host{Name: "box"}, Ssh: program, Stderr: &stderr}
	c, err := client.New(client.Options{Dial: d.Dial, Where: "box", Pipe: true})
	errtest.Must(t, err)
	watching, end := context.WithCancel(t.Context())
	defer end()
	var all sync.WaitGroup
	begun := make(chan struct{})
	all.Go(func() {
		first := sync.OnceFunc(func() { close(begun) })
		defer first()
		for _, err := range c.Events(watching, "", client.Now) {
			if first(); err != nil {
				t.Error(err)
			}
		}
	})
	for range 20 {
		all.Go(func() {
			if _, err := c.Teams(t.Context()); err != nil {
				t.Error(err)
			}
			<-begun
			end()
		})
	}
	all.Wait()
	c.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	runs, err := os.ReadFile(log)
	if n := len(runs); err != nil || n != 1 || d.Processes() != 1 {
		t.Errorf("ssh was started %d times, %v\n%s", n, err, &stderr)
	}
}

// With --host, each command either runs on that machine, or says why it cannot and what to type instead.
func TestEachCommandWithHost(t *testing.T) {
	t.Parallel()
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		if !cmd.HasParent() || cmd.HasSubCommands() || cmd.Name() == "help" {
			return
		}
		a := newApp(host{lookup: func(string) (string, bool) { return "", false }, stdout: io.Discard, stderr: io.Discard}, nil)
		a.hostName = "ssh://box:0"
		a.out = &stdio.Output{W: io.Discard}
		command := strings.TrimPrefix(cmd.CommandPath(), "teambridge ")
		err := a.chooseHost(cmd)
		bare := slices.Contains(hostless, command) || slices.Contains(runByPrograms, command)
		if (err == nil) != bare || err != nil && !errors.Is(err, api.CodeUsage) {
			t.Errorf("%s: with an invalid host, the error is %v", command, err)
		}
	}
	check(newRoot(newApp(host{}, nil), ""))
	for _, c := range localCommands {
		a := newApp(host{}, nil)
		a.there = &remoteHost{name: "ssh://box", host: ssh.Host{Name: "box"}}
		err := a.localOnly(c.command)
		f, status := explain(t.Context(), err)
		if status != api.ExitUsage || !strings.Contains(f.Hint, "ssh ") || !strings.HasSuffix(f.Hint, " box teambridge "+c.command) {
			t.Errorf("%s: %v, status %d", c.command, f, status)
		}
	}
}

// If a service on another machine does not answer, the status and the hint say whether the message may be sent.
func TestUnsure(t *testing.T) {
	t.Parallel()
	a := newApp(host{}, nil)
	a.there = &remoteHost{name: "ssh://box"}
	lost := &ssh.Error{Host: ssh.Host{Name: "box"}, Why: ssh.Lost, Status: 255}
	refused := &ssh.Error{Host: ssh.Host{Name: "box"}, Why: ssh.Failed, Status: 255}
	for _, c := range []struct {
		err    error
		status int
		hint   string
	}{
		{&client.UnreachableError{Where: "box", Sent: true, Err: lost}, api.ExitUnknown, "send it again under the same id, which sends it once: teambridge send --id m-1"},
		{&client.UnreachableError{Where: "box", Err: &net.OpError{Op: "dial", Err: refused}}, api.ExitTimeout, "nothing was sent; see that this works: ssh box true"},
		{&api.Problem{Code: api.CodeNotFound, Hint: "x"}, api.ExitNotFound, "x"},
	} {
		f, status := explain(t.Context(), a.unsure(c.err, "m-1"))
		if status != c.status || f.Hint != c.hint {
			t.Errorf("%v: status %d, %q; want %d, %q", c.err, status, f.Hint, c.status, c.hint)
		}
	}
}
