// Package supervisor makes the system start the service, or a hub, at login and keep it running: as a user unit
// of systemd, as a launchd agent on macOS, or as a task of the Task Scheduler on Windows. The last two have
// never run on a real system: the tests use substitutes for launchctl and schtasks.
//
// github.com/kardianos/service 1.3.0 does not suit. On Windows, it only installs system services, which needs an
// administrator; they run as another user, without the person's login, files and programs. On macOS, it does not
// replace an earlier installation, and does not wait until the old process has ended. On Linux, it refuses to install
// again, overwrites files that it has not written, and cannot just write the file.
package supervisor

import (
	"bytes"
	"context"
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

// Job is a program that the system keeps running. [Service], [Hub], [LaunchAgent] and [ScheduledTask] return one.
type Job struct {
	System   string                           // the supervisor: "systemd", "launchd" or "tasks"
	Name     string                           // its name for the supervisor
	Path     string                           // the file that describes it
	Log      string                           // its log file; empty if the supervisor keeps the log
	Notifies bool                             // Install and Restart return only when it is ready
	Debug    func(format string, args ...any) // receives each command; may be nil

	command    string // the command that installs and uninstalls it, as "teambridge service"
	byHand     string // the command that runs it without a supervisor
	shows      string // the command that shows its log
	notes      [2]string
	notStopped string
	system     system
}

// system is the part of a supervisor that differs between systems.
type system interface {
	program() string // the program that controls it
	mark(words string) string
	text(j Job, command, env []string) (string, error)
	encode(text string) []byte // returns text as the system reads it
	decode(data []byte) string
	start(ctx context.Context, j Job, was string, changed bool) error // was is the text before
	stop(ctx context.Context, j Job) (stopped bool, err error)        // also prevents a restart; the job need not run
	removed(ctx context.Context, j Job, stopped bool) error           // is called after its file was removed
	restart(ctx context.Context, j Job) error
	state(ctx context.Context, j Job) (string, error)
	logs(j Job, follow bool, lines int) []string
	hint(j Job, err error) string // what to do after a failure; empty if unknown
}

// mark returns the line by which teambridge recognizes its own files. It never changes other files.
func (j Job) mark() string {
	return j.system.mark(fmt.Sprintf("Written by \"%s install\", which overwrites it; \"%[1]s uninstall\" removes it.", j.command))
}

// Text returns the content of the file for a command. env has additions to its environment, as "NAME=value".
func (j Job) Text(command, env []string) (string, error) {
	command = append([]string{}, command...)
	if j.Log != "" {
		command = append(command, "--log", j.Log)
	}
	for _, word := range append(append([]string{}, command...), env...) {
		if err := plain(word); err != nil {
			return "", err
		}
	}
	return j.system.text(j, command, env)
}

// plain refuses a word with characters that the files cannot hold.
func plain(word string) error {
	if !utf8.ValidString(word) || strings.ContainsFunc(word, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }) {
		return api.Decide(api.CodeUsage, "choose a path without it", "%q has a character that such a file cannot hold", word)
	}
	return nil
}

// Read returns the content of the file. It refuses a file that teambridge has not written.
func (j Job) Read() (string, error) {
	info, err := os.Lstat(j.Path)
	if err != nil {
		return "", err
	}
	text := ""
	if info.Mode().IsRegular() {
		data, err := os.ReadFile(j.Path)
		if err != nil {
			return "", err
		}
		text = j.system.decode(data)
	}
	if !strings.Contains(text, j.mark()+"\n") {
		return "", api.Decide(api.CodeRefused, "move it away, or edit it by hand", "%s was not written by teambridge", j.Path)
	}
	return text, nil
}

// Install writes text to the file. With start, it also starts the job, or restarts it if the text has changed.
func (j Job) Install(ctx context.Context, text string, start bool) (api.Installed, error) {
	done := api.Installed{Unit: j.Path}
	was, err := j.Read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, err
	}
	if done.Changed = was != text; done.Changed {
		for _, file := range []string{j.Path, j.Log} {
			if file == "" {
				continue
			}
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				return done, err
			}
		}
		if err := atomicfile.Write(j.Path, j.system.encode(text)); err != nil {
			return done, err
		}
	}
	if !start {
		return done, nil
	}
	if err := j.system.start(ctx, j, was, done.Changed); err != nil {
		return done, j.failed(err, "%s is written, but %s did not start it: %w", j.Path, j.System, err)
	}
	done.Started = true
	return done, nil
}

// Restart ends the running job, and starts the program in the file as it is installed now.
func (j Job) Restart(ctx context.Context) error {
	if _, err := j.Read(); errors.Is(err, fs.ErrNotExist) {
		return api.Decide(api.CodeNotFound, fmt.Sprintf("if you started it yourself, end it, and start it again: %s; or let the system run it: %s install", j.byHand, j.command), "%s does not exist", j.Path)
	} else if err != nil {
		return err
	}
	if err := j.system.restart(ctx, j); err != nil {
		return j.failed(err, "%s did not restart it: %w", j.System, err)
	}
	return nil
}

// Uninstall ends the job, and removes the file. stopped is false if systemd cannot be reached from this session.
func (j Job) Uninstall(ctx context.Context) (done api.Uninstalled, stopped bool, err error) {
	done.Unit = j.Path
	if _, err := j.Read(); errors.Is(err, fs.ErrNotExist) {
		return done, true, nil
	} else if err != nil {
		return done, false, err
	}
	// Stop before removing the file, which says how the job is to be stopped.
	if stopped, err = j.system.stop(ctx, j); err != nil {
		return done, false, j.failed(err, "%s did not stop %s, and nothing was removed: %w", j.System, j.Name, err)
	}
	if err = os.Remove(j.Path); err == nil {
		err = j.system.removed(ctx, j, stopped)
	}
	done.Removed = err == nil
	return done, stopped, err
}

// State returns the supervisor's word for the state of the job, such as active or running.
func (j Job) State(ctx context.Context) (string, error) { return j.system.state(ctx, j) }

// Note returns the advice after an installation: how to keep the job running, or how to start it.
func (j Job) Note(done api.Installed) string {
	if done.Started {
		return j.notes[1]
	}
	return j.notes[0]
}

// NotStopped returns the warning for a job that [Job.Uninstall] could not stop.
func (j Job) NotStopped() string { return j.notStopped }

// LogCommand returns the command that shows the end of the log.
func (j Job) LogCommand(follow bool, lines int, json bool) ([]string, error) {
	if j.Log == "" {
		command := j.system.logs(j, follow, lines)
		if json {
			command = append(command, "--output", "json")
		}
		return command, nil
	}
	if json {
		return nil, api.Decide(api.CodeUsage, "omit --json", "the log is text: %s", j.Log)
	}
	if _, err := os.Stat(j.Log); errors.Is(err, fs.ErrNotExist) {
		return nil, api.Decide(api.CodeNotFound, "install it: "+j.command+" install", "there is no log yet: %s does not exist", j.Log)
	}
	return j.system.logs(j, follow, lines), nil
}

// failed returns the error for a failure of the supervisor, with a hint.
func (j Job) failed(err error, format string, args ...any) error {
	hint := "see why with: " + j.shows
	if errors.Is(err, exec.ErrNotFound) {
		hint = fmt.Sprintf("there is no %s here: run %q another way", j.system.program(), j.byHand)
	} else if known := j.system.hint(j, err); known != "" {
		hint = known
	}
	return &api.Decided{Err: fmt.Errorf(format, args...), Code: api.CodeError, Hint: hint}
}

// patience limits each command. That includes the time in which the job's agents finish their turns.
const patience = 2 * time.Minute

// run runs the supervisor's program, and returns its output.
func (j Job) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	program := j.system.program()
	if j.Debug != nil {
		j.Debug("%s %s", program, strings.Join(args, " "))
	}
	cmd := exec.CommandContext(ctx, program, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // more useful than "killed"
	}
	if text := strings.TrimSpace(said.String()); text != "" {
		lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
		err = fmt.Errorf("%s: %w", strings.Join(lines, "; "), err)
	}
	return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
}
