package links

import (
	"testing"

	"teambridge/status/local"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][4]string{ // member and team, and of the team, if that is elsewhere, its name and machine
		"worker":            {"worker"},
		"worker@ci":         {"worker", "ci"},
		"worker@ci@build":   {"worker", "ci@build", "ci", "build"},
		"worker@ci@other":   {"worker@ci", "other"},
		"worker@build":      {"worker", "build"},
		"a@b@ci@build":      {"a@b", "ci@build", "ci", "build"},
		"user@myteam@build": {"user", "myteam@build", "myteam", "build"},
		"@ci@build":         {"@ci", "build"},
	} {
		member, team := split(address, func(name string) bool { return name == "build" })
		there, machine, ok := local.Elsewhere(team)
		if !ok {
			there = ""
		}
		if got := [4]string{member, team, there, machine}; got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	if team, machine, ok := local.Elsewhere("a@b@build"); team != "a@b" || machine != "build" || !ok {
		t.Errorf("team %q on %q", team, machine)
	}
}
