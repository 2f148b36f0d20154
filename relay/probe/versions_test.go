package probe_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teambridge/relay/probe"
	"teambridge/teams"
)

// With -update, tests write what they would compare: TestRealVersions what it found into versions.json, TestReadme the table of
// versions into the README.
var update = flag.Bool("update", false, "write versions.json and the table of the README")

var (
	versionsFile = filepath.Join("..", "..", "testdata", "contract", "versions.json")
	readmeFile   = filepath.Join("..", "..", "README.md")
)

// measured is what was found of a version: yes or no, by the names of points.
type measured struct {
	Version string            `json:"version"`
	Points  map[string]string `json:"points"`
}

func readVersions(t *testing.T) (all []measured) {
	t.Helper()
	data, err := os.ReadFile(versionsFile)
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// keep puts what was found of a version into versions.json.
func keep(t *testing.T, r probe.Result) {
	t.Helper()
	all := slices.DeleteFunc(readVersions(t), func(m measured) bool { return m.Version == r.Version.String() })
	m := measured{Version: r.Version.String(), Points: map[string]string{}}
	for _, f := range r.Points {
		if f.Found != teams.Unsure {
			m.Points[f.Name] = f.Found.String()
		}
	}
	all = append(all, m)
	slices.SortFunc(all, func(a, b measured) int { return version(t, a).Compare(version(t, b)) })
	data, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.WriteFile(versionsFile, append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func version(t *testing.T, m measured) teams.Version {
	t.Helper()
	v, err := teams.ParseVersion(m.Version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What was measured is what the code goes by, of all points, and it knows which versions were measured.
func TestMeasured(t *testing.T) {
	t.Parallel()
	var all []teams.Version
	for _, m := range readVersions(t) {
		v := version(t, m)
		all = append(all, v)
		for _, p := range probe.Points() {
			found, ok := m.Points[p.Name]
			if expected := p.Expected(v); expected != teams.Unsure && found != expected.String() {
				t.Errorf("%s, %s: measured %q, the table says %s", v, p.Name, found, expected)
			}
			if ok {
				delete(m.Points, p.Name)
			}
		}
		for name := range maps.Keys(m.Points) {
			t.Errorf("%s: there is no point %s any more; measure again with .ci/probe", v, name)
		}
	}
	if got := teams.Listed(); !slices.Equal(got, all) {
		t.Errorf("teams.Listed has %v, versions.json %v", got, all)
	}
}

// The columns of the table in the README.
var columns = []struct{ title, point string }{
	{"team at the start", "TeamAtStart"}, {"a taken row", "RemovesTaken"}, {"taken before it is delivered", "MarksFirst"}, {"writes to `user`", "RefusesUser"},
	{"rows have ids", "TagsRows"}, {"idle with the result", "IdleResult"}, {"socket", "SessionSocket"}, {"says what it does", "TellsWork"}, {"says how a frame ends", "Lifecycle"},
}

// cells are words for points of which yes and no would not say enough.
var cells = map[string]map[string]string{
	"RemovesTaken": {"yes": "is removed", "no": "is marked"},
	"RefusesUser":  {"yes": "no", "no": "yes"},
}

// table is the table of versions: a row for those that follow each other and do the same.
func table(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Claude Code |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.title)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(columns)) + "\n")
	type line struct{ first, last, row string }
	var lines []line
	for _, m := range readVersions(t) {
		row := ""
		for _, c := range columns {
			word := m.Points[c.point]
			if other, ok := cells[c.point][word]; ok {
				word = other
			}
			row += fmt.Sprintf(" %s |", word)
		}
		if n := len(lines); n > 0 && lines[n-1].row == row {
			lines[n-1].last = m.Version
			continue
		}
		lines = append(lines, line{m.Version, m.Version, row})
	}
	for _, l := range lines {
		versions := l.first
		if l.last != l.first {
			versions += " to " + l.last
		}
		fmt.Fprintf(&b, "| %s |%s\n", versions, l.row)
	}
	return b.String()
}

// The README has the table that was measured.
func TestReadme(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- versions: written by .ci/probe -->\n", "<!-- end of versions -->"
	data, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	has, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", readmeFile)
	}
	want := table(t)
	switch {
	case has == want:
	case *update:
		if err := os.WriteFile(readmeFile, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the README has\n%s\nand versions.json says\n%s\nwrite it with: go test ./relay/probe -run TestReadme -update", has, want)
	}
}
