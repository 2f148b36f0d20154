package linktest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
	"teambridge/relay/relaytest/killtest"
)

// patience is how long a test waits.
const patience = 3 * time.Minute

// A bed is a hub and the machines a and b, which run until they are stopped.
type bed struct {
	testing.TB
	dir   string
	names string // the prefix of the network namespaces; "" for loopback

	fingerprint string // of the hub's certificate
	procs       map[string]*process
}

type process struct {
	*killtest.Process
	stdin io.Writer
}

// needNamespaces skips a test if no network namespaces can be made.
func needNamespaces(t testing.TB) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("cuts network links, for which it has to be root on Linux")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("cuts network links with ip, of iproute2, which is not installed")
	}
	name := fmt.Sprintf("tb%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Skipf("cuts network links, and cannot make network namespaces here: %v: %s", err, out)
	}
	exec.Command("ip", "netns", "del", name).Run()
}

// newBed makes a hub and two machines that are linked, and starts none. With namespaces, each is
// in a network of its own, and the machines have a link each with the hub.
func newBed(t testing.TB, namespaces bool) *bed {
	t.Helper()
	b := &bed{TB: t, dir: t.TempDir(), procs: map[string]*process{}}
	if namespaces {
		b.names = fmt.Sprintf("tb%d-%d-", os.Getpid(), time.Now().UnixNano()%1e6)
		t.Cleanup(func() {
			for _, m := range []string{"hub", "a", "b"} {
				exec.Command("ip", "netns", "del", b.names+m).Run()
			}
		})
		for _, m := range []string{"hub", "a", "b"} {
			b.ip("netns", "add", b.names+m)
			b.ip("-n", b.names+m, "link", "set", "lo", "up")
		}
		for i, m := range []string{"a", "b"} {
			net := fmt.Sprintf("10.99.%d.", i+1)
			b.ip("-n", b.names+"hub", "link", "add", "to_"+m, "type", "veth", "peer", "name", "eth0", "netns", b.names+m)
			b.ip("-n", b.names+"hub", "addr", "add", net+"1/24", "dev", "to_"+m)
			b.ip("-n", b.names+m, "addr", "add", net+"2/24", "dev", "eth0")
			b.heal(m)
		}
	}
	if keep := os.Getenv("KEEP"); keep != "" {
		t.Cleanup(func() { exec.Command("cp", "-r", b.dir, keep).Run() })
	}
	t.Cleanup(func() { // before the namespaces go
		for name := range b.procs {
			b.kill(name)
		}
	})
	b.fingerprint = b.certificate()
	cards := map[string]nats.Card{}
	for _, m := range []string{"a", "b"} {
		key, err := nats.NewKey()
		b.must(err)
		b.must(os.MkdirAll(b.path(m), 0o700))
		b.must(nats.WriteKey(b.path(m, "key"), key))
		cards[m] = key.Card(m)
		b.must(hub.Add(context.Background(), b.path("hub"), cards[m], hub.AddOptions{}))
	}
	listen := "127.0.0.1:0"
	if namespaces {
		listen = "0.0.0.0:4222"
	}
	at := b.startHub(listen)
	b.must(os.WriteFile(b.path("listen"), []byte(strings.Replace(listen, "127.0.0.1:0", at, 1)), 0o600)) // the same address after a restart
	for i, m := range []string{"a", "b"} {
		if namespaces {
			at = fmt.Sprintf("10.99.%d.1:4222", i+1)
		}
		b.ledger(m, func(lg *ledger.Ledger) {
			peer := peerOf(m)
			b.must(lg.Links.SetLink(context.Background(), ledger.Link{Name: m, Hub: "tls://" + at, Trust: b.fingerprint}))
			b.must(lg.Links.AddMachine(context.Background(), peer, cards[peer].String(), false))
		})
	}
	return b
}

func peerOf(machine string) string {
	if machine == "a" {
		return "b"
	}
	return "a"
}

func (b *bed) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) ip(args ...string) {
	b.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		b.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// cut cuts a machine off. At the hub's end, its packets are lost without an error, as in a
// network that drops them; at its own end, it has no route.
func (b *bed) cut(machine string, atHub bool) {
	b.Helper()
	b.note(machine, fmt.Sprint("cut, at the hub's end: ", atHub))
	if atHub {
		b.ip("-n", b.names+"hub", "link", "set", "to_"+machine, "down")
	} else {
		b.ip("-n", b.names+machine, "link", "set", "eth0", "down")
	}
}

func (b *bed) heal(machine string) {
	b.Helper()
	b.note(machine, "heal")
	b.ip("-n", b.names+"hub", "link", "set", "to_"+machine, "up")
	b.ip("-n", b.names+machine, "link", "set", "eth0", "up")
}

// certificate makes the hub's certificate, and returns its fingerprint.
func (b *bed) certificate() string {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	b.must(err)
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	b.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	b.must(err)
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		b.must(os.WriteFile(b.path(name), pem.EncodeToMemory(block), 0o600))
	}
	return fmt.Sprintf("%x", sha256.Sum256(cert))
}

// startHub starts the hub, and returns its address.
func (b *bed) startHub(listen string) string {
	b.Helper()
	b.must(os.WriteFile(b.path("listen"), []byte(listen), 0o600))
	return b.start("hub", b.path("hub"), listen, b.path("cert.pem"), b.path("key.pem"))
}

// restartHub starts the hub at the same address.
func (b *bed) restartHub() {
	b.Helper()
	listen, err := os.ReadFile(b.path("listen"))
	b.must(err)
	b.startHub(string(listen))
}

func (b *bed) startMachine(name string) { b.start(name, b.path(name)) }

// start starts hub, a or b, and waits until it is ready. It returns the rest of its first line.
func (b *bed) start(name string, args ...any) string {
	b.Helper()
	child, in := "machine", name
	switch name {
	case "hub":
		child = "hub"
	case dishonest:
		child, in = "dishonest", "hub" // whose network is not cut
	}
	cmd := killtest.Command(context.Background(), child, args...)
	if b.names != "" {
		ip, err := exec.LookPath("ip")
		b.must(err)
		cmd.Path, cmd.Args = ip, append([]string{"ip", "netns", "exec", b.names + in}, cmd.Args...) // which becomes the process
	}
	log, err := os.OpenFile(b.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	b.must(err)
	defer log.Close()
	cmd.Stderr = log
	b.note(name, "start")
	stdin, err := cmd.StdinPipe() // it ends with this process
	b.must(err)
	p := killtest.Start(b, cmd)
	b.procs[name] = &process{p, stdin}
	at, ok := strings.CutPrefix(p.Line(), "ready")
	if !ok {
		b.Fatalf("%s did not start: %s", name, p.Stderr())
	}
	return strings.TrimSpace(at)
}

// note writes a line into the log of hub, a or b.
func (b *bed) note(name, what string) {
	b.Helper()
	log, err := os.OpenFile(b.path(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	b.must(err)
	defer log.Close()
	slog.New(slog.NewTextHandler(log, nil)).Info("FAULT " + what)
}

// kill kills hub, a or b, if it runs.
func (b *bed) kill(name string) {
	b.note(name, "kill")
	if p := b.procs[name]; p != nil {
		p.Kill()
		delete(b.procs, name)
	}
}

// ledger calls f with the ledger of a machine.
func (b *bed) ledger(machine string, f func(*ledger.Ledger)) {
	b.Helper()
	lg, err := ledger.Open(context.Background(), b.path(machine, "ledger.db"))
	b.must(err)
	defer lg.Close()
	f(lg)
}

// witness calls f with the recorder of a machine.
func (b *bed) witness(machine string, f func(*recorder)) {
	b.Helper()
	r, err := openRecorder(context.Background(), b.path(machine))
	b.must(err)
	defer r.db.Close()
	f(r)
}

// stages returns how many messages of a machine are in each stage that is not final, or in
// verified.
func (b *bed) stages(lg *ledger.Ledger, machine string) map[ledger.Stage]int {
	b.Helper()
	ctx, n := context.Background(), map[ledger.Stage]int{}
	list, err := lg.Links.Machines(ctx, root)
	b.must(err)
	if n[ledger.StageQueued], n[ledger.StageStored] = list[0].Queued, list[0].Stored; n[ledger.StageQueued]+n[ledger.StageStored] > 0 {
		return n
	}
	var after int64
	for {
		open, err := lg.Outbox.Open(ctx, peerOf(machine), after, 2000)
		b.must(err)
		for _, o := range open {
			n[o.Stage]++
			after = o.Seq
		}
		if len(open) == 0 {
			return n
		}
	}
}

// confirmed waits until the machine knows that n messages were delivered.
func (b *bed) confirmed(machine string, n int) {
	b.Helper()
	limit := time.Now().Add(patience)
	b.ledger(machine, func(lg *ledger.Ledger) {
		for {
			stages := b.stages(lg, machine)
			if stages[ledger.StageVerified] == n && stages[ledger.StageQueued]+stages[ledger.StageStored] == 0 {
				return
			}
			if time.Now().After(limit) {
				logs := ""
				for _, name := range []string{"hub", "a", "b"} {
					log, _ := os.ReadFile(b.path(name + ".log"))
					logs += fmt.Sprintf("\n%s:\n%s", name, log[max(0, len(log)-3000):])
				}
				b.Fatalf("after %v, the messages of %s have come to %v; want %d verified%s", patience, machine, stages, n, logs)
			}
			time.Sleep(50 * time.Millisecond) // another process changes it
		}
	})
}
