package transcript

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Change is a change that an agent has made to a file with a tool. Transcripts do not record changes by shell
// commands.
type Change struct {
	At             time.Time
	Path           string
	Created        bool
	Added, Removed int    // lines
	Patch          string // the hunks of a unified diff; for a notebook, the source of the cell
}

// Changes yields the changes in transcripts, each once, in the order of each transcript. Several transcripts can hold
// copies of a record.
func Changes(paths ...string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		seen := map[string]bool{}
		for _, path := range paths {
			tail := Tail{Path: path}
			for line, err := range tail.Lines() {
				if err == nil && !bytes.Contains(line, []byte(`"toolUseResult":{`)) {
					continue
				}
				c, uuid, ok := change(line)
				if err == nil && (!ok || seen[uuid]) {
					continue
				}
				if seen[uuid] = true; !yield(c, err) || err != nil {
					return
				}
			}
		}
	}
}

func change(line []byte) (c Change, uuid string, ok bool) {
	var r struct {
		Type, UUID, Timestamp string
		Result                struct {
			Type         string // of Write: create or update
			Path         string `json:"filePath"`
			Content      string
			Patch        *[]hunk `json:"structuredPatch"`
			NotebookPath string  `json:"notebook_path"`
			Old          string  `json:"old_source"`
			New          string  `json:"new_source"`
			Mode         string  `json:"edit_mode"`
			Error        string
		} `json:"toolUseResult"`
	}
	if !Decode(line, &r) || r.Type != "user" {
		return c, "", false
	}
	t := &r.Result
	at, _ := time.Parse(time.RFC3339, r.Timestamp) // zero: unknown
	c = Change{At: ValidTime(at), Path: cmp.Or(t.Path, t.NotebookPath), Created: t.Type == "create" && t.Path != ""}
	var hunks []hunk
	switch {
	case t.Path != "" && t.Patch != nil: // without a patch, the file was only read
		if hunks = *t.Patch; len(hunks) == 0 && c.Created && t.Content != "" {
			hunks = []hunk{replaced("", t.Content)}
		}
	case t.NotebookPath != "" && t.Error == "" && t.Mode != "":
		if t.Mode == "delete" {
			t.New = ""
		}
		hunks = []hunk{replaced(t.Old, t.New)}
	default:
		return c, "", false
	}
	var text strings.Builder
	for _, h := range hunks {
		fmt.Fprintf(&text, "@@ -%d,%d +%d,%d @@\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
		for _, line := range h.Lines {
			switch {
			case strings.HasPrefix(line, "+"):
				c.Added++
			case strings.HasPrefix(line, "-"):
				c.Removed++
			}
			text.WriteString(line + "\n")
		}
	}
	c.Patch = text.String()
	return c, cmp.Or(r.UUID, string(line)), true
}

// hunk is a hunk of a patch, as Claude Code writes it.
type hunk struct {
	OldStart, OldLines, NewStart, NewLines int
	Lines                                  []string
}

// replaced returns the hunk that replaces one text by another.
func replaced(before, after string) (h hunk) {
	const noEnd = `\ No newline at end of file`
	add := func(sign, text string) (n int) {
		for line := range strings.Lines(text) {
			n++
			whole, ended := strings.CutSuffix(line, "\n")
			if h.Lines = append(h.Lines, sign+whole); !ended {
				h.Lines = append(h.Lines, noEnd)
			}
		}
		return n
	}
	h.OldLines, h.NewLines = add("-", before), add("+", after)
	h.OldStart, h.NewStart = min(1, h.OldLines), min(1, h.NewLines)
	return h
}
