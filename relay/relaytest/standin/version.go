package standin

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teambridge/teams"
)

// latest is the name in .ci/versions for the newest version of the registry.
// .ci/install links it to the version that it found.
const latest = "latest"

// Versions returns the versions of Claude Code that tests run, oldest first: those of .ci/versions that [EnvVersions]
// selects. No test names a version.
func Versions(t testing.TB) []teams.Version {
	t.Helper()
	top, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(top, ".ci", "versions")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("standin: %v", err)
	}
	selected := strings.FieldsFunc(os.Getenv(EnvVersions), func(r rune) bool { return r == ',' || r == ' ' })
	if len(selected) == 0 {
		selected = []string{"ci"}
	}
	names, err := selectVersions(string(data), selected)
	if err != nil {
		t.Fatalf("standin: %s: %v", file, err)
	}
	var versions []teams.Version
	for _, name := range names {
		if name == latest {
			dir, err := interop()
			if err == nil {
				name, err = os.Readlink(filepath.Join(dir, latest))
			}
			if err != nil {
				missing(t, fmt.Errorf("the latest Claude Code is not installed: %w; %s", err, howToInstall))
			}
		}
		v, err := teams.ParseVersion(name)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
	}
	slices.SortFunc(versions, teams.Version.Compare)
	return slices.Compact(versions)
}

// selectVersions returns the names, from the text of .ci/versions, that are selected by themselves or by their lane. A
// version that is selected by itself need not be there.
func selectVersions(text string, selected []string) ([]string, error) {
	lanes := map[string][]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("want VERSION LANE in each line, got %q", line)
		}
		lanes[fields[1]] = append(lanes[fields[1]], fields[0])
	}
	var names []string
	for _, s := range selected {
		if _, err := teams.ParseVersion(s); err == nil || s == latest {
			names = append(names, s)
			continue
		}
		if len(lanes[s]) == 0 {
			return nil, fmt.Errorf("%s selects %q, which is neither a version nor a lane", EnvVersions, s)
		}
		names = append(names, lanes[s]...)
	}
	return names, nil
}

// ForEach runs a test as a subtest with each of [Versions].
func ForEach(t *testing.T, test func(t *testing.T, v teams.Version)) {
	t.Helper()
	for _, v := range Versions(t) {
		t.Run(v.String(), func(t *testing.T) { test(t, v) })
	}
}

// ForSome is [ForEach] with one of the versions, unless [EnvVersions] selects some: for tests that .ci/long runs with all.
// Which it is depends on the name of the test, so that each version has its share of them.
func ForSome(t *testing.T, test func(t *testing.T, v teams.Version)) {
	t.Helper()
	list := Versions(t)
	if os.Getenv(EnvVersions) == "" {
		one := int(crc32.ChecksumIEEE([]byte(t.Name()))) % len(list)
		list = list[one : one+1]
	}
	for _, v := range list {
		t.Run(v.String(), func(t *testing.T) { test(t, v) })
	}
}

// Newest returns the newest of [Versions].
func Newest(t testing.TB) teams.Version {
	t.Helper()
	list := Versions(t)
	return list[len(list)-1]
}

// Oldest returns the oldest of [Versions].
func Oldest(t testing.TB) teams.Version {
	t.Helper()
	return Versions(t)[0]
}

// moduleRoot returns the folder with go.mod, above the working directory of the test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if readable(filepath.Join(dir, "go.mod")) == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("standin: no go.mod above the working directory")
		}
		dir = up
	}
}
