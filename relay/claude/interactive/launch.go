package interactive

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/relay/process"
)

// ErrInvalid means that the command cannot be run at a terminal with a known session: for example, it prints (-p), or
// does not say which session it continues (--continue).
var ErrInvalid = claude.ErrInvalid

// Options say what to start.
type Options struct {
	// Command is the person's program and its arguments. Flags are added at its end: see [claude.Options.Terminal].
	Command []string
	// Root is the Claude directory.
	Root string
	// Dir is the working directory; empty is ours.
	Dir string
	// State is our own directory. New makes one below it, of mode 0700, which Close removes.
	State string
	// Session is the id of the session, a UUID. Empty: the session that Command names, or a new one.
	Session string
	// Resume continues that session, which must have a transcript. No other process may have it: see [Elsewhere].
	Resume bool
	// Prefill is put at the prompt and not run. Spaces at its ends and control characters are left out.
	Prefill string
	// Mode is the mode that the program starts in. Its settings replace those of Command.
	Mode mode.Mode
	// Env is the whole environment, as "NAME=value"; nil is ours.
	Env []string
}

// Launch is one interactive Claude Code, which the caller starts and waits for. Its methods are for one goroutine.
type Launch struct {
	argv, env []string
	root, dir string
	files     string // our directory
	session   string
	paste     string
	named     editors   // of the person's settings
	asked     int       // number of the last request for the draft
	started   time.Time // when New was called
	pid       int       // the process that has the session, once it is known
}

// maxPrefill is the longest text that goes into an argument. Linux allows 128 KiB for one; some systems less for all.
const maxPrefill = 64 << 10

// New makes the files that the launch needs. Close removes them, after the program has ended. The error wraps
// [ErrInvalid] if the command cannot be used.
func New(o Options) (l *Launch, err error) {
	l = &Launch{env: o.Env, root: o.Root, dir: o.Dir, started: time.Now()}
	if l.env == nil {
		l.env = os.Environ()
	}
	if l.dir == "" {
		if l.dir, err = os.Getwd(); err != nil {
			return nil, fmt.Errorf("interactive: %w", err)
		}
	}
	if l.files, err = makeFiles(o.State); err != nil {
		return nil, fmt.Errorf("interactive: %w", err)
	}
	files := l.files
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(files))
		}
	}()
	prefill := clean(o.Prefill)
	if len(prefill) > maxPrefill {
		prefill, l.paste = "", prefill
	}
	c := claude.Options{Command: o.Command, Session: o.Session, Resume: o.Resume, Mode: o.Mode}
	if l.argv, l.session, err = c.Terminal(prefill, l.settings); err != nil {
		return nil, err
	}
	if err := os.WriteFile(l.editor(), []byte(l.script()), 0o700); err != nil {
		return nil, fmt.Errorf("interactive: editor: %w", err)
	}
	return l, nil
}

// noAgentView is the variable that disables ← at the prompt. That key would move the conversation to a process in the
// background, from which teambridge cannot take it back.
const noAgentView = "CLAUDE_CODE_DISABLE_AGENT_VIEW"

// Cmd returns the command to start, with arguments, directory and environment. Each call returns a new one.
func (l *Launch) Cmd() *exec.Cmd {
	cmd := exec.Command(l.argv[0], l.argv[1:]...)
	cmd.Dir = l.dir
	cmd.Env = append(slices.Clone(l.env), "VISUAL="+l.editor(), "EDITOR="+l.editor())
	if !slices.ContainsFunc(l.env, func(v string) bool { return strings.HasPrefix(v, noAgentView+"=") }) {
		cmd.Env = append(cmd.Env, noAgentView+"=1")
	}
	return cmd
}

// Session returns the id of the session that the program begins with. It can change to another: see [State.Session].
func (l *Launch) Session() string { return l.session }

// Paste returns the prefill if it is too long for an argument; almost always empty. The caller must paste it, in a
// bracketed paste, as soon as the program is idle.
func (l *Launch) Paste() string { return l.paste }

// Close removes the files of New.
func (l *Launch) Close() error {
	if err := os.RemoveAll(l.files); err != nil {
		return fmt.Errorf("interactive: %w", err)
	}
	return nil
}

// makeFiles makes a directory for one launch, and removes those of launchers that were killed. If a path below state
// cannot be the value of EDITOR, the directory is made among the temporary files.
func makeFiles(state string) (string, error) {
	all := filepath.Join(state, "local")
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", err
	}
	left, err := os.ReadDir(all)
	if err != nil {
		return "", err
	}
	for _, e := range left {
		id, _, _ := strings.Cut(e.Name(), "-")
		pid, err := strconv.Atoi(id)
		if err != nil {
			continue
		}
		if alive, _ := (process.Predecessor{PID: pid}).Alive(); !alive {
			if err := os.RemoveAll(filepath.Join(all, e.Name())); err != nil {
				return "", err
			}
		}
	}
	prefix := strconv.Itoa(os.Getpid()) + "-"
	for _, parent := range []string{all, os.TempDir()} {
		if parent, err = filepath.Abs(parent); err != nil {
			return "", err
		}
		if isPlain(parent) {
			return os.MkdirTemp(parent, prefix)
		}
		prefix = "teambridge-" + prefix
	}
	return "", fmt.Errorf("neither %q nor %q can be the path of an editor: name another directory with --state-dir", all, os.TempDir())
}

// isPlain reports whether a path remains unchanged if it is split at blanks or read by a shell.
func isPlain(path string) bool {
	return !strings.ContainsFunc(path, func(r rune) bool {
		return r < 128 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+@:,%", r) || unicode.IsSpace(r)
	})
}

// clean returns a text without spaces at its ends and without control characters.
func clean(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(text, "\uFFFD"))
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text))
}
