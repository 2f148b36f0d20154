package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"teambridge/relay/process"
	"teambridge/relay/qwen"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/mcp"
)

func newMCP(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Let an agent use teambridge; the agent's program runs this",
		Long: `Serve the Model Context Protocol on standard input and output, so that an agent
can list the other agents, write to them and to you, answer, and look up its
messages.

An agent sends as the session that has started the server. The session is found
by its process, so the agent cannot choose it. An agent reads only its own
messages. It cannot grant a permission, set a mode, run a command or type into a
pane. An unknown caller sends as "unverified", and has no messages.

For each message, the agent learns its state, as from "teambridge send". With a
service, the message can still be delivered after the call.

Exit status: 0 when standard input ends; 1 it could not be read.`,
		Example: `  claude mcp add teambridge -- teambridge mcp`,
		Args:    none,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serveMCP(cmd.Context(), a) },
	}
}

func serveMCP(ctx context.Context, a *app) (err error) {
	a.agent = true
	dir, err := a.cwd()
	if err != nil {
		return err
	}
	ctx = bridge.WithAgent(ctx)
	a.local() // created before concurrent calls share it
	parents := ancestors(os.Getppid())
	forget, err := qwen.KeepToken(a.state, a.lookup, parents)
	if err != nil { // the tools work without it
		a.warn("the token of the session of Qwen Code is not kept: %v; messages to it are held for its person", err)
	} else {
		defer func() { err = errors.Join(err, forget()) }()
	}
	return mcp.Serve(ctx, a.stdin, a.stdout, mcp.Options{
		Once: a.onceForAgent, Parents: parents, Dir: dir, Version: build().Version, Rest: process.GiveBack,
	})
}

// onceForAgent is [once] for a long-running command: it chooses the backend again for each call, since a service
// may have started or ended.
func (a *app) onceForAgent(ctx context.Context, id string, do func(b mcp.Bridge) error) error {
	c := a.choose(ctx)
	if c.service != nil {
		defer c.service.Close()
	}
	_, err := once(ctx, a, c, id, true, func(b api.Bridge, _ string) (struct{}, error) { return struct{}{}, do(b) })
	return err
}

// ancestors returns a process and its ancestors, the nearest first.
func ancestors(pid int) (all []int) {
	for pid > 1 && len(all) < 32 {
		all = append(all, pid)
		pid = process.Parent(pid)
	}
	return all
}
