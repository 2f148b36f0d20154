package hub

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"teambridge/relay/link"
	"teambridge/relay/link/nats"
	"teambridge/relay/relaytest/standin"
)

// foreignConfig is the configuration of a server of others, which includes ours.
const foreignConfig = `listen: 127.0.0.1:-1
server_name: theirs
jetstream: {store_dir: "DIR/store"}
accounts: {
  INCLUDE
  SHOP: {
    jetstream: enabled
    users: [{user: shop, password: secret}]
  }
  SYS: {users: [{user: root, password: secret}]}
}
system_account: SYS
`

// A foreign is a NATS server without our configuration: the program nats-server if other programs are
// run, otherwise one in this process.
type foreign struct {
	t      *testing.T
	dir    string
	url    string
	reload func() error
}

func newForeign(t *testing.T) *foreign {
	t.Helper()
	f := &foreign{t: t, dir: t.TempDir()}
	f.configure("")
	if os.Getenv(standin.EnvInterop) != "" {
		f.runProgram()
		return f
	}
	o, err := server.ProcessConfigFile(f.path("server.conf"))
	must(t, err)
	o.NoSigs = true
	s, err := server.NewServer(o)
	must(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server is not ready")
	}
	f.url, f.reload = s.ClientURL(), s.Reload
	return f
}

func (f *foreign) path(name string) string { return filepath.Join(f.dir, name) }

// configure writes the configuration, which includes ours.
func (f *foreign) configure(include string) {
	f.t.Helper()
	text := strings.NewReplacer("DIR", filepath.ToSlash(f.dir), "INCLUDE", include).Replace(foreignConfig)
	must(f.t, os.WriteFile(f.path("server.conf"), []byte(text), 0o600))
}

// runProgram runs nats-server, of the version of this module.
func (f *foreign) runProgram() {
	f.t.Helper()
	program := f.path("nats-server.exe")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program, "-c", f.path("server.conf"))
	log, err := cmd.StderrPipe()
	must(f.t, err)
	must(f.t, cmd.Start())
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(log); s.Scan(); {
			lines <- s.Text()
		}
	}()
	f.t.Cleanup(func() {
		cmd.Process.Kill()
		for range lines {
		}
		cmd.Wait()
	})
	says := func(pattern string) []string {
		for line := range lines {
			f.t.Log(line)
			if m := regexp.MustCompile(pattern).FindStringSubmatch(line); m != nil {
				return m
			}
		}
		f.t.Fatalf("nats-server has ended, and not said %s", pattern)
		return nil
	}
	f.url = "nats://" + says(`client connections on (\S+)`)[1]
	says(`Server is ready`)
	f.reload = func() error {
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			return err
		}
		if m := says(`Reloaded server configuration|(.*[Ff]ailed to reload.*)`); m[1] != "" {
			return errors.New(m[1])
		}
		return nil
	}
}

// A NATS server of others becomes a hub in two steps: its configuration gets the accounts, and then
// the stream and the queues are made. Its own data stays as it was.
func TestForeignServer(t *testing.T) {
	t.Parallel()
	f := newForeign(t)
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "hub")
	keys := map[string]*nats.Key{"a": newKey(t), "b": newKey(t)}
	for name, k := range keys {
		add(t, dir, name, k, AddOptions{})
	}
	prepare := func() ([]string, error) { return Prepare(ctx, dir, nats.Options{Hub: f.url}) }
	if _, err := prepare(); err == nil || !strings.Contains(err.Error(), "first include") {
		t.Errorf("before the first step: %v", err)
	}
	configure := func() {
		t.Helper()
		text, err := Accounts(dir)
		must(t, err)
		must(t, os.WriteFile(f.path("teambridge.conf"), []byte(text), 0o600))
		f.configure("include teambridge.conf")
	}
	configure()
	if _, err := prepare(); err == nil || !strings.Contains(err.Error(), "include in its configuration") {
		t.Errorf("before it is reloaded: %v", err)
	}
	must(t, f.reload())
	for range 2 {
		if names, err := prepare(); err != nil || !slices.Equal(names, []string{"a", "b"}) {
			t.Fatalf("%v, %v", names, err)
		}
	}
	must(t, f.reload())
	a, b := dialAt(t, f.url, "a", keys), dialAt(t, f.url, "b", keys)
	until(t, a, "reading", reads)
	until(t, b, "reading", reads)
	var before []string
	exchange := func(from *nats.Wire, to *nats.Wire, name, text string) {
		t.Helper()
		publish(t, from, name, text)
		for {
			got, err := to.Next(ctx)
			must(t, err)
			if got.Frame == nil {
				continue
			}
			must(t, got.Ack(ctx))
			if slices.Contains(before, string(got.Frame)) { // a wire may repeat frames
				continue
			}
			if string(got.Frame) != text {
				t.Errorf("got %q, want %q", got.Frame, text)
			}
			before = append(before, text)
			return
		}
	}
	exchange(a, b, "b", "there")
	exchange(b, a, "a", "and back")

	// A machine reaches nothing else, neither by name nor through the server's answers.
	connect := func(opts ...natsgo.Option) jetstream.JetStream {
		t.Helper()
		nc, err := natsgo.Connect(f.url, append(opts, natsgo.ErrorHandler(nil))...)
		must(t, err)
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(500*time.Millisecond))
		must(t, err)
		return js
	}
	thief := connect(natsgo.Nkey(keys["a"].Card("a").Key, keys["a"].Sign), natsgo.CustomInboxPrefix("_INBOX_a"))
	if err := thief.DeleteStream(ctx, nats.Stream); err == nil {
		t.Error("a machine deletes the stream")
	}
	must(t, thief.Conn().PublishRequest("tb.q.NEXT.a", "$JS.API.STREAM.DELETE."+nats.Stream, nil))
	exchange(a, b, "b", "still there")
	if _, err := connect(natsgo.UserInfo("shop", "secret")).Stream(ctx, nats.Stream); err == nil {
		t.Error("the other account has our stream")
	}

	// A removed machine is no longer let in, and its queue is removed.
	must(t, Remove(ctx, dir, "b"))
	configure()
	must(t, f.reload())
	until(t, b, "refused", refused)
	if names, err := prepare(); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("%v, %v", names, err)
	}
	until(t, a, "connected", func(s link.State) bool { return s.Connected })
	if err := a.Publish(ctx, "b", "x", nil); err != nil { // it has no recipient, and nothing breaks
		t.Logf("to a machine that is gone: %v", err)
	}
}
