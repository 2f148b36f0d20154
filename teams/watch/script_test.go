package watch

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"teambridge/teams/winetest"
)

// TestScripts runs the scripts of testdata. Each is an archive with a comment, the file "script", and the file
// "events" with the events of each line.
//
// A line is a command and its paths, below the root of a new Claude directory that has an empty folder teams:
//
//	mkdir PATH           with all above it
//	write PATH TEXT      truncate and write in place
//	replace PATH TEXT    write another file and rename it over this one
//	rename PATH PATH
//	remove PATH          a file or an empty directory
//	remove-all PATH
//	chmod PATH           to 0400
//
// The events of a line follow it. After each line, an inbox of the test is changed, and once its event is there, the
// events of the line are complete.
func TestScripts(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "polls find no order")
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(script)
			must(t, err)
			parts := map[string]string{}
			for _, f := range archive.Files {
				parts[f.Name] = string(f.Data)
			}
			p := newClaude(t)
			p.mkdir("teams")
			w := New(patient(p)) // on a busy machine, one write has several events
			var g gate
			w.open = g.open
			b := newBarrier(p, w)
			b.settled = true
			var got strings.Builder
			for line := range strings.Lines(parts["script"]) {
				got.WriteString("> " + line)
				g.Lock()
				p.command(strings.Fields(line))
				g.Unlock()
				for _, e := range b.wait() {
					got.WriteString(e + "\n")
				}
			}
			if diff := cmp.Diff(parts["events"], got.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s\ngot:\n%s", script, diff, &got)
			}
		})
	}
}

// gate holds events back while it is locked, so that a file that is written in place is not read before it is
// complete. It has none on Windows.
type gate struct {
	sync.Mutex
	source
	passed chan fsnotify.Event
}

func (g *gate) open() (s source, err error) {
	if g.source, err = openKernel(); err != nil || g.source == nil {
		return nil, err
	}
	g.passed = make(chan fsnotify.Event)
	go func() {
		defer close(g.passed)
		for e := range g.source.events() {
			g.Lock()
			//lint:ignore SA2001 only to wait
			g.Unlock()
			g.passed <- e
		}
	}()
	return g, nil
}

func (g *gate) events() <-chan fsnotify.Event { return g.passed }

func (g *gate) Close() error {
	err := g.source.Close()
	for range g.passed { // the events that were not read
	}
	return err
}

// command runs one line of a script.
func (p *claude) command(line []string) {
	p.t.Helper()
	arg := func(i int) string { return p.path(line[i]) }
	switch line[0] {
	case "mkdir":
		p.mkdir(line[1])
	case "write":
		p.write(arg(1), line[2])
	case "replace":
		p.replace(arg(1), line[2])
	case "rename":
		p.must(os.Rename(arg(1), arg(2)))
	case "remove":
		p.must(os.Remove(arg(1)))
	case "remove-all":
		p.must(os.RemoveAll(arg(1)))
	case "chmod":
		p.must(os.Chmod(arg(1), 0o400))
	default:
		p.t.Fatalf("no such command: %s", line)
	}
}
