// Package login has macOS or Windows run the service from login on, as [teambridge/status/systemd] has Linux do it: by a
// launchd agent, or a task of the Task Scheduler. It was built for both, and run on neither: the tests have programs that
// stand in for launchctl and schtasks.
//
// The package github.com/kardianos/service was looked at (1.3.0). It installs services of Windows alone, which takes an
// administrator, and which run as another user: agents would not have the person's login, files and programs. On
// macOS it replaces nothing that it has installed before, and does not wait until what it has ended is gone.
package login

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"teambridge/status/api"
	"teambridge/teams/atomicfile"
)

// Item is what the system runs: made by [LaunchAgent] or [ScheduledTask].
type Item struct {
	Path  string                           // of the file that describes it
	Log   string                           // the file that the service logs to
	Debug func(format string, args ...any) // receives each command; may be nil

	system system
}

// system is what differs between the two.
type system interface {
	name() string
	program() string // the command that controls it
	text(i Item, command, env []string) (string, error)
	encode(text string) []byte // as the system reads it
	decode(data []byte) string
	start(ctx context.Context, i Item, changed bool) error // ends what runs, if that is another one
	stop(ctx context.Context, i Item) error                // it need not run; the system does not start it again
	restart(ctx context.Context, i Item) error
	state(ctx context.Context, i Item) (string, error)
	logs(i Item, follow bool, lines int) []string
	hint(err error) string // what to do after it has failed; "" if that is not known
}

const (
	name    = "teambridge" // of the agent, and of the task
	install = "teambridge service install"
)

// mark is in each file that we wrote. Others are not touched.
const mark = `<!-- Written by "` + install + `", which overwrites it; "teambridge service uninstall" removes it. -->`

// System is what runs it: "launchd" or "tasks".
func (i Item) System() string { return i.system.name() }

// File is the path of the file that describes it.
func (i Item) File() string { return i.Path }

// Notifies says that Install and Restart return only when the service is ready. It is not so here.
func (i Item) Notifies() bool { return false }

// Text returns the content of the file, for a command and variables that are added to its environment, as "NAME=value".
func (i Item) Text(command, env []string) (string, error) {
	for _, word := range append(append([]string{}, command...), env...) {
		if !utf8.ValidString(word) || strings.ContainsFunc(word, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }) {
			return "", api.Decide(api.CodeUsage, "choose a path without it", "%q has a character that such a file cannot hold", word)
		}
	}
	// What is printed before there is a log.
	return i.system.text(i, append(append([]string{}, command...), "--log", i.Log), env)
}

// Read returns the content of the file, and refuses one that we have not written.
func (i Item) Read() (string, error) {
	info, err := os.Lstat(i.Path)
	if err != nil {
		return "", err
	}
	text := ""
	if info.Mode().IsRegular() {
		data, err := os.ReadFile(i.Path)
		if err != nil {
			return "", err
		}
		text = i.system.decode(data)
	}
	if !strings.Contains(text, mark) {
		return "", api.Decide(api.CodeRefused, "move it away, or edit it by hand", "%s was not written by teambridge", i.Path)
	}
	return text, nil
}

// Install makes text the content of the file. With start, the system starts it too, or starts it again if it was
// another one.
func (i Item) Install(ctx context.Context, text string, start bool) (api.Installed, error) {
	done := api.Installed{Unit: i.Path}
	was, err := i.Read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, err
	}
	if done.Changed = was != text; done.Changed {
		for _, dir := range []string{filepath.Dir(i.Path), filepath.Dir(i.Log)} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return done, err
			}
		}
		if err := atomicfile.Write(i.Path, i.system.encode(text)); err != nil {
			return done, err
		}
	}
	if !start {
		return done, nil
	}
	if err := i.system.start(ctx, i, done.Changed); err != nil {
		return done, &api.Decided{Err: fmt.Errorf("%s is written, but %s did not start it: %w", i.Path, i.System(), err), Code: api.CodeError, Hint: i.hint(err)}
	}
	done.Started = true
	return done, nil
}

// Restart has the system end what runs, and start the program that the file names as it is now.
func (i Item) Restart(ctx context.Context) error {
	if _, err := i.Read(); errors.Is(err, fs.ErrNotExist) {
		return api.Decide(api.CodeNotFound, "if you started it yourself, end it, and start it again: teambridge serve; or let the system run it: "+install, "%s does not exist", i.Path)
	} else if err != nil {
		return err
	}
	if err := i.system.restart(ctx, i); err != nil {
		return &api.Decided{Err: fmt.Errorf("%s did not restart it: %w", i.System(), err), Code: api.CodeError, Hint: i.hint(err)}
	}
	return nil
}

// Uninstall ends it, and removes the file. stopped is true if there is no error.
func (i Item) Uninstall(ctx context.Context) (_ api.Uninstalled, stopped bool, err error) {
	done := api.Uninstalled{Unit: i.Path}
	if _, err := i.Read(); errors.Is(err, fs.ErrNotExist) {
		return done, true, nil
	} else if err != nil {
		return done, false, err
	}
	// While the file is there: without it, nobody would know what runs.
	if err := i.system.stop(ctx, i); err != nil {
		return done, false, &api.Decided{Err: fmt.Errorf("%s did not stop it, and nothing was removed: %w", i.System(), err), Code: api.CodeError, Hint: i.hint(err)}
	}
	if err := os.Remove(i.Path); err != nil {
		return done, true, err
	}
	done.Removed = true
	return done, true, nil
}

// State returns what the system says of it.
func (i Item) State(ctx context.Context) (string, error) { return i.system.state(ctx, i) }

// Note says how an installed item is kept running, or started.
func (i Item) Note(done api.Installed) string {
	if done.Started {
		return "it runs while you are logged in"
	}
	return "it starts at your next login; to start it now: " + install
}

// NotStopped is never said: see [Item.Uninstall].
func (i Item) NotStopped() string { return "" }

// LogCommand is the command that shows the end of the log.
func (i Item) LogCommand(follow bool, lines int, json bool) ([]string, error) {
	if json {
		return nil, api.Decide(api.CodeUsage, "omit --json", "the log is text: %s", i.Log)
	}
	if _, err := os.Stat(i.Log); errors.Is(err, fs.ErrNotExist) {
		return nil, api.Decide(api.CodeNotFound, "install it: "+install, "there is no log yet: %s does not exist", i.Log)
	}
	return i.system.logs(i, follow, lines), nil
}

func (i Item) hint(err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Sprintf("there is no %s here: run \"teambridge serve\" another way", i.system.program())
	}
	if hint := i.system.hint(err); hint != "" {
		return hint
	}
	return "see why with: teambridge service logs"
}

// patience bounds each command, and how long the service may take to end: its agents finish their turns.
const patience = 2 * time.Minute

// run runs the program of the system, and returns what it prints.
func (i Item) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	program := i.system.program()
	if i.Debug != nil {
		i.Debug("%s %s", program, strings.Join(args, " "))
	}
	cmd := exec.CommandContext(ctx, program, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	if text := strings.Join(strings.Fields(said.String()), " "); text != "" {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
}

// escape is s as text of an XML file.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // to a Builder
	return b.String()
}
