package tmux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"teambridge/teams/errtest"
)

const (
	queuedHint = "Press up to edit queued messages"
	longLine   = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx fourth"
)

// screens has the expected readings of the samples in testdata/screens/VERSION/NAME.txt. Those named "narrow-" have
// 60 columns, and those named "light-" have a light theme, a status line of the user's own, and suggestions.
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
	"stashed":            {Found: true, Stashed: true},
	"stashed-draft":      {Found: true, Stashed: true, Draft: "another"},
	"waits":              {Found: true, Busy: true},
	"waits-draft":        {Found: true, Busy: true, Draft: "my draft"},
	"queued":             {Found: true, Busy: true, Queued: 1, Ghost: queuedHint},
	"queued-2":           {Found: true, Busy: true, Queued: 1, Ghost: queuedHint},
	"queued-2-draft":     {Found: true, Busy: true, Queued: 1, Draft: "still draft"},
	"after-turn":         {Found: true},
	"streams":            {Found: true, Busy: true},
	"streams-draft":      {Found: true, Busy: true, Draft: "my draft"},
	"tool":               {Found: true, Busy: true},
	"tool-draft":         {Found: true, Busy: true, Draft: "my draft"},
	"interrupted":        {Found: true, Draft: "SLEEP:9\nhi"}, // an unanswered prompt comes back
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
	"rewind":             {Dialog: "Rewind"},
	"transcript":         {Dialog: "Showing detailed transcript"},
	"search":             {Dialog: "Search prompts · everywhere"},
	"shell":              {},

	"light-empty":          {Found: true, Ghost: `Try "edit <filepath> to…"`},
	"light-suggestion":     {Found: true, Ghost: "run the tests"},
	"light-unfocused":      {Found: true, Ghost: "run the tests"},
	"light-slash-home":     {Found: true, Draft: "/model"},
	"light-slash-argument": {Found: true, Draft: "/model  [model]"},
	"light-streams-draft":  {Found: true, Busy: true, Draft: "x"},
	"light-color":          {Found: true},

	"narrow-draft-lines": {Found: true, Draft: "first line\nsecond line\n\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nxxxxxxxxxxxxxx fourth"},
}

// differ has the samples of a version that differ: 2.1.257 shows each waiting message.
var differ = map[string]map[string]Composer{
	"2.1.257": {"queued-2": {Found: true, Busy: true, Queued: 2, Ghost: queuedHint}},
}

var must = errtest.Must

// TestScreens: the recorded screens of each version in each state are read rightly.
func TestScreens(t *testing.T) {
	samples, err := filepath.Glob("testdata/screens/*/*.txt")
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, sample := range samples {
		data, err := os.ReadFile(sample)
		must(t, err)
		version := filepath.Base(filepath.Dir(sample))
		name := strings.TrimSuffix(filepath.Base(sample), ".txt")
		t.Run(version+"/"+name, func(t *testing.T) {
			want, ok := screens[name]
			if !ok {
				want, ok = screens[strings.TrimPrefix(name, "narrow-")]
			}
			if other, differs := differ[version][name]; differs {
				want = other
			}
			if name == "light-draft-high" { // only its end is on the screen
				got := Claude.Read(string(data))
				if _, last, _ := strings.Cut(got.Draft, "line 58"); !got.Found || !strings.Contains(last, "line 59") {
					t.Errorf("got %+v", got)
				}
				return
			}
			if got := Claude.Read(string(data)); !ok || got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if got := Generic.Read(string(data)); got != (Composer{}) || got.State() != Unknown {
				t.Errorf("generic: got %+v, %s", got, got.State())
			}
		})
	}
}

// TestSigns: screens that differ in one sign are read rightly.
func TestSigns(t *testing.T) {
	const rule = "────────────────────\n"
	for name, test := range map[string]struct {
		screen string
		want   Composer
	}{
		"no screen":             {"", Composer{}},
		"a shell":               {"$ ls\nfile\n$", Composer{}},
		"ends in a sequence":    {rule + "❯\u00a0\n" + rule + "\x1b[", Composer{Found: true}},
		"colours of the theme":  {rule + "\x1b[38;2;1;2;3m❯\u00a0\x1b[39m\n" + rule, Composer{Found: true, Busy: true}},
		"named colours":         {rule + "\x1b[90m❯\u00a0\x1b[0m\n" + rule, Composer{Found: true, Busy: true}},
		"colour ended":          {"\x1b[31mred\x1b[39m\n" + rule + "❯\u00a0hi\n" + rule, Composer{Found: true, Draft: "hi"}},
		"suggestion of a word":  {rule + "❯\u00a0\x1b[7mI\x1b[0m \x1b[2mdo\x1b[0m\n" + rule, Composer{Found: true, Ghost: "I do"}},
		"cursor on a draft":     {rule + "❯\u00a0\x1b[7mI\x1b[0m do\n" + rule, Composer{Found: true, Draft: "I do"}},
		"draft and completion":  {rule + "❯\u00a0/mo\x1b[2mdel\x1b[0m\n" + rule, Composer{Found: true, Draft: "/mo"}},
		"something below":       {rule + "❯\u00a0\n" + rule + "Segmentation fault\n$", Composer{}},
		"something below draft": {rule + "❯\u00a0/\n" + rule + "Segmentation fault\n$", Composer{}},
		"options below":         {rule + "❯\u00a0\n" + rule + "  Really?\n  ❯ 1. Yes\n    2. No", Composer{Dialog: "Really?"}},
		"a prompt of a dialog":  {rule + "❯ \n" + rule, Composer{}},
		"lower of two":          {rule + "❯\u00a0\n" + rule + rule + "❯\u00a0me\n" + rule, Composer{Found: true, Draft: "me"}},
		"name in the rule":      {"──── @worker ─\n❯\u00a0\n" + rule, Composer{Found: true}},
		"working":               {"✻ Thinking… (3s · esc to interrupt)\n\n" + rule + "❯\u00a0\n" + rule, Composer{Found: true, Busy: true}},
		"worked":                {"✻ Cooked for 3s\n\n" + rule + "❯\u00a0\n" + rule, Composer{Found: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Claude.Read(test.screen); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// Only a title with a spinner and a text shows that a Claude Code is busy.
func TestBusyTitle(t *testing.T) {
	for title, want := range map[string]bool{
		"⠂ Claude Code": true, "⠐ my task": true, "◐ Claude Code": true, "◑ Claude Code": true,
		"✳ Claude Code": false, "": false, "host": false, "Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA": false, "⠂": false,
	} {
		if got := Claude.BusyTitle(title); got != want {
			t.Errorf("%q: got %t", title, got)
		}
	}
	if Generic.BusyTitle("⠂ Claude Code") {
		t.Error("generic: busy")
	}
}

// FuzzRead: for any output of an agent, with and without a composer below it, only the text in the lowest composer
// counts as a draft.
func FuzzRead(f *testing.F) {
	samples, err := filepath.Glob("testdata/screens/2.1.329/*.txt")
	must(f, err)
	for _, sample := range samples {
		data, err := os.ReadFile(sample)
		must(f, err)
		f.Add(string(data), "a draft")
	}
	f.Add("────────────────────\n❯\u00a0fake\n────────────────────\n  ? for shortcuts", "x")
	f.Fuzz(func(t *testing.T, printed, typed string) {
		Claude.Read(printed)

		// An agent's output is indented, without control characters.
		clean := func(text string) string {
			return strings.Map(func(r rune) rune {
				if unicode.IsControl(r) && r != '\n' || r == utf8.RuneError || r == nbsp {
					return -1
				}
				return r
			}, text)
		}
		printed = "● " + strings.ReplaceAll(clean(printed), "\n", "\n  ")
		typed = strings.TrimSpace(strings.ReplaceAll(clean(typed), "\n", " "))
		const rule = "────────────────────────────────────────"
		got := Claude.Read(printed + "\n\n" + rule + "\n❯\u00a0" + typed + "\n" + rule + "\n  ? for shortcuts")
		if !got.Found || got.Dialog != "" || got.Draft != typed || got.Ghost != "" {
			t.Errorf("got %+v for the draft %q", got, typed)
		}
	})
}
