package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay/process"
	"teambridge/status/alert"
	"teambridge/status/api"
	"teambridge/status/server"
	"teambridge/status/server/page"
	"teambridge/status/service"
	"teambridge/status/supervisor"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

type serveOptions struct {
	listen   []string
	readOnly bool
	keepWork time.Duration
	keep     []string // teams
	modes    string   // --permission-mode-map
	as       string   // the service's name in the lists of sessions
	alerts   alertOptions
	log      string // a file; empty: stderr
}

func newServe(a *app) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service: complete history, relays and an HTTP API",
		Long: `Run the service for a Claude directory.

It records everything that passes through the inboxes, and serves the output of
the other commands with --json over HTTP. It follows messages that are sent
through it until an agent has taken them; GET /v1/events streams events; GET
/openapi.json describes the API. If you joined a team and the entry disappears
from its config.json, the service adds it again.

It runs the headless agents added with "teambridge relay add" or POST
/v1/relays, relays their inboxes, and resumes their sessions after a restart or
a kill. A message that you send to such an agent through the service is your own
prompt, not a teammate's message. You can also send payloads of the session
protocol. $ENABLE_SESSION_PROTOCOL_SEND chooses which of their forms is dropped,
as in run.

With --keep-transcripts TEAM, the history also has the texts and actions of that
team's interactive agents. Their transcripts are only read, but can hold
secrets, which are then in journal.db too. TEAM can be "sessions", for the
sessions in no team.

Sessions of Claude Code that are in no team list you as "operator", or under the
name of --as, and their agents can write to you: "teambridge inbox" shows their
messages, and "teambridge reply" answers.

With --alert, the service sends alerts about what needs you to your phone or to
a chat: "teambridge watch --help" has the forms. Alerts delay nothing; failures
are in the log and in "teambridge doctor".

The service listens on a unix socket that only you can open, by default
NAME.sock in the state directory. On Windows it listens on a free port of
127.0.0.1. There, and with --listen 127.0.0.1:PORT, requests need the token in
the file api.token of that directory, and "teambridge ui" opens a web page:

  curl --unix-socket PATH http://localhost/v1/teams
  curl -H "Authorization: Bearer $(cat TOKEN)" http://127.0.0.1:PORT/v1/teams

The addresses are printed on stdout, the log on stderr. SIGTERM ends the
service, as does SIGHUP when its terminal is closed: requests are answered
first, and agents may finish their turns, for 30 s. Under systemd use
Type=notify, as "teambridge service install" does.

Exit status: 0 ended by a signal; 1 failed; 2 invalid address or flag; 3 no
Claude directory; 5 a service already runs for this Claude directory, perhaps
with another state directory.`,
		Example: `  teambridge serve
  teambridge serve --listen 127.0.0.1:7420 --read-only`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runService(cmd.Context(), a, o) },
	}
	serveFlags(cmd, &o)
	cmd.Flags().StringVar(&o.log, "log", "", "append the log to this file, not to stderr")
	return cmd
}

// serveFlags adds the flags that serve and service install share.
func serveFlags(cmd *cobra.Command, o *serveOptions) {
	cmd.Flags().StringArrayVar(&o.listen, "listen", nil, "unix:PATH or a loopback HOST:PORT; may be repeated")
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "only answer questions: change nothing, run no agents")
	durationFlag(cmd, &o.keepWork, "keep-work", server.KeepWork, "how long to keep the work of agents")
	cmd.Flags().StringArrayVar(&o.keep, "keep-transcripts", nil, "record the texts and actions of this team's interactive agents; may be repeated")
	must(cmd.RegisterFlagCompletionFunc("keep-transcripts", cobra.NoFileCompletions))
	asFlag(cmd, &o.as, api.Guest, `the name under which sessions list you, so that their agents can write to you first; "" is none`)
	must(cmd.RegisterFlagCompletionFunc("as", cobra.NoFileCompletions))
	modeMapFlag(cmd, &o.modes)
	o.alerts.flags(cmd)
}

func (o serveOptions) check() error {
	if o.as != "" {
		if err := teams.CheckName("member", o.as); err != nil {
			return err
		}
	}
	if _, err := o.alerts.destinations(nil); err != nil {
		return err
	}
	if o.keepWork <= 0 {
		return usage("", "--keep-work %s is not positive", o.keepWork)
	}
	for _, team := range o.keep {
		if err := teams.CheckName("team", team); err != nil {
			return err
		}
	}
	return nil
}

// serving is the output of serve when it is ready.
type serving struct {
	Listen []string `json:"listen"`
	Token  string   `json:"token,omitempty"` // its file; only for TCP
}

func runService(ctx context.Context, a *app, o serveOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.log != "" {
		log, err := openLog(o.log)
		if err != nil {
			return err
		}
		a.stderr = log // until the process ends: the last lines of the log come after this function
	}
	usual := debug.SetGCPercent(50) // until the service has settled, so that its start takes no more memory than its run
	defer debug.SetGCPercent(usual)
	a.queueErrors() // so that neither relays nor requests wait for a reader of the log
	root, err := a.root()
	if err != nil {
		return err
	}
	payloads, err := payloads(a, o.modes)
	if err != nil {
		return err
	}
	home, _ := a.home() // without one, files for browsers are in the state directory
	to, err := o.alerts.destinations(nil)
	if err != nil {
		return err
	}
	alerts := service.Alerts{To: to, LookupEnv: a.lookup, Gather: a.gather}
	if o.alerts.text {
		alerts.Text = textOf
	}
	s, err := server.New(server.Options{
		Root: root, State: a.state, Home: home, Listen: o.listen, ReadOnly: o.readOnly, KeepWork: o.keepWork, KeepTranscripts: o.keep, As: o.as, Payloads: payloads, Version: build(), DialHub: dialHub(a), Log: logger(a),
		Page: page.Handler(), Env: agentEnvironment(os.Environ(), to), Alerts: alerts, Lock: lockedfile.Options{Wait: a.wait, Hold: a.hold},
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	told := make(chan error, 1)
	go func() {
		told <- announceReady(running, a, s, func() {
			debug.SetGCPercent(usual)
			process.GiveBack() // memory that only the start needed
		})
		stop() // without this output, the address would be unknown
	}()
	err = s.Run(running)
	stop()
	err = errors.Join(err, <-told)
	there, ok := errors.AsType[*server.RunningError](err)
	if !ok {
		return err
	}
	hint := "use it, or end it first"
	if there.OtherState {
		hint = "end it first, or use its --state-dir"
	}
	return &api.Decided{Err: there, Code: api.CodeRefused, Hint: hint}
}

// maxLog is the size at which a log is renamed before it is opened.
const maxLog = 8 << 20

// openLog opens a log to append to. It first renames a log over maxLog, and keeps one such old log.
func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("move the log away: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, nil
}

// agentEnvironment returns the environment of agents: without NOTIFY_SOCKET, so that they cannot notify systemd, and
// without the addresses of alerts.
func agentEnvironment(all []string, alerts []alert.Destination) []string {
	return slices.DeleteFunc(all, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "NOTIFY_SOCKET" || slices.ContainsFunc(alerts, func(d alert.Destination) bool { return d.Variable == name && name != "" })
	})
}

// settles is how long a service runs before it counts as settled.
const settles = 5 * time.Second

// announceReady prints where the service listens, and calls settled a while later. It notifies systemd of the start
// and, when ctx ends, of the stop.
func announceReady(ctx context.Context, a *app, s *server.Server, settled func()) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.Ready():
	}
	where := serving{Listen: s.Addrs()}
	for _, l := range where.Listen {
		if !strings.HasPrefix(l, "unix:") {
			where.Token = api.TokenPath(a.state)
		}
	}
	var err error
	if a.json {
		err = a.printJSON(where)
	} else {
		for _, l := range where.Listen {
			err = errors.Join(err, a.printf("serving %s\n", escape(l, false)))
		}
	}
	if err != nil {
		return err
	}
	if where.Token != "" {
		a.note("requests over TCP need the token in %s", where.Token)
	}
	socket, _ := a.lookup("NOTIFY_SOCKET")
	if err := supervisor.Notify(socket, "READY=1"); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(cmp.Or(a.settles, settles)):
		settled()
	}
	<-ctx.Done()
	return supervisor.Notify(socket, "STOPPING=1")
}

// logger writes the service's log to stderr, as key=value or JSON.
func logger(a *app) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo}
	if a.verbose {
		opts.Level = slog.LevelDebug
	}
	if a.json {
		return slog.New(slog.NewJSONHandler(a.stderr, opts))
	}
	return slog.New(slog.NewTextHandler(a.stderr, opts))
}
