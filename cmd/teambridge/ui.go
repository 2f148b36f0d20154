package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/server"
)

func newUI(a *app) *cobra.Command {
	only := false
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the page of the service in a browser",
		Long: `Open the page of the running service in a browser, signed in: teams and members,
what they are doing, conversations, and a box to write in.

The address that is opened, or printed, signs one browser in, once, within a
minute, for a week; with --json it is printed. Remove api.token in the state directory, and start the service
again, to sign all of them out.

The service has to listen on a loopback address:

  teambridge serve --listen 127.0.0.1:7420

Exit status: 0 opened or printed; 1 the service did not answer; 3 no service is
running; 5 it listens on a unix socket alone.`,
		Example: `  teambridge ui
  teambridge ui --print`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.ui(cmd.Context(), only) },
	}
	cmd.Flags().BoolVar(&only, "print", false, "print the address, and open nothing")
	return cmd
}

func (a *app) ui(ctx context.Context, only bool) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	defer root.Close()
	state, err := a.state()
	if err != nil {
		return err
	}
	_, listen, found := server.Running(state, root.Path())
	if !found {
		return notFound("start one: teambridge serve --listen 127.0.0.1:7420", "no service is running for %s", root.Path())
	}
	in, err := signIn(ctx, state, listen)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(in)
	}
	if !only {
		if err := a.browse(ctx, in.URL); err == nil {
			clean, _, _ := strings.Cut(in.URL, "?")
			return a.printf("opened %s\n", clean)
		} else if !errors.Is(err, errNoScreen) {
			a.note("no browser could be opened: %v", err)
		}
		a.note("open this within a minute; it works once")
	}
	return a.printf("%s\n", in.URL)
}

// signIn asks a service that listens there for an address that opens its page.
func signIn(ctx context.Context, state string, listen []string) (in api.SignIn, err error) {
	network, address, token := "", "", ""
	for _, l := range listen {
		if path, unix := strings.CutPrefix(l, "unix:"); unix {
			network, address = "unix", path
			break
		}
		network, address = "tcp", l
	}
	if network == "tcp" {
		data, err := os.ReadFile(server.TokenPath(state))
		if err != nil {
			return in, fmt.Errorf("read the token of the service: %w", err)
		}
		token = strings.TrimSpace(string(data))
	}
	defer func() {
		if netErr, ok := errors.AsType[*url.Error](err); ok && ctx.Err() == nil {
			err = &api.Decided{
				Err: fmt.Errorf("the service at %s does not answer: %w", address, netErr.Err), Code: api.CodeError,
				Hint: "if it ended without a word, start it again: teambridge serve --listen 127.0.0.1:7420",
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/v1/sign-in", nil)
	if err != nil {
		return in, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	res, err := client.Do(req)
	if err != nil {
		return in, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return in, err
	}
	if res.StatusCode != http.StatusCreated {
		var p api.Problem
		if json.Unmarshal(body, &p) != nil || p.Code == "" {
			return in, fmt.Errorf("the service at %s answered %s: is it an older one?", address, res.Status)
		}
		return in, api.Decide(p.Code, p.Hint, "%s", p.Detail)
	}
	return in, json.Unmarshal(bytes.TrimSpace(body), &in)
}

// errNoScreen says that there is nothing a browser could be shown on.
var errNoScreen = errors.New("there is no screen")

// settle is how long the program that opens a browser may take to say that it
// cannot. Where there is no desktop it may be the browser, and go on.
const settle = 2 * time.Second

// browse opens an address in the person's browser.
func (a *app) browse(ctx context.Context, address string) error {
	cmd, err := opener(a.lookup, address)
	if err != nil {
		return err
	}
	// Not of ctx: what it opens stays when this ends.
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(settle):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
