package nats_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"teambridge/relay/link"
	"teambridge/relay/link/nats"
)

func TestKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if _, err := nats.ReadKey(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	k := newKey(t)
	must(t, nats.WriteKey(path, k))
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	again, err := nats.ReadKey(path)
	must(t, err)
	if again.Card("a") != k.Card("a") {
		t.Errorf("read %v, wrote %v", again.Card("a"), k.Card("a"))
	}
	if err := nats.WriteKey(path, newKey(t)); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a key was replaced: %v", err)
	}
	data, err := os.ReadFile(path)
	must(t, err)
	lines := strings.Split(string(data), "\n")
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "two lines"},
		{"one line", lines[0], "two lines"},
		{"cut off", string(data[:len(data)-9]), "line 2"},
		{"the wrong way round", lines[1] + "\n" + lines[0] + "\n", "line 1"},
		{"a public key", k.Card("a").Key + "\n" + lines[1] + "\n", "line 1"},
		{"an account", "SAAPNDVDCN2K3LGMGKGFVBVTSIYVRVYZ2TVO2VKJHV62YXUIXNAALNJMYU\n" + lines[1], "line 1"},
		{"long", strings.Repeat("x", 5000), "two lines"},
		{"more", string(data) + "x", "two lines"},
	} {
		must(t, os.WriteFile(path, []byte(tt.text), 0o600))
		if _, err := nats.ReadKey(path); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", tt.name, err)
		} else if strings.Contains(err.Error(), lines[0]) || strings.Contains(err.Error(), lines[1]) {
			t.Errorf("%s: the error has a secret", tt.name)
		}
	}
	if _, err := nats.ReadKey(filepath.Dir(path)); err == nil {
		t.Error("a directory was read")
	}
	if runtime.GOOS != "windows" {
		must(t, errors.Join(os.WriteFile(path, data, 0o600), os.Chmod(path, 0o640)))
		if _, err := nats.ReadKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("others can read it: %v", err)
		}
	}
}

func TestParseCard(t *testing.T) {
	t.Parallel()
	c := newKey(t).Card("build-2")
	got, err := nats.ParseCard(" " + c.String() + "\n")
	if err != nil || got != c {
		t.Fatalf("got %v, %v; want %v", got, err, c)
	}
	secret := "SUAPNDVDCN2K3LGMGKGFVBVTSIYVRVYZ2TVO2VKJHV62YXUIXNAALNJMYU"
	for _, tt := range []struct{ card, want string }{
		{"", "NAME:U…:X…"},
		{"build", "NAME:U…:X…"},
		{c.String() + ":x", "NAME:U…:X…"},
		{":" + c.Key + ":" + c.Box, "1 to 32"},
		{strings.Repeat("a", 33) + ":" + c.Key + ":" + c.Box, "1 to 32"},
		{"Build:" + c.Key + ":" + c.Box, "only a to z"},
		{"a.b:" + c.Key + ":" + c.Box, "only a to z"},
		{"*:" + c.Key + ":" + c.Box, "only a to z"},
		{">:" + c.Key + ":" + c.Box, "only a to z"},
		{"a\nb:" + c.Key + ":" + c.Box, "only a to z"},
		{"a:" + c.Box + ":" + c.Key, "second part"},
		{"a:" + c.Key + ":" + c.Key, "third part"},
		{"a:" + c.Key[:20] + ":" + c.Box, "missing or wrong"},
		{"a:" + strings.ToLower(c.Key) + ":" + c.Box, "second part"},
		{"a:" + secret + ":" + c.Box, "secret"},
	} {
		_, err := nats.ParseCard(tt.card)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.card, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

// A card that can be parsed is printed as it was.
func FuzzParseCard(f *testing.F) {
	k, err := nats.NewKey()
	must(f, err)
	f.Add(k.Card("a").String())
	f.Add("a:b:c")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := nats.ParseCard(s); err == nil && c.String() != strings.TrimSpace(s) {
			t.Errorf("%q was read as %q", s, c)
		}
	})
}

// Open never accepts a text that was not sealed.
func FuzzOpen(f *testing.F) {
	a, err := nats.NewKey()
	must(f, err)
	b, err := nats.NewKey()
	must(f, err)
	sealed, err := a.Seal('f', "a", b.Card("b"), []byte("text"))
	must(f, err)
	f.Add(sealed, []byte("text"))
	f.Add(sealed[:28], []byte("\x01f\x01a\x01btext"))
	f.Add([]byte("xkv1"), []byte(nil))
	f.Fuzz(func(t *testing.T, data, text []byte) {
		if got, err := b.Open('f', a.Card("a"), "b", data); err == nil && !bytes.Equal(data, sealed) {
			t.Errorf("%q was opened as %q", data, got)
		}
		raw, err := a.SealRaw(b.Card("b"), text)
		must(t, err)
		got, err := b.Open('f', a.Card("a"), "b", raw)
		if want, ok := bytes.CutPrefix(text, []byte("\x01f\x01a\x01b")); ok != (err == nil) || ok && !bytes.Equal(got, want) {
			t.Errorf("%q was opened as %q, %v", text, got, err)
		}
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	o := nats.Options{Name: "a", Key: newKey(t), Card: func(string) (nats.Card, bool) { return nats.Card{}, false }}
	for _, tt := range []struct{ hub, ca, print, want string }{
		{"nats://10.0.0.1:4222", "", "", "not encrypted"},
		{"nats://localhost.example.org", "", "", "not encrypted"},
		{"localhost:4222", "", "", "tls://HOST:PORT"},
		{"", "", "", "tls://HOST:PORT"},
		{"ws://localhost", "", "", "begins with"},
		{"nats://user:word@localhost", "", "", "knows a machine by its key"},
		{"ssh://box", "", "", "cannot run ssh"},
		{"ssh://box/run/hub.sock", "", "", "use ssh://box"},
		{"ssh://box?x=y", "", "", "use ssh://box"},
		{"tls://box:4222/#x", "", "", "use tls://box:4222"},
		{"nats://127.0.0.1/?", "", "", "a query"},
		{"tls://box", "/does/not/exist", "", "no such file"},
		{"tls://box", os.DevNull, "", "no certificate"},
		{"tls://box", "", "ab:cd", "64 hexadecimal digits"},
	} {
		o := o
		o.Hub, o.CA, o.Fingerprint = tt.hub, tt.ca, tt.print
		w, err := nats.Dial(t.Context(), o)
		if err == nil {
			w.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.hub, err)
		} else if strings.Contains(err.Error(), "word") {
			t.Errorf("%s: the error has the password", tt.hub)
		}
	}
	o.Hub, o.Name = "nats://127.0.0.1:1", "a.b"
	if _, err := nats.Dial(t.Context(), o); err == nil {
		t.Error("a.b is a name")
	}
	var _ link.Wire = (*nats.Wire)(nil)
}
