package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"teambridge/status/api"
)

// systemd runs a unit of the user; see systemd.service(5), systemd.exec(5), systemd.kill(5) and sd_notify(3).
type systemd struct {
	describes string
	settings  string // lines of [Service]
}

// Service returns the unit of "teambridge serve".
//
//   - KillMode=mixed signals only the service, which lets its agents finish their turns.
//     control-group would end agents in mid-turn.
//   - OOMPolicy=continue: an agent that uses up the memory does not end the others.
//   - There is no sandbox and no UMask: they would apply to the agents too, which must be
//     able to do what they can do in a terminal.
func Service(lookup func(string) (string, bool), home func() (string, error)) (Job, error) {
	return Job{Name: "teambridge.service", command: "teambridge service", shows: "teambridge service logs", byHand: "teambridge serve"}.unit(lookup, home, systemd{
		describes: "teambridge: messages into and out of Claude Code agent teams",
		settings: `# A mistake in the command line, no Claude directory, a service that runs already:
# starting it again would not help.
RestartPreventExitStatus=2 3 5
# Only the service receives the stop signal. It lets its agents finish their turns.
KillMode=mixed
TimeoutStopSec=90
OOMPolicy=continue
# No sandbox: agents run in here.
`})
}

// Hub returns the unit of "teambridge-hub run" for a directory. It runs in a sandbox, since a hub runs no other program
// and writes only to its directory.
func Hub(dir string, lookup func(string) (string, bool), home func() (string, error)) (Job, error) {
	// systemd reads quotes and backslashes in this setting literally.
	if strings.ContainsAny(dir, `"\`) {
		return Job{}, api.Decide(api.CodeUsage, "choose a path without them", "%q has a quote or a backslash, which this setting of a unit file cannot hold", dir)
	}
	if err := plain(dir); err != nil {
		return Job{}, err
	}
	return Job{Name: "teambridge-hub.service", command: "teambridge-hub", shows: "journalctl --user --unit teambridge-hub.service", byHand: "teambridge-hub run"}.unit(lookup, home, systemd{
		describes: "teambridge-hub: keeps messages between machines until they are taken",
		settings: `# A mistake in the command line, a hub that runs already: starting it again would not help.
RestartPreventExitStatus=2 5
# It takes 120 MiB if 1 GiB waits.
MemoryMax=512M
# It runs no other program, and writes to its directory alone.
UMask=0077
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths=` + quoteUnit(dir, false) + `
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
`})
}

// unit fills in the fields of j that all units share.
func (j Job) unit(lookup func(string) (string, bool), home func() (string, error), s systemd) (Job, error) {
	dir, ok := lookup("XDG_CONFIG_HOME")
	if !ok || !filepath.IsAbs(dir) {
		home, err := home()
		if err != nil {
			return j, fmt.Errorf("find the directory of systemd's user units: %w", err)
		}
		dir = filepath.Join(home, ".config")
	}
	j.System, j.Notifies, j.system = "systemd", true, s
	j.Path = filepath.Join(dir, "systemd", "user", j.Name)
	j.notes = [2]string{
		"start it with: systemctl --user daemon-reload && systemctl --user enable --now " + j.Name,
		"it runs while you are logged in; \"loginctl enable-linger\" keeps it running",
	}
	j.notStopped = "systemd does not answer in this session; what runs in another session goes on until it ends"
	return j, nil
}

func (systemd) program() string           { return "systemctl" }
func (systemd) mark(words string) string  { return "# " + words }
func (systemd) encode(text string) []byte { return []byte(text) }
func (systemd) decode(data []byte) string { return string(data) }

func (s systemd) text(j Job, command, env []string) (string, error) {
	for i, arg := range command {
		command[i] = quoteUnit(arg, i > 0)
	}
	variables := ""
	for i, v := range env {
		if i == 0 {
			variables = "Environment="
		} else {
			variables += " "
		}
		variables += quoteUnit(v, false)
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
`, j.mark(), s.describes, strings.Join(command, " "), variables, s.settings), nil
}

// quoteUnit quotes s as one word of a unit file. argument is set for the arguments of a command, in which $ is special.
func quoteUnit(s string, argument bool) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(s)
	if argument {
		s = strings.ReplaceAll(s, "$", "$$")
	}
	return `"` + s + `"`
}

// Program returns the program of a systemd unit.
func (j Job) Program() (string, error) {
	text, err := j.Read()
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

func (systemd) start(ctx context.Context, j Job, was string, changed bool) error {
	_, err := j.run(ctx, "--user", "daemon-reload")
	if err == nil {
		_, err = j.run(ctx, "--user", "enable", "--now", j.Name)
	}
	if err == nil && changed && was != "" {
		_, err = j.run(ctx, "--user", "restart", j.Name)
	}
	return err
}

func (systemd) restart(ctx context.Context, j Job) error {
	_, err := j.run(ctx, "--user", "restart", j.Name)
	return err
}

// stop stops the unit. stopped is false if the user's systemd cannot be reached from this session.
func (systemd) stop(ctx context.Context, j Job) (stopped bool, err error) {
	_, err = j.run(ctx, "--user", "disable", "--now", j.Name)
	if errors.Is(err, exec.ErrNotFound) || err != nil && noBus(err) {
		return false, nil
	}
	return err == nil, err
}

func (systemd) removed(ctx context.Context, j Job, stopped bool) error {
	if stopped {
		_, err := j.run(ctx, "--user", "daemon-reload")
		return err
	}
	// Remove the link that "systemctl disable" would have removed.
	link := filepath.Join(filepath.Dir(j.Path), "default.target.wants", j.Name)
	if to, err := os.Readlink(link); err == nil && filepath.Base(to) == j.Name {
		return os.Remove(link)
	}
	return nil
}

func (systemd) state(ctx context.Context, j Job) (string, error) {
	out, err := j.run(ctx, "--user", "show", "--property=ActiveState", "--value", j.Name)
	return strings.TrimSpace(out), err
}

func (systemd) logs(j Job, follow bool, lines int) []string {
	args := []string{"journalctl", "--user", "--unit", j.Name, "--no-pager", "--lines", strconv.Itoa(lines)}
	if follow {
		args = append(args, "--follow")
	}
	return args
}

// noBus reports whether systemctl could not reach the user's systemd, by the text, since there is no exit status for
// it.
func noBus(err error) bool { return strings.Contains(err.Error(), "connect to bus") }

func (systemd) hint(j Job, err error) string {
	if noBus(err) {
		return fmt.Sprintf("systemd does not manage this session: log in as yourself (not with su or sudo), then run: %s install", j.command)
	}
	return ""
}

// Notify sends a state, such as READY=1, to systemd. socket is the value of $NOTIFY_SOCKET; if it is empty, Notify does
// nothing.
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
