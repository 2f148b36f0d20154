package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"teambridge/relay/link/hub"
	"teambridge/status/ssh"
	"teambridge/status/supervisor"
)

// runOptions are the flags of run, which install passes on.
type runOptions struct {
	hub.Options
	metrics string // address
}

func (o *runOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.Listen, "listen", hub.Listen, "address to listen on; port 0 is a free one")
	f.StringVar(&o.TLSCert, "tls-cert", "", "file of the certificate")
	f.StringVar(&o.TLSKey, "tls-key", "", "file of its key")
	f.StringVar(&o.metrics, "metrics", "", "address of this machine where http://ADDRESS/metrics answers, for Prometheus")
}

func (o *runOptions) check() error {
	if o.metrics != "" {
		host, _, err := net.SplitHostPort(o.metrics)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return usageError{fmt.Errorf("--metrics %s: use an address of this machine, as 127.0.0.1:9222", o.metrics)}
		}
	}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

func newRun(a *app) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the hub",
		Long: `Run the hub until it is interrupted.

Without a certificate it listens on this machine alone, where machines reach it
by ssh://HOST. It keeps 1 GiB at most, and from one machine for another 1,000
frames, for 7 days.

Exit status: 0 interrupted; 1 error; 2 usage; 5 a hub runs in this directory.`,
		Example: `  teambridge-hub run
  teambridge-hub run --listen 0.0.0.0:4222 --tls-cert hub.pem --tls-key hub.key`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Dir, o.Log = a.dir, slog.New(slog.NewTextHandler(a.stderr, nil))
			return a.run(cmd.Context(), o)
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (a *app) run(ctx context.Context, o runOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	var l net.Listener
	if o.metrics != "" {
		if l, err = net.Listen("tcp", o.metrics); err != nil {
			return fmt.Errorf("listen for --metrics: %w", err)
		}
		defer l.Close()
	}
	h, err := hub.Open(ctx, o.Options)
	if err != nil {
		return err
	}
	if l != nil {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", h)
		s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
		go s.Serve(l)
		defer s.Close()
		fmt.Fprintf(a.stdout, "metrics: http://%s/metrics\n", l.Addr())
	}
	fmt.Fprintf(a.stdout, "the hub listens on %s; its directory is %s\n", h.Addr(), o.Dir)
	if err := supervisor.Notify(os.Getenv("NOTIFY_SOCKET"), "READY=1"); err != nil {
		return errors.Join(err, h.Close())
	}
	return h.Run(ctx)
}

func newDialStdio(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "dial-stdio",
		Short: "Connect standard input and output to the hub; ssh runs it",
		Long: `Connect standard input and output to the hub that runs on this machine.

Machines whose hub is ssh://HOST have ssh run it on HOST.

Exit status: 0 the hub closed the connection; 3 no hub runs.`,
		Example: `  teambridge-hub dial-stdio`,
		Args:    exactly(0, "no argument"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.dialStdio(cmd.Context()) },
	}
}

func (a *app) dialStdio(ctx context.Context) error {
	card, err := hub.Find(a.dir)
	if err != nil {
		return fmt.Errorf("%w; start it: teambridge-hub run --dir %s", err, a.dir)
	}
	if card.TLS {
		return errors.New("this hub has a certificate: reach it by tls://HOST:PORT")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", card.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(a.stdout, ssh.Greeting); err != nil {
		return err
	}
	go func() { // ends with the process
		io.Copy(conn, a.stdin)
		conn.Close() // a client that is gone needs no more output
	}()
	if _, err = io.Copy(a.stdout, conn); errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
