// Package systemd has systemd run the service as a unit of the user; see systemd.service(5),
// systemd.exec(5), systemd.kill(5) and sd_notify(3).
package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"teambridge/status/api"
	"teambridge/teams/atomicfile"
)

// Name is the name of the unit.
const Name = "teambridge.service"

// mark is the first line of a unit that we wrote. Others are not touched.
const mark = "# Written by \"teambridge service install\", which writes it anew; \"teambridge service uninstall\" removes it."

// Unit is the unit of the service.
type Unit struct {
	Path  string                           // of its file
	Debug func(format string, args ...any) // receives each systemctl command
}

// Path returns the path of the unit's file.
func Path(lookup func(string) (string, bool), home func() (string, error)) (string, error) {
	dir, ok := lookup("XDG_CONFIG_HOME")
	if !ok || !filepath.IsAbs(dir) {
		home, err := home()
		if err != nil {
			return "", fmt.Errorf("find the directory of systemd's user units: %w", err)
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "systemd", "user", Name), nil
}

// Text returns the content of the file of a unit that runs a command with additions to its
// environment, as "NAME=value".
//
//   - KillMode=mixed signals only the service, which lets its agents finish their turns.
//     control-group would end agents in mid-turn.
//   - OOMPolicy=continue: an agent that uses up the memory does not end the others.
//   - There is no sandbox and no UMask: they would apply to the agents too, which must be
//     able to do what they can do in a terminal.
func Text(command, env []string) (string, error) {
	var words, variables []string
	for i, arg := range command {
		quoted, err := quote(arg, i > 0)
		if err != nil {
			return "", err
		}
		words = append(words, quoted)
	}
	for _, v := range env {
		quoted, err := quote(v, false)
		if err != nil {
			return "", err
		}
		variables = append(variables, quoted)
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
# Only the service receives the stop signal. It lets its agents finish their turns.
KillMode=mixed
TimeoutStopSec=90
OOMPolicy=continue
# No sandbox: agents run in here.

[Install]
WantedBy=default.target
`, mark, strings.Join(words, " "), strings.Join(variables, " ")), nil
}

// quote quotes s as one word of a unit file. $ is special only in the arguments of a
// command.
func quote(s string, argument bool) (string, error) {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "", api.Decide(api.CodeUsage, "choose a path without control characters", "%q has a control character, which a unit file cannot hold", s)
	}
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(s)
	if argument {
		s = strings.ReplaceAll(s, "$", "$$")
	}
	return `"` + s + `"`, nil
}

// Read returns the content of the file, and refuses one that we have not written.
func (u Unit) Read() (string, error) {
	info, err := os.Lstat(u.Path)
	if err != nil {
		return "", err
	}
	var data []byte
	if info.Mode().IsRegular() {
		if data, err = os.ReadFile(u.Path); err != nil {
			return "", err
		}
	}
	if !bytes.HasPrefix(data, []byte(mark+"\n")) {
		return "", api.Decide(api.CodeRefused, "move it away, or edit it by hand", "%s was not written by teambridge", u.Path)
	}
	return string(data), nil
}

// Write makes text the content of the file, and reports whether it was another, and whether there
// was one.
func (u Unit) Write(text string) (changed, again bool, err error) {
	was, err := u.Read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) || was == text {
		return false, true, err
	}
	return true, was != "", errors.Join(os.MkdirAll(filepath.Dir(u.Path), 0o700), atomicfile.Write(u.Path, []byte(text)))
}

// Start lets systemd read the unit and start the service, or restart it.
func (u Unit) Start(ctx context.Context, again bool) error {
	_, err := u.systemctl(ctx, "daemon-reload")
	if err == nil {
		_, err = u.systemctl(ctx, "enable", "--now", Name)
	}
	if err == nil && again {
		_, err = u.systemctl(ctx, "restart", Name)
	}
	return err
}

// State returns what systemd says of the service: active, inactive, failed, ….
func (u Unit) State(ctx context.Context) (string, error) {
	out, err := u.systemctl(ctx, "show", "--property=ActiveState", "--value", Name)
	return strings.TrimSpace(out), err
}

// Remove stops the service and removes the file. If systemd does not answer in this session, a
// service of another one is not stopped.
func (u Unit) Remove(ctx context.Context) (stopped bool, err error) {
	// While the file is there: it says how the service is to be stopped.
	_, err = u.systemctl(ctx, "disable", "--now", Name)
	if err != nil && !errors.Is(err, exec.ErrNotFound) && !noBus(err) {
		return false, &api.Decided{Err: fmt.Errorf("systemd did not stop the service, and nothing was removed: %w", err), Code: api.CodeError, Hint: Hint(err)}
	}
	stopped = err == nil
	if err := os.Remove(u.Path); err != nil {
		return stopped, err
	}
	if stopped {
		_, err := u.systemctl(ctx, "daemon-reload")
		return true, err
	}
	// What disable would have removed.
	link := filepath.Join(filepath.Dir(u.Path), "default.target.wants", Name)
	if to, err := os.Readlink(link); err == nil && filepath.Base(to) == Name {
		return false, os.Remove(link)
	}
	return false, nil
}

// patience bounds each call of systemctl. Stopping the service may take TimeoutStopSec.
const patience = 2 * time.Minute

func (u Unit) systemctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args = append([]string{"--user"}, args...)
	u.Debug("systemctl %s", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
		err = fmt.Errorf("%s: %w", strings.Join(lines, "; "), err)
	}
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

func noBus(err error) bool { return strings.Contains(err.Error(), "connect to bus") }

// Hint says what to do after [Unit.Start] has failed.
func Hint(err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		return "there is no systemd here: run \"teambridge serve\" another way"
	}
	if noBus(err) {
		return "systemd does not manage this session: log in as yourself (not with su or sudo), then run: teambridge service install"
	}
	return "see why with: teambridge service logs"
}

// Notify tells systemd a state, such as READY=1, if it has set socket, $NOTIFY_SOCKET, to be told.
func Notify(socket, state string) error {
	if socket == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(state))
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		return fmt.Errorf("tell $NOTIFY_SOCKET: %w", err)
	}
	return nil
}
