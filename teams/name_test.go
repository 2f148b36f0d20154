package teams

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"alice":                             true,
		"team-lead":                         true,
		"session-2de3961d":                  true,
		"My Team 2":                         true,
		"a.b":                               true,
		"Zoë":                               true,
		"队长":                                true,
		"-rf":                               true,
		"a@b":                               true,
		"console":                           true,
		"com":                               true,
		"com10":                             true,
		"lpt":                               true,
		strings.Repeat("x", 64):             true,
		strings.Repeat("长", 64):             true,
		"":                                  false,
		".":                                 false,
		"..":                                false,
		"../config":                         false,
		"a/b":                               false,
		`a\b`:                               false,
		"/etc/passwd":                       false,
		"a..b":                              false,
		".hidden":                           false,
		"dot.":                              false,
		"space ":                            false,
		" ":                                 false,
		"new\nline":                         false,
		"nul\x00":                           false,
		"esc\x1b[2J":                        false,
		"c1\u0085":                          false,
		"del\x7f":                           false,
		"bad\xff":                           false,
		"CON":                               false,
		"nul":                               false,
		"nul.txt":                           false,
		"aux .x":                            false,
		"com1":                              false,
		"COM0":                              false,
		"lpt9.json":                         false,
		"LPT²":                              false,
		"conin$":                            false,
		strings.Repeat("x", 65):             false,
		strings.Repeat("\U0001f600", 64):    false, // 256 bytes
		strings.Repeat("huge", 1<<20) + "/": false,
	} {
		err := CheckName("member", name)
		if good && err != nil {
			t.Errorf("CheckName(%q) = %v, want nil", name, err)
		}
		if !good && !errors.Is(err, ErrBadName) {
			t.Errorf("CheckName(%.80q) = %v, want ErrBadName", name, err)
		}
		if err != nil && (len(err.Error()) > 1200 || strings.ContainsAny(err.Error(), "\x1b\n\x00")) {
			t.Errorf("CheckName(%.80q): an error of %d bytes, or one with raw control characters", name, len(err.Error()))
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"alice", "../x", "a/../../b", "nul", "..", `\\host\share`, "c:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName("member", name) != nil {
			return
		}
		if got := filepath.Dir(filepath.Join("inboxes", name+".json")); got != "inboxes" {
			t.Errorf("%q leads to %q", name, got)
		}
		if filepath.Base(name) != name {
			t.Errorf("%q is not a file name", name)
		}
	})
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]string{
		"bob":        {"bob", ""},
		"bob@team":   {"bob", "team"},
		"a@b@team":   {"a@b", "team"},
		"@team":      {"@team", ""},
		"bob@":       {"bob@", ""},
		"":           {"", ""},
		"@":          {"@", ""},
		"../x@../t":  {"../x", "../t"},
		"bob@ team ": {"bob", " team "},
	} {
		if m, team := Split(address); m != want[0] || team != want[1] {
			t.Errorf("Split(%q) = %q, %q, want %q", address, m, team, want)
		}
	}
}

func TestMemberIn(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"bob":         "bob",
		"bob@t":       "bob",
		"a@b@t":       "a@b",
		"bob@other":   "bob@other",
		"bob@t@build": "bob@t@build",
	} {
		if got := MemberIn(address, "t"); got != want {
			t.Errorf("MemberIn(%q) = %q, want %q", address, got, want)
		}
	}
	if got := MemberIn("bob@t@build", "t@build"); got != "bob" {
		t.Errorf("on another machine: %q", got)
	}
}
