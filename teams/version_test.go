package teams

import "testing"

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]Version{
		"2.1.160":               {2, 1, 160},
		"2.1.329 (Claude Code)": {2, 1, 329},
		" 10.0.0\n":             {10, 0, 0},
	} {
		if got, err := ParseVersion(in); err != nil || got != want {
			t.Errorf("ParseVersion(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "2.1", "2.1.x", "2.1.-3", "2.1.3.4", "v2.1.3"} {
		if got, err := ParseVersion(in); err == nil || got.Known() {
			t.Errorf("ParseVersion(%q) = %v, %v, want an error", in, got, err)
		}
	}
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version string
		want    string
	}{
		{"", ""},
		{"2.1.257", ""},
		{"2.2.0", ""},
		{"2.1.256", "worker is Claude Code 2.1.256, and teambridge needs 2.1.257 or newer: update it with claude update"},
		{"1.9.999", "worker is Claude Code 1.9.999, and teambridge needs 2.1.257 or newer: update it with claude update"},
	} {
		v, _ := ParseVersion(test.version)
		got := ""
		if err := v.Check("worker"); err != nil {
			got = err.Error()
		}
		if got != test.want || v.Outdated() != (test.want != "") {
			t.Errorf("%q: %q, outdated %v, want %q", test.version, got, v.Outdated(), test.want)
		}
	}
}
