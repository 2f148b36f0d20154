package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

const unitName = "teambridge.service"

// unitMark is the first line of a unit that we wrote. Others are not touched.
const unitMark = "# Written by \"teambridge service install\", which writes it anew; \"teambridge service uninstall\" removes it."

// unit has what the systemd unit of the service needs; see systemd.service(5),
// systemd.exec(5) and systemd.kill(5).
type unit struct {
	binary string
	args   []string // of serve
	env    []string // of the service, as "NAME=value": $PATH, for claude and the agents' tools
}

// text is the content of the unit file.
//
//   - KillMode=mixed signals only the service, which lets its agents finish their turns.
//     control-group would end agents in mid-turn.
//   - OOMPolicy=continue: an agent that uses up the memory does not end the others.
//   - There is no sandbox and no UMask: they would apply to the agents too, which must be
//     able to do what they can do in a terminal.
func (u unit) text() (string, error) {
	command := append([]string{u.binary, "serve"}, u.args...)
	for i, arg := range command {
		quoted, err := unitQuote(arg, i > 0)
		if err != nil {
			return "", err
		}
		command[i] = quoted
	}
	env := slices.Clone(u.env)
	for i, v := range env {
		quoted, err := unitQuote(v, false)
		if err != nil {
			return "", err
		}
		env[i] = quoted
	}
	return fmt.Sprintf(`%s
[Unit]
Description=teambridge: messages into and out of Claude Code agent teams
StartLimitIntervalSec=60
StartLimitBurst=10

[Service]
Type=notify
ExecStart=%s
Environment=%s
Restart=on-failure
RestartSec=1
# A mistake in the command line, no Claude directory, a service that runs already:
# starting it again would not help.
RestartPreventExitStatus=2 3 5
# The service alone is told to end, and lets its agents finish their turns first.
KillMode=mixed
TimeoutStopSec=90
OOMPolicy=continue
# No sandbox: agents run in here.

[Install]
WantedBy=default.target
`, unitMark, strings.Join(command, " "), strings.Join(env, " ")), nil
}

// unitQuote quotes s as one word of a unit file. $ is special only in the arguments of a
// command.
func unitQuote(s string, argument bool) (string, error) {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "", usage("choose a path without control characters", "%q has a control character, which a unit file cannot hold", s)
	}
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(s)
	if argument {
		s = strings.ReplaceAll(s, "$", "$$")
	}
	return `"` + s + `"`, nil
}

func (a *app) unitPath() (string, error) {
	dir, ok := a.lookup("XDG_CONFIG_HOME")
	if !ok || !filepath.IsAbs(dir) {
		home, err := a.home()
		if err != nil {
			return "", fmt.Errorf("find the directory of systemd's user units: %w", err)
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "systemd", "user", unitName), nil
}
