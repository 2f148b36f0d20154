package interactive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"teambridge/teams/transcript"
)

// Unrun returns the prompts that a person entered in a session since a time and that the program never ran, in order:
//
//   - Prompts in history.jsonl that are not in the transcript. With Enter, Claude Code writes the history at once and
//     the transcript up to 80 ms later.
//   - Prompts that waited for the end of a turn: see [transcript.Queue].
//
// Pastes are expanded. Claude Code's own commands, such as /clear, and shell commands ("!ls") are left out. A prompt
// that is in the transcript has been run, even if it has no answer.
//
// The history leaves out a prompt that repeats the one before it. Such a prompt is not found if the transcript does
// not have it either. A missing file counts as empty. Unreadable parts of a file, such as half a line, are skipped.
func Unrun(root, dir, session string, since time.Time) ([]string, error) {
	prompts, err := readHistory(root, session, since)
	if err != nil {
		return nil, fmt.Errorf("interactive: history: %w", err)
	}
	var log promptLog
	if path, ok := transcript.Session(root, dir, session); ok {
		// Both times are from the clock of the machine, but the time of a record can be a little before its prompt's.
		if log, err = readPrompts(path, since.Add(-clockSlack)); err != nil {
			return nil, fmt.Errorf("interactive: transcript: %w", err)
		}
	}
	var unrun []transcript.Queued
	for _, p := range prompts {
		if isMessage(p.Text) && !log.take(p) {
			unrun = append(unrun, p)
		}
	}
	for _, p := range log.queued {
		if isMessage(p.Text) && !p.At.Before(since) {
			p.Text = pasteTags().ReplaceAllString(p.Text, "")
			unrun = append(unrun, p)
		}
	}
	slices.SortStableFunc(unrun, func(a, b transcript.Queued) int { return a.At.Compare(b.At) })
	var texts []string
	for _, p := range unrun {
		texts = append(texts, clean(p.Text))
	}
	return texts, nil
}

// Entered reports whether a person entered anything in a session since a time, so that the text that was first at the
// prompt is not there any more.
func Entered(root, session string, since time.Time) (bool, error) {
	prompts, err := readHistory(root, session, since)
	if err != nil {
		return false, fmt.Errorf("interactive: history: %w", err)
	}
	return len(prompts) > 0, nil
}

// clockSlack is how much older a record can be than its prompt: 3 ms were measured.
const clockSlack = 2 * time.Second

// The sizes of the ends of files that are read. Only their last seconds matter.
const (
	historyTail    = 8 << 20
	transcriptTail = 256 << 20
)

// readHistory returns the prompts that were entered in a session since a time.
func readHistory(root, session string, since time.Time) (list []transcript.Queued, err error) {
	for line, err := range transcript.Lines(filepath.Join(root, "history.jsonl"), historyTail) {
		if err != nil {
			return nil, err
		}
		var e struct {
			Display   string  `json:"display"`
			Timestamp float64 `json:"timestamp"`
			Session   string  `json:"sessionId"`
			Pasted    map[string]struct {
				Content string `json:"content"`
				Hash    string `json:"contentHash"`
			} `json:"pastedContents"`
		}
		if json.Unmarshal(line, &e) != nil || e.Session != session || session == "" {
			continue
		}
		at := time.UnixMilli(int64(e.Timestamp)).UTC()
		if at.Before(since.Truncate(time.Millisecond)) {
			continue
		}
		text := pasted().ReplaceAllStringFunc(e.Display, func(mark string) string {
			paste := e.Pasted[pasted().FindStringSubmatch(mark)[1]]
			content := paste.Content
			if content == "" {
				content = readPaste(root, paste.Hash)
			}
			if content == "" {
				return mark
			}
			return content
		})
		list = append(list, transcript.Queued{At: at, Text: text})
	}
	return list, nil
}

// pasted matches the mark that the history shows in place of a paste.
var pasted = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\[(?:Pasted text|\.\.\.Truncated text) #(\d+)(?: \+\d+ lines)?(?:\.\.\.)?\]`)
})

// pasteTags matches the tags that are put around a paste.
var pasteTags = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\n*</?pasted_content(?: id="[0-9a-f]*")?>\n*`)
})

// readPaste returns a long paste, which has a file of its own; empty if it is gone.
func readPaste(root, hash string) string {
	if hash == "" || strings.ContainsFunc(hash, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) {
		return ""
	}
	data, err := readLimited(filepath.Join(root, "paste-cache", hash+".txt"))
	if err != nil {
		return "" // its mark remains in the text
	}
	return string(data)
}

// promptLog has the prompts of a transcript.
type promptLog struct {
	run    []transcript.Queued // the agent was given them
	queued transcript.Queue    // they wait
}

// readPrompts reads the prompts of a transcript, from the first record that is not older than since.
func readPrompts(path string, since time.Time) (log promptLog, err error) {
	begun := false
	for line, err := range transcript.Lines(path, transcriptTail) {
		if err != nil {
			return promptLog{}, err
		}
		if !interesting(line) {
			continue
		}
		r, ok := transcript.Parse(line)
		at := r.Time()
		begun = begun || !at.IsZero() && !at.Before(since)
		if !ok || !begun || r.Sidechain {
			continue
		}
		switch {
		case r.Type == "user" && r.Kind() != transcript.Results:
			log.ran(at, transcript.Texts(r.Message.Content, "\n"))
		case r.Type == "system":
			log.ran(at, transcript.Texts(r.Content, "\n"))
		case r.Type == "attachment" && r.Attachment.Type == "queued_command":
			log.ran(time.Time{}, transcript.Texts(r.Attachment.Prompt, "\n"))
		case r.Type == "queue-operation":
			log.queued.Add(&r) // a prompt that leaves it gets its own record, or is at the prompt again
		}
	}
	return log, nil
}

// interesting reports whether a line can be a record that counts; parsing a long transcript takes seconds.
func interesting(line []byte) bool {
	for _, part := range []string{`"type":"user"`, `"type":"system"`, `"queued_command"`, `"queue-operation"`} {
		if bytes.Contains(line, []byte(part)) {
			return true
		}
	}
	return false
}

func (l *promptLog) ran(at time.Time, text string) {
	if text != "" {
		l.run = append(l.run, transcript.Queued{At: at, Text: text})
	}
}

// take reports whether a record shows that the prompt was run, and removes that record.
func (l *promptLog) take(p transcript.Queued) bool {
	for i, r := range l.run {
		if (r.At.IsZero() || !r.At.Before(p.At.Add(-clockSlack))) && holds(r.Text, p.Text) {
			l.run = slices.Delete(l.run, i, i+1)
			return true
		}
	}
	return false
}

// holds reports whether the text of a record is the prompt, or the record of its command.
func holds(record, entered string) bool {
	name, args, ok := command(entered)
	if !ok {
		return same(record, entered)
	}
	if strings.Contains(record, "<command-name>/"+name+"</command-name>") {
		_, given, _ := strings.Cut(record, "<command-args>")
		given, _, _ = strings.Cut(given, "</command-args>")
		return same(given, args)
	}
	return record == "Unknown command: /"+name || record == "Unknown skill: "+name || same(record, entered)
}

// same compares texts without white space, since a record can have more of it, and without the tags around pastes. A
// paste whose text is gone matches any text.
func same(record, entered string) bool {
	record = bare(pasteTags().ReplaceAllString(record, ""))
	parts := pasted().Split(entered, -1)
	if len(parts) == 1 {
		return record == bare(entered)
	}
	rest, ok := strings.CutPrefix(record, bare(parts[0]))
	for _, part := range parts[1 : len(parts)-1] {
		if ok {
			_, rest, ok = strings.Cut(rest, bare(part))
		}
	}
	return ok && strings.HasSuffix(rest, bare(parts[len(parts)-1]))
}

func bare(text string) string { return strings.Join(strings.Fields(text), "") }

// command splits a slash command. A path is no command.
func command(entered string) (name, args string, ok bool) {
	after, ok := strings.CutPrefix(strings.TrimSpace(entered), "/")
	if !ok {
		return "", "", false
	}
	name, args, _ = strings.Cut(after, " ")
	bad := strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-:.", r)
	})
	return name, args, name != "" && !bad
}

// isMessage reports whether a prompt is for the agent: no command of Claude Code's own, no shell command, and nothing
// that Claude Code itself puts into the queue.
func isMessage(entered string) bool {
	entered = strings.TrimSpace(entered)
	if entered == "" || strings.HasPrefix(entered, "!") {
		return false
	}
	for _, own := range []string{"<task-notification", "<teammate-message", "<system-reminder", "<command-", "<local-command-", "<bash-"} {
		if strings.HasPrefix(entered, own) {
			return false
		}
	}
	name, _, ok := command(entered)
	return !ok || !slices.Contains(strings.Fields(ownCommands), name)
}

// ownCommands change or show something, and give the model no prompt. Other commands may be the person's own.
const ownCommands = `
add-dir agents allowed-tools background bashes btw bug chrome clear color compact config context copy cost desktop diff
doctor effort exit export extra-usage fast feedback focus fork help hooks ide install-github-app install-slack-app
keybindings login logout mcp memory mobile model new output-style passes permissions plugin privacy-settings quit
rate-limit-options release-notes reload-plugins remote-control remote-env rename reset resume rewind sandbox skills
stats status statusline stickers tag tasks teleport terminal-setup theme todos tui upgrade usage vim voice`
