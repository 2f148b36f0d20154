package transcript_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/teams/transcript"
)

// result is a record with the result of a tool.
func result(uuid, of string) string {
	return `{"type":"user","uuid":"` + uuid + `","timestamp":"2026-11-26T10:00:00.000Z","message":{"role":"user","content":[]},"toolUseResult":` + of + `}`
}

func TestChanges(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), "1.jsonl"), filepath.Join(t.TempDir(), "2.jsonl")
	edit := result("e", `{"filePath":"/w/a.txt","oldString":"two","newString":"2\n2b","originalFile":"one\ntwo\nthree\n","structuredPatch":[{"oldStart":1,"oldLines":3,"newStart":1,"newLines":4,"lines":[" one","-two","+2","+2b"," three"]}],"userModified":false,"replaceAll":false}`)
	for path, lines := range map[string][]string{
		one: {
			result("w", `{"type":"create","filePath":"/w/a.txt","content":"one\ntwo\nthree","structuredPatch":[],"originalFile":null}`),
			edit,
			result("x", `"Error: String to replace not found in file.\nString: nope"`),
			result("r", `{"type":"text","file":{"filePath":"/w/a.txt","content":"one"}}`),
			result("g", `{"filePath":"/w/a.txt","numFiles":1}`),
			result("n", `{"new_source":"x=2","old_source":"x=1","cell_type":"code","edit_mode":"replace","cell_id":"c1","error":"","notebook_path":"/w/n.ipynb"}`),
			result("m", `{"new_source":"","edit_mode":"replace","error":"no such cell","notebook_path":"/w/n.ipynb"}`),
			result("o", `{"type":"create","filePath":"/w/empty","content":"","structuredPatch":[]}`),
			result("p", `{"filePath":7,"structuredPatch":"x"}`),
			`{"type":"assistant","toolUseResult":{"filePath":"/w/b","structuredPatch":[]}}`,
		},
		two: {edit, result("u", `{"type":"update","filePath":"/w/a.txt","content":"","structuredPatch":[{"oldStart":1,"oldLines":1,"newStart":0,"newLines":0,"lines":["-one"]}]}`)},
	} {
		must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	}
	want := []transcript.Change{
		{Path: "/w/a.txt", Created: true, Added: 3, Patch: "@@ -0,0 +1,3 @@\n+one\n+two\n+three\n\\ No newline at end of file\n"},
		{Path: "/w/a.txt", Added: 2, Removed: 1, Patch: "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three\n"},
		{Path: "/w/n.ipynb", Added: 1, Removed: 1, Patch: "@@ -1,1 +1,1 @@\n-x=1\n\\ No newline at end of file\n+x=2\n\\ No newline at end of file\n"},
		{Path: "/w/empty", Created: true},
		{Path: "/w/a.txt", Removed: 1, Patch: "@@ -1,1 +0,0 @@\n-one\n"},
	}
	for c, err := range transcript.Changes(one, two) {
		must(t, err)
		if !c.At.Equal(hour) {
			t.Errorf("%s was changed at %v", c.Path, c.At)
		}
		c.At = want[0].At
		if c != want[0] {
			t.Errorf("%+v, want %+v", c, want[0])
		}
		if want = want[1:]; len(want) == 0 {
			want = []transcript.Change{{Path: "no more"}}
		}
	}
	if want[0].Path != "no more" {
		t.Errorf("never came: %+v", want)
	}
	for _, err := range transcript.Changes(filepath.Join(t.TempDir(), "none.jsonl")) {
		if err == nil {
			t.Error("a transcript that is not there has changes")
		}
	}
}

func FuzzChanges(f *testing.F) {
	f.Add(result("e", `{"filePath":"/w/a","structuredPatch":[{"lines":["-a","+b"]}]}`))
	f.Add(result("n", `{"notebook_path":"/w/n","edit_mode":"insert","new_source":"a\r\n\n"}`))
	f.Fuzz(func(t *testing.T, line string) {
		path := filepath.Join(t.TempDir(), "s.jsonl")
		must(t, os.WriteFile(path, []byte(line), 0o600))
		for c, err := range transcript.Changes(path) {
			if err != nil || c.Path == "" || c.Added < 0 || c.Removed < 0 || c.Patch != "" && !strings.HasSuffix(c.Patch, "\n") {
				t.Errorf("%+v, %v", c, err)
			}
		}
	})
}
