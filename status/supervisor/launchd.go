package supervisor

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// launchd runs an agent of the user; see launchd.plist(5) and launchctl(1).
//
//   - It is started again, 10 s after the last start, unless it has ended without an error. launchd has no setting
//     for exit statuses after which a restart is useless.
//   - ExitTimeOut lets agents finish their turns.
//   - ProcessType Interactive: they run as fast as in a terminal.
type launchd struct {
	domain string // gui/UID
	poll   time.Duration
}

// LaunchAgent returns the job of the service on macOS, an agent of the user. log is its log file.
func LaunchAgent(home string, uid int, log string) Job {
	return atLogin("launchd", filepath.Join(home, "Library", "LaunchAgents", name+".plist"), log, launchd{domain: "gui/" + strconv.Itoa(uid), poll: 100 * time.Millisecond})
}

const name = "teambridge" // of the agent, and of the task

// atLogin returns the job of the service on a system that cannot wait until the service is ready, and keeps no log.
func atLogin(system, path, log string, s system) Job {
	return Job{
		System: system, Name: name, Path: path, Log: log, system: s,
		command: "teambridge service", shows: "teambridge service logs", byHand: "teambridge serve",
		notes: [2]string{"it starts at your next login; to start it now: teambridge service install", "it runs while you are logged in"},
	}
}

// comment returns words as an XML comment.
func comment(words string) string { return "<!-- " + words + " -->" }

func (launchd) program() string           { return "launchctl" }
func (launchd) mark(words string) string  { return comment(words) }
func (launchd) encode(text string) []byte { return []byte(text) }
func (launchd) decode(data []byte) string { return string(data) }
func (l launchd) target() string          { return l.domain + "/" + name }

func (launchd) text(j Job, command, env []string) (string, error) {
	var words, variables strings.Builder
	for _, arg := range command {
		fmt.Fprintf(&words, "\t\t<string>%s</string>\n", escape(arg))
	}
	for _, v := range env {
		key, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&variables, "\t\t<key>%s</key>\n\t\t<string>%s</string>\n", escape(key), escape(value))
	}
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
%s
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>%s</string>
	<key>ProgramArguments</key>
	<array>
%s	</array>
	<key>EnvironmentVariables</key>
	<dict>
%s	</dict>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ExitTimeOut</key>
	<integer>90</integer>
	<key>ProcessType</key>
	<string>Interactive</string>
	<key>StandardOutPath</key>
	<string>/dev/null</string>
	<key>StandardErrorPath</key>
	<string>%s</string>
</dict>
</plist>
`, j.mark(), name, words.String(), variables.String(), escape(j.Log)), nil
}

// start makes launchd read the file. If the file has changed, launchd must first unload the old one.
func (l launchd) start(ctx context.Context, j Job, _ string, changed bool) error {
	if state, err := l.state(ctx, j); err == nil && state == "running" && !changed {
		return nil
	}
	if _, err := l.stop(ctx, j); err != nil {
		return err
	}
	_, err := j.run(ctx, "bootstrap", l.domain, j.Path)
	return err
}

// stop unloads the agent, and waits until that is done: bootout can return before the agent has ended.
func (l launchd) stop(ctx context.Context, j Job) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, known := j.run(ctx, "print", l.target()); known != nil {
		if errors.Is(known, exec.ErrNotFound) {
			return false, known
		}
		return true, ctx.Err()
	}
	_, failed := j.run(ctx, "bootout", l.target())
	for {
		if _, err := j.run(ctx, "print", l.target()); err != nil && ctx.Err() == nil {
			return true, nil
		}
		if failed != nil && !strings.Contains(failed.Error(), "in progress") {
			return false, failed
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("%s has not ended: %w", l.target(), context.Cause(ctx))
		case <-time.After(l.poll):
		}
	}
}

func (launchd) removed(context.Context, Job, bool) error { return nil }

// restart lets the service end gracefully: kickstart -k would kill it.
func (l launchd) restart(ctx context.Context, j Job) error { return l.start(ctx, j, "", true) }

func (l launchd) state(ctx context.Context, j Job) (string, error) {
	out, err := j.run(ctx, "print", l.target())
	for line := range strings.Lines(out) {
		if state, ok := strings.CutPrefix(strings.TrimSpace(line), "state = "); ok {
			return state, err
		}
	}
	return "", err
}

func (launchd) logs(j Job, follow bool, lines int) []string {
	args := []string{"tail", "-n", strconv.Itoa(lines)}
	if follow {
		args = append(args, "-F")
	}
	return append(args, j.Log)
}

func (launchd) hint(_ Job, err error) string {
	if strings.Contains(err.Error(), "Domain does not support") || strings.Contains(err.Error(), "Could not find domain") {
		return "log in at the screen of this Mac: launchd runs agents of a user there, and not over ssh alone"
	}
	return ""
}

// escape escapes s as XML text.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return b.String()
}
