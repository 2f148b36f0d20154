package main

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
)

func newUI(a *app) *cobra.Command {
	only := false
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the web page of the service",
		Long: `Open the web page of the running service in a browser, signed in.

The page shows teams, members, their states and conversations, and sends
messages. The printed address signs in one browser, once, within a minute; the
session lasts a week. Since other users can read the arguments of a browser, the
browser gets a file in your home directory that only you can read and that
forwards to the address; the service removes the file after use.

With --host, the page of that service is served on a loopback port here, until
Ctrl+C ends the command. ssh must work without asking questions.

To end all sessions, remove api.token from the state directory; the service then
creates another one. It must listen on a loopback address ("teambridge serve
--listen 127.0.0.1:7420").

Exit status: 0 opened or printed; 1 unexpected answer; 3 no service is running;
4 the service does not answer; 5 it listens on a unix socket only.`,
		Example: `  teambridge ui
  teambridge ui --print`,
		RunE: func(cmd *cobra.Command, _ []string) error { return openPage(cmd.Context(), a, only) },
	}
	cmd.Flags().BoolVar(&only, "print", false, "print the address instead of opening it")
	return cmd
}

func openPage(ctx context.Context, a *app, only bool) error {
	only = only || a.json
	if a.there != nil {
		return openPageThere(ctx, a, only)
	}
	in, err := signIn(ctx, a, !only)
	if err != nil {
		return err
	}
	return openAddress(ctx, a, in, only)
}

// openPageThere serves the page of the --host on this machine, until ctx ends.
func openPageThere(ctx context.Context, a *app, only bool) error {
	c, err := a.dial(ctx, true)
	if err != nil {
		return err
	}
	p := server.Proxy{To: c}
	if !only {
		p.Dirs = []string{a.state}
		if home, err := a.home(); err == nil {
			p.Dirs = []string{home, a.state}
		}
	}
	return p.Run(ctx, func(in api.SignIn) error {
		err := openAddress(ctx, a, in, only)
		a.note("the page of %s is here until this command ends", a.where())
		return err
	})
}

// openAddress opens an address that signs in or, with only, prints it.
func openAddress(ctx context.Context, a *app, in api.SignIn, only bool) error {
	if a.json {
		return a.printJSON(in)
	}
	if !only {
		err := browse(ctx, a.lookup, fileURL(in.File))
		if err == nil {
			clean, _, _ := strings.Cut(in.URL, "?")
			return a.printf("opened %s\n", clean)
		}
		if ctx.Err() != nil {
			return err
		}
		a.note("no browser could be opened: %v", err)
		a.note("open this address within a minute; it works once")
	}
	return a.printf("%s\n", in.URL)
}

// signIn asks the service for an address that signs in to its page and, with file, for a file that forwards to it.
func signIn(ctx context.Context, a *app, file bool) (in api.SignIn, err error) {
	root, err := a.root()
	if err != nil {
		return in, err
	}
	c, err := client.Find(a.state, root.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return in, notFound("start one: teambridge serve --listen 127.0.0.1:7420", "no service is running for %s", root.Path())
	}
	if err != nil {
		return in, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, api.Decide(api.CodeTimeout, "", "the service at %s does not answer", c.Where()))
	defer cancel()
	return c.SignIn(ctx, file)
}

// fileURL returns the URL of a file.
func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/… on Windows
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// browserWait is how long the program that opens a browser has to fail. Without a desktop, it may be the browser
// itself, which keeps running.
const browserWait = 2 * time.Second

// browse opens an address in the person's browser, which stays open after ctx.
func browse(ctx context.Context, lookup func(string) (string, bool), address string) error {
	cmd, err := opener(lookup, address)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(browserWait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
