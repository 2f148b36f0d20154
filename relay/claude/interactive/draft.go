package interactive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"teambridge/relay/shell"
	"teambridge/teams/atomicfile"
	"teambridge/teams/sharedfile"
)

// lateEditor is how long a request for the draft remains after it was given up. A slow program opens its editor
// later: without the request, that would be the person's own editor, which the person did not ask for.
const lateEditor = 10 * time.Second

// maxDraft is the maximum size of a draft. A larger one is not taken.
const maxDraft = 4 << 20

// TakeDraft returns the draft at the prompt. press presses Ctrl-G (0x07) at the terminal; it is called twice or more,
// because the first copy can be stale. ok is false if no copy came before ctx ended, as in a dialog.
func (l *Launch) TakeDraft(ctx context.Context, press func() error) (text string, ok bool, err error) {
	for range 2 {
		if text, ok, err = l.copyDraft(ctx, press); !ok {
			return "", false, err
		}
	}
	return text, true, nil
}

// pressAgain is the time after which Ctrl-G is pressed again. A press can be lost while the editor is closing.
const pressAgain = 700 * time.Millisecond

// copyDraft makes the program copy its draft once.
func (l *Launch) copyDraft(ctx context.Context, press func() error) (text string, ok bool, err error) {
	if err := l.askDraft(); err != nil {
		return "", false, err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var pressed time.Time
	for {
		if text, ok, err = l.draft(); ok || err != nil {
			return text, ok, err
		}
		if time.Since(pressed) >= pressAgain {
			if err := press(); err != nil {
				return "", false, err
			}
			pressed = time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", false, nil
		}
	}
}

// askDraft makes the next runs of the editor copy the file.
func (l *Launch) askDraft() error {
	l.asked++
	if err := atomicfile.Write(l.askFile(), []byte(strconv.Itoa(l.asked)+"\n")); err != nil {
		return fmt.Errorf("interactive: draft: %w", err)
	}
	return nil
}

// draft returns the copy that was last asked for, once it is there.
func (l *Launch) draft() (text string, ok bool, err error) {
	path := filepath.Join(l.files, "draft."+strconv.Itoa(l.asked))
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	} else if err == nil && info.Size() > maxDraft {
		err = fmt.Errorf("%d bytes stand at the prompt, more than %d", info.Size(), maxDraft)
	}
	if err != nil {
		return "", false, fmt.Errorf("interactive: draft: %w", err)
	}
	data, err := sharedfile.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return "", false, fmt.Errorf("interactive: draft: %w", err)
	}
	return clean(withoutContext(string(data))), true, nil
}

// With externalEditorContext, these lines around the last answer precede the draft. Lines between begin with "# ".
const (
	contextStart = "# ─── Claude's last response"
	contextEnd   = "\n# ─── Write your reply"
)

// withoutContext returns the draft in a file that Ctrl-G makes.
func withoutContext(file string) string {
	_, rest, found := strings.Cut(file, contextEnd)
	if !found || !strings.HasPrefix(file, contextStart) {
		return file
	}
	_, draft, _ := strings.Cut(rest, "\n")
	return strings.TrimPrefix(draft, "\n")
}

// forgetDraft removes an old request for the draft, so that Ctrl-G opens the person's editor again.
func (l *Launch) forgetDraft() error {
	if info, err := os.Stat(l.askFile()); err != nil || time.Since(info.ModTime()) < lateEditor {
		return nil
	}
	return os.Remove(l.askFile())
}

func (l *Launch) askFile() string { return filepath.Join(l.files, "ask") }
func (l *Launch) editor() string  { return filepath.Join(l.files, "editor") }

// script returns the editor. Programs that the agent runs (git commit) get it, too, so it checks the name of the
// file. If the person has no editor, the script chooses one as Claude Code would. Editors with a window of their own
// need a flag to wait, which Claude Code, too, passes to those that it knows.
func (l *Launch) script() string {
	own := map[string]string{}
	for _, entry := range l.env {
		name, value, _ := strings.Cut(entry, "=")
		own[name] = strings.TrimSpace(value)
	}
	editor := cmp.Or(l.named.visual, own["VISUAL"], l.named.editor, own["EDITOR"])
	return `#!/bin/sh
# The editor of a Claude Code that teambridge started. It copies a draft for teambridge if that has just asked for it,
# and runs your own editor otherwise.
set -f
files=` + shell.Quote(l.files) + `
editor=` + shell.Quote(editor) + `
for file; do :; done
case ${file##*/} in
claude-prompt-*)
	if { read -r n <"$files/ask"; } 2>/dev/null; then
		cp -- "$file" "$files/copy.$$" && mv -f -- "$files/copy.$$" "$files/draft.$n"
		exit
	fi
	;;
esac
if [ -z "$editor" ]; then
	for editor in code vi nano; do
		command -v "$editor" >/dev/null && break
	done
fi
case ${editor##*/} in
code | code-insiders | codium | cursor | windsurf | subl | zed) editor="$editor -w" ;;
esac
exec $editor "$@"
`
}
