package stdio

import (
	"os"
	"path/filepath"
	"testing"
)

func TestColourful(t *testing.T) {
	t.Parallel()
	device, err := os.Open(os.DevNull) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		name string
		f    *os.File
		env  map[string]string
		want bool
	}{
		{"terminal", device, nil, true},
		{"NO_COLOR", device, map[string]string{"NO_COLOR": "1"}, false},
		{"empty NO_COLOR", device, map[string]string{"NO_COLOR": ""}, true},
		{"dumb terminal", device, map[string]string{"TERM": "dumb"}, false},
		{"file", file, nil, false},
	} {
		lookup := func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
		if got := Colourful(c.f, lookup); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The null device is no terminal.
func TestIsTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if IsTerminal(null) {
		t.Errorf("%s is a terminal", os.DevNull)
	}
}
