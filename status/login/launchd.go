package login

import (
	"context"
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
//   - It is started again unless it has ended by itself without an error. launchd waits 10 s after each start; it cannot
//     be told which errors another start would not help.
//   - ExitTimeOut lets agents finish their turns.
//   - ProcessType Interactive: they run as fast as in a terminal.
type launchd struct {
	domain string // gui/UID
	poll   time.Duration
}

// LaunchAgent returns the agent of a user of macOS. log is the file that it logs to.
func LaunchAgent(home string, uid int, log string) Item {
	return Item{
		Path:   filepath.Join(home, "Library", "LaunchAgents", name+".plist"),
		Log:    log,
		system: launchd{domain: "gui/" + strconv.Itoa(uid), poll: 100 * time.Millisecond},
	}
}

func (launchd) name() string              { return "launchd" }
func (launchd) program() string           { return "launchctl" }
func (launchd) encode(text string) []byte { return []byte(text) }
func (launchd) decode(data []byte) string { return string(data) }
func (l launchd) target() string          { return l.domain + "/" + name }

func (launchd) text(i Item, command, env []string) (string, error) {
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
`, mark, name, words.String(), variables.String(), escape(i.Log)), nil
}

// start has launchd read the file, which it does only once it has forgotten the one before.
func (l launchd) start(ctx context.Context, i Item, changed bool) error {
	if state, err := l.state(ctx, i); err == nil && state == "running" && !changed {
		return nil
	}
	if err := l.stop(ctx, i); err != nil {
		return err
	}
	_, err := i.run(ctx, "bootstrap", l.domain, i.Path)
	return err
}

// stop waits until launchd does not know the agent any more: bootout can return while it still ends.
func (l launchd) stop(ctx context.Context, i Item) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, known := i.run(ctx, "print", l.target()); known != nil {
		if errors.Is(known, exec.ErrNotFound) {
			return known
		}
		return ctx.Err()
	}
	_, failed := i.run(ctx, "bootout", l.target())
	for {
		if _, err := i.run(ctx, "print", l.target()); err != nil && ctx.Err() == nil {
			return nil
		}
		if failed != nil && !strings.Contains(failed.Error(), "in progress") {
			return failed
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has not ended: %w", l.target(), context.Cause(ctx))
		case <-time.After(l.poll):
		}
	}
}

// restart lets the service end by itself: kickstart -k would kill it.
func (l launchd) restart(ctx context.Context, i Item) error { return l.start(ctx, i, true) }

func (l launchd) state(ctx context.Context, i Item) (string, error) {
	out, err := i.run(ctx, "print", l.target())
	for line := range strings.Lines(out) {
		if state, ok := strings.CutPrefix(strings.TrimSpace(line), "state = "); ok {
			return state, err
		}
	}
	return "", err
}

func (launchd) logs(i Item, follow bool, lines int) []string {
	args := []string{"tail", "-n", strconv.Itoa(lines)}
	if follow {
		args = append(args, "-F")
	}
	return append(args, i.Log)
}

func (launchd) hint(err error) string {
	if strings.Contains(err.Error(), "Domain does not support") || strings.Contains(err.Error(), "Could not find domain") {
		return "log in at the screen of this Mac: launchd runs agents of a user there, and not over ssh alone"
	}
	return ""
}
