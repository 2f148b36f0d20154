// Package systemd has systemd run the service, or a hub, as a unit of the user; see
// systemd.service(5), systemd.exec(5), systemd.kill(5) and sd_notify(3).
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
	"strconv"
	"strings"
	"time"
	"unicode"

	"teambridge/status/api"
	"teambridge/teams/atomicfile"
)

// Unit is a unit that one of our programs installs: [Service] or [Hub].
type Unit struct {
	Name      string // of the unit
	Command   string // what installs and uninstalls it, as "teambridge service"
	Logs      string // the command that shows what it logged
	ByHand    string // the command that does the same without systemd
	describes string
	settings  string // lines of [Service]

	Path  string                           // of its file
	Debug func(format string, args ...any) // receives each systemctl command; may be nil
}

// Service returns the unit of "teambridge serve".
//
//   - KillMode=mixed signals only the service, which lets its agents finish their turns.
//     control-group would end agents in mid-turn.
//   - OOMPolicy=continue: an agent that uses up the memory does not end the others.
//   - There is no sandbox and no UMask: they would apply to the agents too, which must be
//     able to do what they can do in a terminal.
func Service() Unit {
	return Unit{
		Name: "teambridge.service", Command: "teambridge service", Logs: "teambridge service logs", ByHand: "teambridge serve",
		describes: "teambridge: messages into and out of Claude Code agent teams",
		settings: `# A mistake in the command line, no Claude directory, a service that runs already:
# starting it again would not help.
RestartPreventExitStatus=2 3 5
# Only the service receives the stop signal. It lets its agents finish their turns.
KillMode=mixed
TimeoutStopSec=90
OOMPolicy=continue
# No sandbox: agents run in here.
`}
}

// Hub returns the unit of "teambridge-hub run" for a directory. It is a sandbox: a hub runs no
// other program, and writes to its directory alone.
func Hub(dir string) (Unit, error) {
	// systemd takes quotes and backslashes in this setting as they are.
	if strings.ContainsAny(dir, `"\`) {
		return Unit{}, api.Decide(api.CodeUsage, "choose a path without them", "%q has a quote or a backslash, which this setting of a unit file cannot hold", dir)
	}
	quoted, err := quote(dir, false)
	if err != nil {
		return Unit{}, err
	}
	return Unit{
		Name: "teambridge-hub.service", Command: "teambridge-hub", Logs: "journalctl --user --unit teambridge-hub.service", ByHand: "teambridge-hub run",
		describes: "teambridge-hub: keeps messages between machines until they are taken",
		settings: `# A mistake in the command line, a hub that runs already: starting it again would not help.
RestartPreventExitStatus=2 5
# It takes 120 MiB if 1 GiB waits.
MemoryMax=512M
# It runs no other program, and writes to its directory alone.
UMask=0077
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths=` + quoted + `
PrivateTmp=yes
PrivateDevices=yes
NoNewPrivileges=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
`}, nil
}

// mark is the first line of a unit that we wrote. Others are not touched.
func (u Unit) mark() string {
	return fmt.Sprintf("# Written by \"%s install\", which writes it anew; \"%[1]s uninstall\" removes it.", u.Command)
}

// For returns u with the path of its file.
func (u Unit) For(lookup func(string) (string, bool), home func() (string, error)) (Unit, error) {
	dir, ok := lookup("XDG_CONFIG_HOME")
	if !ok || !filepath.IsAbs(dir) {
		home, err := home()
		if err != nil {
			return u, fmt.Errorf("find the directory of systemd's user units: %w", err)
		}
		dir = filepath.Join(home, ".config")
	}
	u.Path = filepath.Join(dir, "systemd", "user", u.Name)
	return u, nil
}

// Text returns the content of the file, for a unit that runs a command with additions to its
// environment, as "NAME=value".
func (u Unit) Text(command, env []string) (string, error) {
	var words []string
	for i, arg := range command {
		quoted, err := quote(arg, i > 0)
		if err != nil {
			return "", err
		}
		words = append(words, quoted)
	}
	variables := ""
	for i, v := range env {
		quoted, err := quote(v, false)
		if err != nil {
			return "", err
		}
		if i == 0 {
			variables = "Environment=" + quoted
		} else {
			variables += " " + quoted
		}
	}
	if variables != "" {
		variables += "\n"
	}
	return fmt.Sprintf(`%s
[Unit]
Description=%s
StartLimitIntervalSec=60
StartLimitBurst=10

[Service]
Type=notify
ExecStart=%s
%sRestart=on-failure
RestartSec=1
%s
[Install]
WantedBy=default.target
`, u.mark(), u.describes, strings.Join(words, " "), variables, u.settings), nil
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
	if !bytes.HasPrefix(data, []byte(u.mark()+"\n")) {
		return "", api.Decide(api.CodeRefused, "move it away, or edit it by hand", "%s was not written by teambridge", u.Path)
	}
	return string(data), nil
}

// Program returns what the unit runs.
func (u Unit) Program() (string, error) {
	text, err := u.Read()
	if err != nil {
		return "", err
	}
	_, command, _ := strings.Cut(text, "\nExecStart=\"")
	word := strings.Builder{}
	for i := 0; i < len(command) && command[i] != '"' && command[i] != '\n'; i++ {
		if (command[i] == '\\' || command[i] == '%') && i+1 < len(command) {
			i++
		}
		word.WriteByte(command[i])
	}
	return word.String(), nil
}

// Install makes text the content of the file. With start, systemd starts the unit too, or starts it
// again if it was another one.
func (u Unit) Install(ctx context.Context, text string, start bool) (api.Installed, error) {
	i := api.Installed{Unit: u.Path}
	was, err := u.Read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return i, err
	}
	if i.Changed = was != text; i.Changed {
		if err := errors.Join(os.MkdirAll(filepath.Dir(u.Path), 0o700), atomicfile.Write(u.Path, []byte(text))); err != nil {
			return i, err
		}
	}
	if !start {
		return i, nil
	}
	_, err = u.systemctl(ctx, "daemon-reload")
	if err == nil {
		_, err = u.systemctl(ctx, "enable", "--now", u.Name)
	}
	if err == nil && i.Changed && was != "" {
		_, err = u.systemctl(ctx, "restart", u.Name)
	}
	if i.Started = err == nil; !i.Started {
		return i, &api.Decided{Err: fmt.Errorf("the unit is written to %s, but systemd did not start it: %w", u.Path, err), Code: api.CodeError, Hint: u.hint(err)}
	}
	return i, nil
}

// Restart has systemd end what runs, and start the program that the unit names as it is now.
func (u Unit) Restart(ctx context.Context) error {
	if _, err := u.Read(); errors.Is(err, fs.ErrNotExist) {
		return api.Decide(api.CodeNotFound, fmt.Sprintf("if you started it yourself, end it, and start it again: %s; or let systemd run it: %s install", u.ByHand, u.Command), "%s does not exist", u.Path)
	} else if err != nil {
		return err
	}
	if _, err := u.systemctl(ctx, "restart", u.Name); err != nil {
		return &api.Decided{Err: fmt.Errorf("systemd did not restart it: %w", err), Code: api.CodeError, Hint: u.hint(err)}
	}
	return nil
}

// Note says how an installed unit is kept running, or started.
func (u Unit) Note(i api.Installed) string {
	if i.Started {
		return "it runs while you are logged in; \"loginctl enable-linger\" keeps it running"
	}
	return "start it with: systemctl --user daemon-reload && systemctl --user enable --now " + u.Name
}

// State returns what systemd says of the unit: active, inactive, failed, ….
func (u Unit) State(ctx context.Context) (string, error) {
	out, err := u.systemctl(ctx, "show", "--property=ActiveState", "--value", u.Name)
	return strings.TrimSpace(out), err
}

// NotStopped is the warning if [Unit.Uninstall] did not stop it.
func (u Unit) NotStopped() string {
	return "systemd does not answer in this session; what runs in another session goes on until it ends"
}

// System is what runs it.
func (u Unit) System() string { return "systemd" }

// File is the path of the unit's file.
func (u Unit) File() string { return u.Path }

// Notifies says that Install and Restart return only when the service is ready.
func (u Unit) Notifies() bool { return true }

// LogCommand is the command that shows the end of the log.
func (u Unit) LogCommand(follow bool, lines int, json bool) ([]string, error) {
	args := []string{"journalctl", "--user", "--unit", u.Name, "--no-pager", "--lines", strconv.Itoa(lines)}
	if follow {
		args = append(args, "--follow")
	}
	if json {
		args = append(args, "--output", "json")
	}
	return args, nil
}

// Uninstall stops the unit and removes the file. If systemd does not answer in this session, one that
// runs in another is not stopped.
func (u Unit) Uninstall(ctx context.Context) (_ api.Uninstalled, stopped bool, err error) {
	if _, err := u.Read(); errors.Is(err, fs.ErrNotExist) {
		return api.Uninstalled{Unit: u.Path}, true, nil
	} else if err != nil {
		return api.Uninstalled{Unit: u.Path}, false, err
	}
	stopped, err = u.remove(ctx)
	return api.Uninstalled{Unit: u.Path, Removed: err == nil}, stopped, err
}

func (u Unit) remove(ctx context.Context) (stopped bool, err error) {
	// While the file is there: it says how the unit is to be stopped.
	_, err = u.systemctl(ctx, "disable", "--now", u.Name)
	if err != nil && !errors.Is(err, exec.ErrNotFound) && !noBus(err) {
		return false, &api.Decided{Err: fmt.Errorf("systemd did not stop %s, and nothing was removed: %w", u.Name, err), Code: api.CodeError, Hint: u.hint(err)}
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
	link := filepath.Join(filepath.Dir(u.Path), "default.target.wants", u.Name)
	if to, err := os.Readlink(link); err == nil && filepath.Base(to) == u.Name {
		return false, os.Remove(link)
	}
	return false, nil
}

// patience bounds each call of systemctl. Stopping a service may take TimeoutStopSec.
const patience = 2 * time.Minute

func (u Unit) systemctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	args = append([]string{"--user"}, args...)
	if u.Debug != nil {
		u.Debug("systemctl %s", strings.Join(args, " "))
	}
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

// hint says what to do after systemctl has failed.
func (u Unit) hint(err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Sprintf("there is no systemd here: run %q another way", u.ByHand)
	}
	if noBus(err) {
		return fmt.Sprintf("systemd does not manage this session: log in as yourself (not with su or sudo), then run: %s install", u.Command)
	}
	return "see why with: " + u.Logs
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
