package interactive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"teambridge/teams/transcript"
)

// Unrun returns what a person entered in a session since then and what the program ended before it ran, in order:
//
//   - Prompts in history.jsonl that are not in the transcript. With Enter, Claude Code writes the history at once and the
//     transcript up to 80 ms later.
//   - Prompts that waited for the end of a turn. Their only trace is a queue-operation record in the transcript, and up to
//     2.1.200 the history. No version runs them when the session is resumed.
//
// Pastes are expanded. Left out are commands of Claude Code's own, such as /clear, and shell commands ("!ls"). A prompt
// that is in the transcript has been run, even if it has no answer.
//
// From 2.1.160 on the history leaves out a prompt that repeats the one before it. Such a one is not found if it is not in
// the transcript either. A missing file says nothing. What cannot be read in one, such as half a line, is passed over.
func Unrun(root, dir, session string, since time.Time) ([]string, error) {
	prompts, err := readHistory(root, session, since)
	if err != nil {
		return nil, fmt.Errorf("interactive: history: %w", err)
	}
	var log promptLog
	if path, ok := transcript.Session(root, dir, session); ok {
		// Both clocks are that of the machine, but the stamp of a record can be a little older than that of its prompt.
		if log, err = readPrompts(path, since.Add(-clockSlack)); err != nil {
			return nil, fmt.Errorf("interactive: transcript: %w", err)
		}
	}
	var unrun []prompt
	for _, p := range prompts {
		if isMessage(p.text) && !log.take(p) {
			unrun = append(unrun, p)
		}
	}
	for _, p := range log.queued {
		if isMessage(p.text) && !p.at.Before(since) {
			p.text = pasteTags().ReplaceAllString(p.text, "")
			unrun = append(unrun, p)
		}
	}
	slices.SortStableFunc(unrun, func(a, b prompt) int { return a.at.Compare(b.at) })
	var texts []string
	for _, p := range unrun {
		texts = append(texts, clean(p.text))
	}
	return texts, nil
}

// Entered reports whether a person entered anything in a session since then: what was at the prompt at first is not there
// any more.
func Entered(root, session string, since time.Time) (bool, error) {
	prompts, err := readHistory(root, session, since)
	if err != nil {
		return false, fmt.Errorf("interactive: history: %w", err)
	}
	return len(prompts) > 0, nil
}

// clockSlack is how much older a record can be than the prompt that it holds: 3 ms were measured.
const clockSlack = 2 * time.Second

// prompt is what somebody entered.
type prompt struct {
	at   time.Time
	text string
}

// A file's end that is read, and the longest line. Only the last seconds count.
const (
	historyTail    = 8 << 20
	transcriptTail = 256 << 20
	longestLine    = 32 << 20
)

// readHistory returns what was entered in a session since then.
func readHistory(root, session string, since time.Time) (list []prompt, err error) {
	err = readLines(filepath.Join(root, "history.jsonl"), historyTail, func(line []byte) {
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
			return
		}
		at := time.UnixMilli(int64(e.Timestamp)).UTC()
		if at.Before(since.Truncate(time.Millisecond)) {
			return
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
		list = append(list, prompt{at, text})
	})
	return list, err
}

// pasted finds where a paste was left out of what the history shows.
var pasted = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\[(?:Pasted text|\.\.\.Truncated text) #(\d+)(?: \+\d+ lines)?(?:\.\.\.)?\]`)
})

// pasteTags are put around a paste from 2.1.280 on, or a little earlier.
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
		return "" // its mark stands for it
	}
	return string(data)
}

// promptLog is what a transcript says of prompts.
type promptLog struct {
	run    []prompt // the agent was given them
	queued []prompt // they wait
	taken  []prompt // they waited, and were given to the agent in mid-turn, which 2.1.80 does not record otherwise
}

// readPrompts reads what a transcript has from the first record on that is not older than since.
func readPrompts(path string, since time.Time) (log promptLog, err error) {
	begun := false
	err = readLines(path, transcriptTail, func(line []byte) {
		var r struct {
			Type        string    `json:"type"`
			Timestamp   time.Time `json:"timestamp"`
			Operation   string    `json:"operation"`
			Content     any       `json:"content"`
			IsSidechain bool      `json:"isSidechain"`
			Message     struct {
				Content any `json:"content"`
			} `json:"message"`
			Attachment struct {
				Type   string `json:"type"`
				Prompt any    `json:"prompt"`
			} `json:"attachment"`
		}
		if !interesting(line) || json.Unmarshal(line, &r) != nil {
			return
		}
		begun = begun || !r.Timestamp.IsZero() && !r.Timestamp.Before(since)
		if !begun || r.IsSidechain {
			return
		}
		switch {
		case r.Type == "user":
			log.ran(r.Timestamp, text(r.Message.Content))
		case r.Type == "system":
			log.ran(r.Timestamp, text(r.Content))
		case r.Type == "attachment" && r.Attachment.Type == "queued_command":
			said := text(r.Attachment.Prompt)
			log.ran(time.Time{}, said)
			remove(&log.taken, said)
		case r.Type == "queue-operation":
			log.queue(r.Operation, r.Timestamp, text(r.Content))
		}
	})
	return log, err
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
		l.run = append(l.run, prompt{at, text})
	}
}

// queue follows the queue of prompts.
func (l *promptLog) queue(operation string, at time.Time, text string) {
	switch {
	case operation == "enqueue":
		l.queued = append(l.queued, prompt{at, text})
	case operation == "popAll": // back to the prompt, where they are a draft
		l.taken = append(l.taken, l.queued...)
		l.queued = nil
	case len(l.queued) == 0:
	case operation == "dequeue": // a record of what it says follows
		l.queued = l.queued[1:]
	case operation == "remove" && text != "":
		if p, ok := remove(&l.queued, text); ok {
			l.taken = append(l.taken, p)
		}
	case operation == "remove":
		l.taken, l.queued = append(l.taken, l.queued[0]), l.queued[1:]
	}
}

// take reports whether the prompt is accounted for, and takes out what says so.
func (l *promptLog) take(p prompt) bool {
	for i, r := range l.run {
		if (r.at.IsZero() || !r.at.Before(p.at.Add(-clockSlack))) && holds(r.text, p.text) {
			l.run = slices.Delete(l.run, i, i+1)
			return true
		}
	}
	// Both are stamped at Enter where such a prompt is in the history at all.
	enqueued := func(q prompt) bool { return q.at.Sub(p.at).Abs() < clockSlack && same(q.text, p.text) }
	if i := slices.IndexFunc(l.taken, enqueued); i >= 0 {
		l.taken = slices.Delete(l.taken, i, i+1)
		return true
	}
	// It stays: it is returned once, as what waited.
	return slices.ContainsFunc(l.queued, enqueued)
}

// remove takes the first prompt with that text out of a list.
func remove(list *[]prompt, text string) (prompt, bool) {
	i := slices.IndexFunc(*list, func(p prompt) bool { return same(p.text, text) })
	if i < 0 {
		return prompt{}, false
	}
	p := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return p, true
}

// holds reports whether the text of a record is the prompt, or what a command became.
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

// same compares texts without white space, of which a record can have more, and without what newer versions put around
// pastes. A paste whose text is gone can be anything.
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

func bare(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
}

// text joins the texts of a message's content, which is a text or a list of blocks. A message with a tool's result is none.
func text(content any) string {
	if s, ok := content.(string); ok {
		return s
	}
	list, _ := content.([]any)
	var texts []string
	for _, b := range list {
		block, _ := b.(map[string]any)
		if block["type"] == "tool_result" {
			return ""
		}
		if s, ok := block["text"].(string); ok {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, "\n")
}

// command splits a slash command; paths are none.
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

// ownCommands change or show something and say nothing to the model. A command that is not here may be the person's own.
const ownCommands = `
add-dir agents allowed-tools background bashes btw bug chrome clear color compact config context copy cost desktop diff
doctor effort exit export extra-usage fast feedback focus fork help hooks ide install-github-app install-slack-app
keybindings login logout mcp memory mobile model new output-style passes permissions plugin privacy-settings quit
rate-limit-options release-notes reload-plugins remote-control remote-env rename reset resume rewind sandbox skills
stats status statusline stickers tag tasks teleport terminal-setup theme todos tui upgrade usage vim voice`

// readLines calls f with the whole lines in the last bytes of a file. Lines that are too long are passed over. A file that
// is not there has none.
func readLines(path string, last int64, f func(line []byte)) (err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if !info.Mode().IsRegular() { // opening a named pipe would wait for its writer
		return &fs.PathError{Op: "read", Path: path, Err: errors.New("is no regular file")}
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	start := max(0, info.Size()-last)
	if _, err := file.Seek(start, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(file, 64<<10)
	var line []byte
	skip := start > 0 // half a line
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > longestLine {
			line, skip = line[:0], true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && !skip {
			f(line)
		}
		line, skip = line[:0], false
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
