package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/ssh"
)

func newDialStdio(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "dial-stdio [SOCKET]",
		Hidden: true,
		Short:  "Connect standard input and output to the service; ssh runs it",
		Long: `Connect standard input and output to the socket of the service.

"teambridge --host ssh://HOST" makes ssh run this command on HOST. It prints a
line once it is connected, and then passes all bytes on. It starts no service.

Exit status: 0 the service closed the connection; 3 no service is running; 5 the
service has no socket.`,
		Example: `  teambridge dial-stdio`,
		Args:    between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return dialStdio(cmd.Context(), a, strings.Join(args, ""))
		},
	}
}

func dialStdio(ctx context.Context, a *app, socket string) error {
	if socket == "" {
		root, err := a.root()
		if err != nil {
			return err
		}
		c, err := client.Find(a.state, root.Path())
		if errors.Is(err, fs.ErrNotExist) {
			return exitStatus(api.ExitNotFound) // the program at the other end prints the error
		}
		if err != nil {
			return err
		}
		var unix bool
		if socket, unix = strings.CutPrefix(c.Where(), "unix:"); !unix {
			return refuse("restart it with a socket, too: teambridge serve --listen unix:PATH --listen "+socket, "the service listens only on %s, where --host cannot reach it", socket)
		}
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		a.note("%v", err)
		return exitStatus(api.ExitNotFound)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := a.print([]byte(ssh.Greeting)); err != nil {
		return err
	}
	go func() { // it ends with the process
		_, _ = io.Copy(conn, a.stdin)
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	if _, err = io.Copy(a.stdout, conn); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
