package shell

import (
	"os"
	"path/filepath"
	"testing"
)

// A link in $PATH stays a link, and another program of the same name does not count as this one.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	bin, cellar, other := filepath.Join(dir, "bin"), filepath.Join(dir, "cellar", "1"), filepath.Join(dir, "other")
	for _, d := range []string{bin, cellar, other} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := "tb" + filepath.Ext(self)
	real, link := filepath.Join(cellar, name), filepath.Join(bin, name)
	for path, text := range map[string]string{real: "#!/bin/sh\n", filepath.Join(other, name): "#!/bin/sh\n# another\n"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err) // Windows requires a privilege
	}
	for _, c := range []struct{ path, started, want string }{
		{bin, "tb", link},
		{bin, link, link},
		{bin, real, link},
		{other, "tb", real},
		{other, link, link},
		{"", "tb", real},
		{other + string(filepath.ListSeparator) + bin, "tb", real}, // a shell would start the other one
	} {
		t.Setenv("PATH", c.path)
		if got := found(real, c.started); got != c.want {
			t.Errorf("with %q in $PATH and started as %q: %q, want %q", c.path, c.started, got, c.want)
		}
	}
}
