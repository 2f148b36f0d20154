package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams/errtest"
)

// TestRealSSHD runs testdata/script/sshd with the real ssh and a real sshd, on loopback, with keys and a
// configuration of its own. The home directory of commands there is the folder "box" of the script, where
// teambridge-hub, $HUB, is installed, too.
func TestRealSSHD(t *testing.T) {
	t.Parallel()
	sshd := standin.RequireSSHD(t)
	client, err := realSSH()
	if err != nil {
		t.Skip(err)
	}
	if os.Getuid() == 0 { // its own folder, which Debian's init makes
		errtest.Must(t, os.MkdirAll("/run/sshd", 0o755))
	}
	hub := built(t, "../teambridge-hub")
	p := scripts("sshd")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setup(env); err != nil {
			return err
		}
		dir, box := filepath.Join(env.WorkDir, "ssh"), filepath.Join(env.WorkDir, "box")
		for _, d := range []string{dir, filepath.Join(box, "claude", "teams"), filepath.Join(box, "state"), filepath.Join(box, ".local", "bin")} {
			if err := os.MkdirAll(d, 0o700); err != nil {
				return err
			}
		}
		for _, key := range []string{"host", "id"} {
			if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
				return fmt.Errorf("ssh-keygen: %w: %s", err, out)
			}
		}
		port, err := freePort()
		if err != nil {
			return err
		}
		public, err := os.ReadFile(filepath.Join(dir, "host.pub"))
		if err != nil {
			return err
		}
		files := map[string]string{
			"sshd_config": fmt.Sprintf(`ListenAddress 127.0.0.1:%d
HostKey %[2]s/host
AuthorizedKeysFile %[2]s/id.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv HOME=%[3]s CLAUDE_CONFIG_DIR=%[3]s/claude TEAMBRIDGE_STATE=%[3]s/state PATH=%[4]s
`, port, dir, box, env.Getenv("PATH")),
			"known_hosts": fmt.Sprintf("[127.0.0.1]:%d %s", port, public),
			"ssh_config": fmt.Sprintf(`Host box 127.0.0.1
  HostName 127.0.0.1
  Port %d
  IdentityFile %[2]s/id
  UserKnownHostsFile %[2]s/known_hosts
  GlobalKnownHostsFile none
  IdentitiesOnly yes
  IdentityAgent none
  LogLevel ERROR
Host stranger
  HostName 127.0.0.1
  Port %[1]d
  IdentityFile %[2]s/none
  UserKnownHostsFile %[2]s/known_hosts
  IdentitiesOnly yes
  IdentityAgent none
  BatchMode yes
`, port, dir),
			"ssh": fmt.Sprintf("#!/bin/sh\necho $$ >>%s/ssh.log\nexec %s -F %[1]s/ssh_config \"$@\"\n", dir, client),
		}
		for name, text := range files {
			standin.WriteProgram(t, filepath.Join(dir, name), text)
		}
		if err := os.Symlink(hub, filepath.Join(box, ".local", "bin", "teambridge-hub")); err != nil {
			return err
		}
		who, err := osuser.Current()
		if err != nil {
			return err
		}
		env.Setenv("HUB", hub)
		env.Setenv("SSH_USER", who.Username)
		env.Setenv("SSH_PORT", strconv.Itoa(port))
		env.Setenv("PATH", dir+string(os.PathListSeparator)+env.Getenv("PATH"))
		return startSSHD(env, sshd, filepath.Join(dir, "sshd_config"), port)
	}
	testscript.Run(t, p)
}

// realSSH returns the path of the real ssh, not of the simulated one.
func realSSH() (string, error) {
	agent, err := exec.LookPath("agent") // the simulated ssh is next to it
	if err != nil {
		return "", err
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, "ssh")
		if info, err := os.Stat(path); err == nil && dir != filepath.Dir(agent) && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// startSSHD runs sshd until the end of the script, and waits until it accepts connections. sshd ends with this
// process, even if the process is killed.
func startSSHD(env *testscript.Env, program, config string, port int) error {
	log, err := os.Create(filepath.Join(env.WorkDir, "sshd.log"))
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(program, "-D", "-e", "-f", config)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return err
	}
	env.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for over := time.Now().Add(patience); ; {
		c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return c.Close()
		}
		if time.Now().After(over) || cmd.Process.Signal(syscall.Signal(0)) != nil {
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("sshd does not listen: %w: %s", err, strings.TrimSpace(string(said)))
		}
		time.Sleep(5 * time.Millisecond)
	}
}
