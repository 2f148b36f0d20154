package interactive

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/teams/errtest"
)

var must = errtest.Must

// recorded calls test with each recording of a real session at a terminal, offline. Each has prompts that ran at
// once, after a turn, and in one; one that was taken back; pastes, commands and a shell command; "again" and SIGTERM
// at once, which was too soon; and, resumed, two prompts that waited at a SIGKILL.
func recorded(t *testing.T, test func(t *testing.T, root, session string)) {
	paths, err := filepath.Glob("testdata/*/projects/*/*.jsonl")
	if err != nil || len(paths) != 2 {
		t.Fatalf("recordings: got %d (%v), want 2", len(paths), err)
	}
	for _, path := range paths {
		root := filepath.Dir(filepath.Dir(filepath.Dir(path)))
		t.Run(filepath.Base(root), func(t *testing.T) {
			t.Parallel()
			test(t, root, strings.TrimSuffix(filepath.Base(path), ".jsonl"))
		})
	}
}

const dir = "/home/user/work"

// The prompts that a real session had entered and not run are found in its files.
func TestUnrunOfRecordedSessions(t *testing.T) {
	t.Parallel()
	recorded(t, func(t *testing.T, root, session string) {
		var rows []string
		for n := range 12 {
			rows = append(rows, fmt.Sprintf("row %d", n))
		}
		waited := []string{"again", "see " + strings.Join(rows, "\n")}
		want := append([]string{"again"}, waited...)
		got, err := Unrun(root, dir, session, time.Time{})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		// From the last prompt on that ran.
		log, err := readPrompts(filepath.Join(root, "projects", "-home-user-work", session+".jsonl"), time.Time{})
		must(t, err)
		since := log.run[len(log.run)-1].At
		if got, err := Unrun(root, dir, session, since); err != nil || !slices.Equal(got, waited) {
			t.Errorf("since %v: got %q, %v, want %q", since, got, err, waited)
		}
		if got, err := Unrun(root, dir, session, since.Add(time.Hour)); err != nil || len(got) != 0 {
			t.Errorf("an hour later: got %q, %v, want nothing", got, err)
		}
		if mode, err := PermissionMode(root, dir, session); err != nil || mode != "bypassPermissions" {
			t.Errorf("permission mode: got %q, %v, want bypassPermissions", mode, err)
		}
		for after, want := range map[time.Duration]bool{-time.Second: true, time.Hour: false} {
			if entered, err := Entered(root, session, since.Add(after)); err != nil || entered != want {
				t.Errorf("entered %v after: got %t, %v, want %t", after, entered, err, want)
			}
		}
	})
}

const (
	session = "11111111-2222-4333-8444-555555555555"
	second  = 1795387828 // when the first prompt of a test was entered
)

// entry returns a line of the history, at seconds after the first.
func entry(at float64, text string) string {
	return fmt.Sprintf(`{"display":%q,"pastedContents":{},"timestamp":%d,"sessionId":%q}`, text, int64((second+at)*1000), session)
}

// record returns a line of the transcript; rest has its type and content.
func record(at float64, rest string) string {
	return fmt.Sprintf(`{"timestamp":%q,%s}`, time.UnixMilli(int64((second+at)*1000)).UTC().Format("2006-01-02T15:04:05.000Z"), rest)
}

func user(at float64, text string) string {
	return record(at, fmt.Sprintf(`"type":"user","message":{"role":"user","content":%q}`, text))
}

func queue(at float64, operation, text string) string {
	return record(at, fmt.Sprintf(`"type":"queue-operation","operation":%q,"content":%q`, operation, text))
}

// claudeDir is a Claude directory with a history and the transcript of a session.
func claudeDir(t testing.TB, history, transcript []string) string {
	t.Helper()
	root := t.TempDir()
	folder := filepath.Join(root, "projects", "-home-user-work")
	must(t, os.MkdirAll(folder, 0o700))
	write(t, filepath.Join(root, "history.jsonl"), strings.Join(history, "\n"))
	write(t, filepath.Join(folder, session+".jsonl"), strings.Join(transcript, "\n"))
	return root
}

func write(t testing.TB, path, data string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(data), 0o600))
}

func TestUnrun(t *testing.T) {
	t.Parallel()
	other := strings.ReplaceAll(entry(0, "of another session"), session, "99999999-2222-4333-8444-555555555555")
	for _, test := range []struct {
		name                string
		history, transcript []string
		want                []string
	}{
		{"nothing", nil, nil, nil},
		{"run", []string{entry(0, "hello")}, []string{user(-.003, "hello")}, nil},
		{"not run", []string{entry(0, "hello")}, nil, []string{"hello"}},
		{"another session", []string{other}, nil, nil},
		{"in order", []string{entry(0, "a"), entry(1, "b")}, []string{queue(.5, "enqueue", "c")}, []string{"a", "c", "b"}},
		{"the second of two", []string{entry(0, "yes"), entry(9, "yes")}, []string{user(0, "yes")}, []string{"yes"}},
		{"run long before", []string{entry(60, "yes")}, []string{user(0, "yes")}, []string{"yes"}},
		{"torn lines", []string{`{"display":"x`, entry(0, "a"), `{"display":"b","sessionId"`}, []string{`{"type":"user","mess`, user(0, "a"), `{"type"`}, nil},
		{"commands of Claude Code", []string{entry(0, "/clear"), entry(1, "/model opus"), entry(2, "!ls -l"), entry(3, " ")}, nil, nil},
		{"a command of the person", []string{entry(0, "/fix all of it")}, nil, []string{"/fix all of it"}},
		{"one that was run", []string{entry(0, "/fix all of it")}, []string{
			user(0, "<command-message>fix</command-message>\n<command-name>/fix</command-name>\n<command-args>all of it</command-args>"),
		}, nil},
		{"a path", []string{entry(0, "/etc/hosts is wrong")}, nil, []string{"/etc/hosts is wrong"}},
		{"a turn began with it", []string{entry(0, "a")}, []string{queue(0, "enqueue", "a"), record(1, `"type":"queue-operation","operation":"dequeue"`), user(1, "a")}, nil},
		{"taken, but not recorded", []string{entry(0, "a")}, []string{queue(0, "enqueue", "a"), record(1, `"type":"queue-operation","operation":"dequeue"`)}, []string{"a"}},
		{"taken in mid-turn", []string{entry(1, "a")}, []string{
			queue(0, "enqueue", "a"), queue(1, "remove", "a"), record(1, `"type":"attachment","attachment":{"type":"queued_command","prompt":"a"}`),
		}, nil},
		{"taken in mid-turn, but not recorded", []string{entry(1, "a")}, []string{queue(0, "enqueue", "a"), queue(1, "remove", "a")}, []string{"a"}},
		{"taken back", nil, []string{queue(0, "enqueue", "a"), queue(1, "popAll", "a")}, nil},
		{"not the person's", nil, []string{queue(0, "enqueue", "<task-notification>\n<task-id>1"), queue(0, "enqueue", "<teammate-message from=\"a\">")}, nil},
		{"a tool's result", []string{entry(0, "a")}, []string{record(0, `"type":"user","message":{"content":[{"type":"tool_result","content":"a"},{"type":"text","text":"a"}]}`)}, []string{"a"}},
		{"of a subagent", []string{entry(0, "a")}, []string{strings.Replace(user(0, "a"), "{", `{"isSidechain":true,`, 1)}, []string{"a"}},
		{"control characters", []string{strings.Replace(entry(0, "a"), `"a"`, `"a\u001b[31m\tb\u0007"`, 1)}, nil, []string{"a[31m\tb"}},
		{"a paste that is gone", []string{entry(0, "see [Pasted text #1 +9 lines] end")}, []string{user(0, "see\n\n<pasted_content id=\"ab\">\nx\n</pasted_content>\n\nend")}, nil},
		{"another one", []string{entry(0, "see [Pasted text #1 +9 lines] end")}, []string{user(0, "see it end now")}, []string{"see [Pasted text #1 +9 lines] end"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Unrun(claudeDir(t, test.history, test.transcript), dir, session, time.Unix(second-5, 0))
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

// A hash cannot name a file outside the cache.
func TestPasteStaysInItsCache(t *testing.T) {
	t.Parallel()
	root := claudeDir(t, nil, nil)
	write(t, filepath.Join(root, "secret.txt"), "secret")
	if got := readPaste(root, "../secret"); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

// No content of the files makes the readers fail, and their results can be printed.
func FuzzReaders(f *testing.F) {
	f.Add(entry(0, "a")+"\n"+entry(1, "[Pasted text #1 +2 lines]"), user(0, "a")+"\n"+queue(1, "enqueue", "b"))
	f.Add(`{"display":"x","timestamp":1e300,"sessionId":"`+session+`","pastedContents":{"1":null}}`, `{"type":"user","message":{"content":[1,null,{}]}}`)
	f.Add("\x00\n[]\nnull\n{", record(0, `"type":"queue-operation","operation":"remove"`))
	f.Fuzz(func(t *testing.T, history, transcript string) {
		root := claudeDir(t, []string{history}, []string{transcript})
		got, err := Unrun(root, dir, session, time.Time{})
		must(t, err)
		for _, text := range got {
			if text != clean(text) {
				t.Errorf("got %q, which has control characters", text)
			}
		}
		if _, err := PermissionMode(root, dir, session); err != nil {
			t.Fatal(err)
		}
	})
}
