package server

import (
	"context"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"time"

	"teambridge/status/view"
)

// The arguments of a program can be read by every user of the machine, so a browser is not
// given the URL with the code, but a file that only the user can read, which forwards to it.

// signInFiles matches the names of these files. They are not hidden, since browsers that run
// in a sandbox, such as those of Ubuntu, may read no hidden files of the home directory.
const signInFiles = "teambridge-sign-in-*.html"

// forward makes a file that sends a browser to a URL, in the first directory that it can be in.
func forward(to string, dirs ...string) (path string, err error) {
	var f *os.File
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if f, err = os.CreateTemp(dir, signInFiles); err == nil { // with mode 0600
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("server: make a file that signs a browser in: %w", err)
	}
	_, err = fmt.Fprintf(f, `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%[1]s">
<title>teambridge</title>
<a href="%[1]s">Open teambridge</a>
`, html.EscapeString(to))
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("server: write %s: %w", f.Name(), err)
	}
	return f.Name(), nil
}

// sweepForwards removes the files of services that were killed, and at the end those of this one.
func (s *Server) sweepForwards(ctx context.Context) error {
	for _, dir := range []string{s.opts.Home, s.opts.State} {
		if dir == "" {
			continue
		}
		files, _ := filepath.Glob(filepath.Join(dir, signInFiles)) // the pattern is right
		for _, path := range files {
			// Another service may have made it just now.
			if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > codeLife {
				if err := os.Remove(path); err != nil {
					s.log.Warn("a file with an old code was not removed", "err", view.Describe(err))
				}
			}
		}
	}
	<-ctx.Done()
	s.codes.clear()
	return nil
}
