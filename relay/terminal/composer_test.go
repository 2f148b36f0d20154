package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	queuedHint = "Press up to edit queued messages"
	longLine   = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx fourth"
)

// screens says what the samples in testdata/screens/VERSION/NAME.txt show. A name that begins with a version is of
// that version alone.
var screens = map[string]Composer{
	"empty":              {Found: true},
	"empty-cut":          {Found: true},
	"draft":              {Found: true, Draft: "hello there"},
	"draft-lines":        {Found: true, Draft: "first line\nsecond line\n\n" + longLine},
	"draft-paste":        {Found: true, Draft: "[Pasted text #1 +29 lines]"},
	"bash-empty":         {Found: true, Draft: "!"},
	"bash-draft":         {Found: true, Draft: "!ls"},
	"slash-menu":         {Found: true, Draft: "/"},
	"file-menu":          {Found: true, Draft: "@"},
	"shortcuts":          {Found: true},
	"waits":              {Found: true, Busy: true},
	"waits-draft":        {Found: true, Busy: true, Draft: "my draft"},
	"queued":             {Found: true, Busy: true, Queued: 1, Ghost: queuedHint},
	"queued-2":           {Found: true, Busy: true, Queued: 2, Ghost: queuedHint},
	"queued-2-draft":     {Found: true, Busy: true, Queued: 2, Draft: "still draft"},
	"after-turn":         {Found: true},
	"streams":            {Found: true, Busy: true},
	"streams-draft":      {Found: true, Busy: true, Draft: "my draft"},
	"tool":               {Found: true, Busy: true},
	"tool-draft":         {Found: true, Busy: true, Draft: "my draft"},
	"interrupted":        {Found: true, Draft: "SLEEP:9\nhi"}, // an unanswered prompt comes back
	"2.1.80/interrupted": {Found: true},
	"interrupted-stream": {Found: true},
	"mode-bypass":        {Found: true},
	"mode-auto":          {Found: true},
	"mode-manual":        {Found: true},
	"echoed-composer":    {Found: true},
	"error":              {Found: true},
	"trust":              {Dialog: "Accessing workspace:"},
	"dialog-bash":        {Dialog: "Do you want to proceed?"},
	"dialog-write":       {Dialog: "Do you want to create a.txt?"},
	"dialog-question":    {Dialog: "Which?"},
	"menu-model":         {Dialog: "Select model"},
	"menu-config":        {Dialog: "Settings  Status   Config   Usage   Stats"},
	"2.1.80/menu-config": {Dialog: "Type to filter · Enter/↓ to select · ↑ to tabs · Esc to clear"},
	"rewind":             {Dialog: "Rewind"},
	"transcript":         {Dialog: "Showing detailed transcript"},
	"search":             {Found: true, Dialog: "search prompts"},
	"2.1.329/search":     {Dialog: "Search prompts · everywhere"},
	"shell":              {Found: true, Draft: "/exit"}, // its composer stays on the screen
	"2.1.329/shell":      {},
}

// TestScreens reads what the real program showed, each version in each state.
func TestScreens(t *testing.T) {
	samples, err := filepath.Glob("testdata/screens/*/*.txt")
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, sample := range samples {
		data, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		version := filepath.Base(filepath.Dir(sample))
		name := strings.TrimSuffix(filepath.Base(sample), ".txt")
		t.Run(version+"/"+name, func(t *testing.T) {
			want, ok := screens[version+"/"+name]
			if !ok {
				want, ok = screens[name]
			}
			if got := Claude.Read(string(data)); !ok || got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if got := Generic.Read(string(data)); got != (Composer{}) || got.State() != StateUnknown {
				t.Errorf("generic: got %+v, %s", got, got.State())
			}
		})
	}
}
