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

// Every user of the machine can read the arguments of a program. So a browser gets not the URL with the code, but a
// file that forwards to it, which only the user can read.

// signInFiles matches the names of these files. They are not hidden, since browsers in a sandbox, as on Ubuntu, cannot
// read hidden files of the home directory.
const signInFiles = "teambridge-sign-in-*.html"

// forward creates a file that sends a browser to a URL, in the first directory where that works.
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

// sweepForwards removes the files of killed services and, when ctx ends, the files of this service.
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
