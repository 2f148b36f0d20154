//go:build unix

package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
)

// fake makes a script that plays ssh; $there is the command for the other machine.
func fake(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ssh")
	text := "#!/bin/sh\nfor there; do :; done\n" + script + "\n"
	standin.WriteProgram(t, path, text)
	return path
}

// greets is a script that prints the greeting and then echoes its input.
const greets = "echo 'teambridge: connected'; exec cat"

func TestDial(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"at once":        greets,
		"after noise":    "echo Welcome; printf 'to box\n'; " + greets,
		"in two parts":   "printf teambridge:; printf ' connected\n'; exec cat",
		"in one piece":   "printf 'teambridge: connected\nfirst '; exec cat",
		"a look-alike":   "echo 'not teambridge: connected'; " + greets,
		"much before it": "dd if=/dev/zero bs=1024 count=60 2>/dev/null; echo; " + greets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &Dialer{Host: Host{Name: "box"}, Ssh: fake(t, script)}
			c, err := d.Dial(t.Context())
			must(t, err)
			want := "hello\n"
			if name == "in one piece" {
				want = "first hello\n"
			}
			if _, err := io.WriteString(c, "hello\n"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
				t.Errorf("it read %q, %v", got, err)
			}
			if err := d.Close(); err != nil || d.Processes() != 1 || len(d.open) != 0 {
				t.Errorf("closed with %v, %d processes, %d of them open", err, d.Processes(), len(d.open))
			}
			if _, err := c.Read(got); err == nil {
				t.Error("it can be read when it is closed")
			}
			if _, err := d.Dial(t.Context()); err == nil {
				t.Error("it dials when it is closed")
			}
		})
	}
}

func TestDialFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, remote string
		want           Error
		text           string
	}{
		"ssh failed":        {script: "echo 'ssh: connect to host box port 22: Connection refused' >&2; exit 255", want: Error{Why: Failed, Status: 255}, text: "ssh could not connect to box"},
		"not installed":     {script: `sh -c "$there"`, remote: "/nowhere/tb", want: Error{Why: NotInstalled, Status: 127}, text: "/nowhere/tb was not found on box"},
		"no service":        {script: "exit 3", want: Error{Why: NoService, Status: 3}, text: "no service is running on box"},
		"an earlier one":    {script: "exit 2", want: Error{Why: OtherVersion, Status: 2}, text: "teambridge on box is an earlier version"},
		"a refusal":         {script: "echo This account is not available.; exit 1", want: Error{Why: Ended, Status: 1, Said: "This account is not available."}, text: `there is no connection to the service on box: ssh ended with status 1, after "This account is not available."`},
		"killed":            {script: "kill -9 $$", want: Error{Why: Ended, Status: -1}, text: "there is no connection to the service on box: ssh was killed"},
		"ended well":        {script: "exit 0", want: Error{Why: Ended}, text: "there is no connection to the service on box: ssh ended with status 0"},
		"noise without end": {script: "exec cat /dev/zero", want: Error{Why: Ended, Status: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			d := &Dialer{Host: Host{Name: "box"}, Ssh: fake(t, c.script), Remote: c.remote, Stderr: &said}
			defer d.Close()
			_, err := d.Dial(t.Context())
			got, ok := errors.AsType[*Error](err)
			if !ok || got.Why != c.want.Why || got.Status != c.want.Status || c.text != "" && (got.Said != c.want.Said || got.Error() != c.text) {
				t.Errorf("the error is %v (%+v); want %+v", err, got, c.want)
			}
			if _, echo, ok := strings.Cut(c.script, "echo '"); ok && !strings.HasPrefix(echo, strings.TrimSpace(said.String())) {
				t.Errorf("what ssh said is shown as %q", &said)
			}
		})
	}
	t.Run("no ssh", func(t *testing.T) {
		t.Parallel()
		d := &Dialer{Host: Host{Name: "box"}, Ssh: filepath.Join(t.TempDir(), "ssh")}
		_, err := d.Dial(t.Context())
		if got, ok := errors.AsType[*Error](err); !ok || got.Why != NoProgram || d.Processes() != 0 {
			t.Errorf("the error is %v", err)
		}
	})
}

// A silent machine causes a timeout, but not while ssh asks a person something.
func TestSilence(t *testing.T) {
	t.Parallel()
	d := &Dialer{Host: Host{Name: "box"}, Ssh: fake(t, "echo Welcome.; exec sleep 600"), Batch: true, silence: 60 * time.Millisecond}
	defer d.Close()
	_, err := d.Dial(t.Context())
	if got, ok := errors.AsType[*Error](err); !ok || got.Why != Silent || got.Error() != "box did not answer within 30s" {
		t.Errorf("the error is %v", err)
	}
	answer := filepath.Join(t.TempDir(), "answer")
	asked := 0
	d = &Dialer{Host: Host{Name: "box"}, Ssh: fake(t, "while [ ! -e "+answer+" ]; do sleep .01; done; echo 'teambridge: connected'; exec cat"), silence: 120 * time.Millisecond}
	d.asks = func(int, bool) bool {
		if asked++; asked == 100 { // longer than it may be silent
			if err := os.WriteFile(answer, nil, 0o600); err != nil {
				t.Error(err)
			}
		}
		return true
	}
	defer d.Close()
	c, err := d.Dial(t.Context())
	must(t, err)
	_ = c.Close()
}

// A service of an earlier version answers HTTP/2 with HTTP/1.1.
func TestWithoutHTTP2(t *testing.T) {
	t.Parallel()
	d := &Dialer{Host: Host{Name: "box"}, Ssh: fake(t, "echo 'teambridge: connected'; echo 'HTTP/1.1 400 Bad Request'")}
	defer d.Close()
	c, err := d.Dial(t.Context())
	must(t, err)
	_, err = c.Read(make([]byte, 100))
	if got, ok := errors.AsType[*Error](err); !ok || got.Why != OtherVersion {
		t.Errorf("the error is %v", err)
	}
}

// The error of a cut connection says how ssh ended.
func TestCut(t *testing.T) {
	t.Parallel()
	d := &Dialer{Host: Host{Name: "box"}, Ssh: fake(t, "echo 'teambridge: connected'; read line; echo $line; exit 255")}
	defer d.Close()
	c, err := d.Dial(t.Context())
	must(t, err)
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	lost, ok := errors.AsType[*Error](err)
	if string(got) != "hello\n" || !ok || lost.Why != Lost || lost.Status != 255 {
		t.Errorf("it read %q, %v", got, err)
	}
	if _, err := io.WriteString(c, "more\n"); !errors.As(err, &lost) || lost.Why != Lost {
		t.Errorf("writing gives %v", err)
	}
}

// The first ssh may ask the person who started the command, and gets the signals of the terminal; later ones
// must not ask.
func TestOnlyTheFirstAsks(t *testing.T) {
	t.Parallel()
	var first, later bytes.Buffer
	d := &Dialer{Host: Host{Name: "box"}, Stderr: &first, Later: &later, Ssh: fake(t, `echo "$@" >&2; echo 'teambridge: connected'; echo $$; exec cat`)}
	defer d.Close()
	sessions := map[bool]int{}
	for range 3 {
		c, err := d.Dial(t.Context())
		must(t, err)
		own, err := syscall.Getpgid(c.(*conn).cmd.Process.Pid)
		must(t, err)
		sessions[own == syscall.Getpgrp()]++
		_ = c.Close()
	}
	if sessions[true] != 1 || sessions[false] != 2 {
		t.Errorf("%d in our process group, %d not", sessions[true], sessions[false])
	}
	if strings.Contains(first.String(), "BatchMode") || strings.Count(first.String(), "box") != 1 || strings.Count(later.String(), "BatchMode=yes") != 2 {
		t.Errorf("the first: %s, later ones: %s", &first, &later)
	}
}

// The end of the wait for a connection ends ssh.
func TestDialIsCancelled(t *testing.T) {
	t.Parallel()
	running := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(running, 0o600))
	d := &Dialer{Host: Host{Name: "box"}, Ssh: fake(t, "echo >"+running+"; exec sleep 600")}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		_, _ = os.ReadFile(running) // when it runs
		cancel(why)
	}()
	begin := time.Now()
	if _, err := d.Dial(ctx); !errors.Is(err, why) {
		t.Errorf("the error is %v", err)
	}
	if took := time.Since(begin); took > time.Minute || len(d.open) != 0 {
		t.Errorf("it took %v, and %d are left", took, len(d.open))
	}
}
