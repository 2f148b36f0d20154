package claude

import (
	"os"
	"path/filepath"
	"testing"
)

// Settings of the user, of the organization and of the command keep an agent from asking; those of a project do not.
func TestNobodyAsked(t *testing.T) {
	t.Parallel()
	const denies, asks = `{"permissions":{"denyInsteadOfPrompting":true}}`, `{"permissions":{"denyInsteadOfPrompting":false}}`
	for name, test := range map[string]struct {
		file, content string
		command       []string
		want          string // a file below the directory of the test, or a flag
	}{
		"none":                     {},
		"the user":                 {file: "root/settings.json", content: denies, want: "root/settings.json"},
		"the user says no":         {file: "root/settings.json", content: asks},
		"not where it belongs":     {file: "root/settings.json", content: `{"denyInsteadOfPrompting":true}`},
		"no JSON":                  {file: "root/settings.json", content: `{`},
		"a project":                {file: "work/.claude/settings.json", content: denies},
		"the organization":         {file: "managed/managed-settings.json", content: denies, want: "managed/managed-settings.json"},
		"a part of those":          {file: "managed/managed-settings.d/10.json", content: denies, want: "managed/managed-settings.d/10.json"},
		"the command":              {command: []string{"claude", "--settings", denies}, want: "--settings"},
		"the command, with =":      {command: []string{"claude", "--settings=" + denies}, want: "--settings"},
		"the command says no":      {command: []string{"claude", "--settings", asks}},
		"a file of the command":    {file: "work/s.json", content: denies, command: []string{"claude", "--settings", "s.json"}, want: "work/s.json"},
		"a file that is not there": {command: []string{"claude", "--settings", "s.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if test.file != "" {
				path := filepath.Join(dir, test.file)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must(t, os.WriteFile(path, []byte(test.content), 0o600))
			}
			want := test.want
			if want != "" && want != "--settings" {
				want = filepath.Join(dir, want)
			}
			if got := nobodyAsked(filepath.Join(dir, "root"), filepath.Join(dir, "work"), test.command, filepath.Join(dir, "managed")); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
