package nats_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/relay/link"
	"teambridge/relay/link/hub"
)

// certificate writes a certificate for 127.0.0.1 and its key, and returns its fingerprint.
func certificate(t *testing.T) (cert, key, fingerprint string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	must(t, err)
	kd, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600))
		return path
	}
	return write("cert", "CERTIFICATE", der), write("key", "PRIVATE KEY", kd), fmt.Sprintf("%x", sha256.Sum256(der))
}

// A hub with TLS is trusted only by its CA or by its fingerprint.
func TestTLS(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a")
	b.stop()
	cert, key, fingerprint := certificate(t)
	other, _, wrong := certificate(t)
	h, err := hub.Open(t.Context(), hub.Options{Dir: b.dir, Listen: "127.0.0.1:0", TLSCert: cert, TLSKey: key})
	must(t, err)
	defer h.Close()
	for _, tt := range []struct{ ca, print, want string }{
		{cert, "", ""},
		{"", fingerprint, ""},
		{"", strings.ToUpper(fingerprint[:2]) + ":" + fingerprint[2:], ""},
		{cert, fingerprint, ""},
		{"", "", "--trust FILE (nats: tls error: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{other, "", "unknown authority"},
		{"", wrong, "another certificate"},
		{cert, wrong, "another certificate"},
		{other, fingerprint, "unknown authority"},
	} {
		o := b.options("a")
		o.Hub, o.CA, o.Fingerprint, o.Unpin = "tls://"+h.Addr().String(), tt.ca, tt.print, true
		w := b.dial(o)
		until(t, w, func(s link.State) bool {
			if tt.want == "" {
				return s.Queue != "" && s.Err == ""
			}
			return !s.Connected && strings.Contains(s.Err, tt.want)
		})
		w.Close()
	}
}

// At an ssh:// address the caller dials, again after each loss.
func TestDialer(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	p := newProxy(t, b.listen)
	var dials atomic.Int32
	o := b.options("b")
	o.Hub = "ssh://box"
	o.Dial = func(ctx context.Context) (net.Conn, error) {
		if dials.Add(1) == 1 {
			return nil, fmt.Errorf("ssh: no route to box")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", p.Addr().String())
	}
	wa, wb := b.wire("a"), b.dial(o)
	until(t, wb, func(s link.State) bool { return strings.Contains(s.Err, "no route to box") })
	until(t, wb, func(s link.State) bool { return s.Queue != "" && s.Err == "" })
	send(t, wa, "b", "1", "one")
	want(t, wb, "a", "one")
	before := dials.Load()
	p.cut(false)
	send(t, wa, "b", "2", "two")
	for { // the first one comes again if its acknowledgment was cut off
		a := next(t, wb)
		a.Ack(t.Context())
		if string(a.Frame) == "two" {
			break
		}
	}
	if dials.Load() == before {
		t.Error("not dialled again")
	}
}
