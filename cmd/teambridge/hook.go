package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay/pane"
	"teambridge/relay/stophook"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/atomicfile"
	"teambridge/teams/lockedfile"
)

func newHook(a *app) *cobra.Command {
	return group("hook", "Learn when an agent in a terminal ends a turn: install, uninstall",
		`Have Claude Code report the end of each turn of an agent in a terminal.`,
		newHookInstall(a), newHookUninstall(a), newHookStop(a))
}

type hookOptions struct {
	user bool
	file string
}

func (o *hookOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.user, "user", false, "the settings of all your projects: settings.json in Claude Code's directory")
	cmd.Flags().StringVar(&o.file, "file", "", "another settings file")
	must(cmd.MarkFlagFilename("file", "json"))
}

func newHookInstall(a *app) *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Add the Stop hook to a settings file",
		Long: `Add a hook to a settings file of Claude Code that reports the end of each turn.

Without the hook, "send --notify-on-stop" to a pane needs a service or a
transcript, and may tell you late.

The file is .claude/settings.local.json in this directory, which is for this
project on this machine alone. All that is in the file stays as it is, byte for
byte, and a file that is not valid is not changed. Installing again changes only
the path of this program. Claude Code reads hooks when it starts.

Exit status: 0; 1 the file could not be written; 5 it is not a regular file; 6
it is no settings file.`,
		Example: `  teambridge hook install
  teambridge hook install --user`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.hookInstall(cmd.Context(), o) },
	}
	o.flags(cmd)
	return cmd
}

func newHookUninstall(a *app) *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the Stop hook from a settings file",
		Long: `Remove the hook of "teambridge hook install" from a settings file.

What was made for it is removed with it, if it is empty: objects, the file and
its directory. Other hooks stay.

Exit status: 0, even if it was not installed; others are as for "teambridge hook
install".`,
		Example: `  teambridge hook uninstall --user`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.hookUninstall(cmd.Context(), o) },
	}
	o.flags(cmd)
	return cmd
}

func newHookStop(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Report the end of a turn; Claude Code runs it",
		Long: `Report the end of a turn of an agent, as a Stop hook of Claude Code.

The JSON of the hook is on standard input. The agent is not kept from stopping:
nothing is printed on standard output, and it takes a second at most.

Exit status: 0; 1 it could not be recorded.`,
		Example: `  teambridge hook stop < hook.json`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.hookStop(cmd.Context()) },
	}
}

const (
	stopWithin  = time.Second // for the whole hook
	maxHookJSON = 4 << 20
)

// hookStop reports the end of a turn. Claude Code takes other exit statuses than 0 and 1 as
// an order to go on.
func (a *app) hookStop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, stopWithin))
	defer cancel()
	a.leaveOpen = true
	err := func() (err error) {
		defer func() {
			if r := recover(); r != nil { // which would end it with status 2
				err = fmt.Errorf("panic: %v", r)
			}
		}()
		return a.stopped(ctx)
	}()
	if err == nil {
		return nil
	}
	a.say("teambridge", "the end of the turn was not recorded: "+view.Describe(err))
	return exitStatus(api.ExitError)
}

func (a *app) stopped(ctx context.Context) error {
	var data []byte
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		data, err = io.ReadAll(io.LimitReader(a.stdin, maxHookJSON))
	}()
	select {
	case <-read:
	case <-ctx.Done():
		return errors.New("standard input does not end")
	}
	if err != nil {
		return err
	}
	var in struct {
		Session    string `json:"session_id"`
		Transcript string `json:"transcript_path"`
		Answer     string `json:"last_assistant_message"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read the JSON of the hook: %w", err)
	}
	if l, err := a.local().Ledger(ctx); err != nil || l == nil {
		return err // without a ledger nobody has sent anything
	}
	panes, err := a.local().OpenPanes(ctx)
	if err != nil {
		return err
	}
	s := pane.Stop{Session: in.Session, Transcript: in.Transcript, Answer: in.Answer}
	inside, _ := a.lookup("TMUX")
	s.Socket, s.Server = insideTmux(inside)
	s.PaneID, _ = a.lookup("TMUX_PANE")
	return panes.Stopped(ctx, s)
}

// hookFile is a settings file of Claude Code.
type hookFile struct {
	path   string // of the file itself, not of a link to it
	record string // the file in which we keep what we made
	data   []byte // nil: there is no file
	made   stophook.Made
	known  bool // made was recorded
}

// openHookFile locks and reads the settings file that o names.
func (a *app) openHookFile(ctx context.Context, o hookOptions) (_ *hookFile, unlock func() error, err error) {
	path, err := a.settingsPath(o)
	if err != nil {
		return nil, nil, err
	}
	f := &hookFile{}
	if f.path, err = regularFile(path); err != nil {
		return nil, nil, err
	}
	f.record = stophook.RecordPath(a.state, f.path)
	unlock, err = lockedfile.HoldWithin(ctx, time.Minute, filepath.Join(a.state, "locks"), "hooks of "+f.path)
	if err != nil {
		return nil, nil, err
	}
	if f.data, err = readIfAny(f.path); err != nil {
		return nil, nil, errors.Join(err, unlock())
	}
	if r, err := stophook.ReadRecord(f.record); err == nil {
		f.made, f.known = r.Made, true
	} else if !errors.Is(err, fs.ErrNotExist) {
		a.debug("%s: %v", f.record, err)
	}
	if !f.known { // of a hook that somebody else copied here, or the state directory is another
		f.made = stophook.Made{Hooks: true, Stop: true}
	}
	return f, unlock, nil
}

// settingsPath returns the path of the settings file that o names.
func (a *app) settingsPath(o hookOptions) (string, error) {
	switch {
	case o.user && o.file != "":
		return "", usage("omit one of them", "--user and --file name two files")
	case o.file != "":
		return filepath.Abs(o.file)
	case o.user:
		root, err := a.root()
		if err != nil {
			return "", err
		}
		return filepath.Join(root.Path(), "settings.json"), nil
	}
	cwd, err := a.cwd()
	if err != nil {
		return "", err
	}
	return filepath.Join(cwd, ".claude", "settings.local.json"), nil
}

// regularFile follows symbolic links, and refuses what is there but is not a regular file.
func regularFile(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(path); lerr == nil {
			return "", refuse("remove the link, or create what it leads to", "%s is a symbolic link that leads nowhere", path)
		}
		// The directory may be reached by a link.
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			return filepath.Join(dir, filepath.Base(path)), nil
		}
		return path, nil
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err == nil && !info.Mode().IsRegular() {
		err = refuse("choose another with --file", "%s is not a regular file", path)
	}
	return real, err
}

// readIfAny reads a file; nil if there is none.
func readIfAny(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if data == nil && err == nil {
		data = []byte{}
	}
	return data, err
}

// replace writes the file, unless another program has changed it since it was read.
func (f *hookFile) replace(data []byte) error {
	now, err := readIfAny(f.path)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(now, f.data) || (now == nil) != (f.data == nil):
		return api.Decide(api.CodeConflict, "nothing was changed; try again", "another program has just changed %s", f.path)
	case data == nil:
		return os.Remove(f.path)
	}
	return atomicfile.Write(f.path, data)
}

type hookInstalled struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Command string `json:"command"`
}

func (a *app) hookInstall(ctx context.Context, o hookOptions) (err error) {
	own, err := ownBinary()
	if err != nil {
		return err
	}
	f, unlock, err := a.openHookFile(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	answer := hookInstalled{File: f.path, Command: a.hookCommand(own)}
	old := f.data
	if f.data == nil {
		old = []byte("{}\n")
	}
	data, m, err := stophook.Install(old, own, answer.Command, f.made)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	if answer.Changed = !bytes.Equal(old, data); answer.Changed {
		m.File = m.File || f.data == nil
		dir := filepath.Dir(f.path)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			m.Directory = true
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
		}
		// First, since a hook without a record is not removed as a whole.
		if err := f.remember(m); err != nil {
			return err
		}
		if err := f.replace(data); err != nil {
			return err
		}
	}
	word := "installed"
	if !answer.Changed {
		word = "unchanged"
	}
	if err := a.answer(answer, "%s  %s\n", word, escape(f.path, false)); err != nil {
		return err
	}
	if answer.Changed {
		a.note("Claude Code reads hooks when it starts: restart the agents that run already")
	}
	return nil
}

// remember keeps what was made in the settings file.
func (f *hookFile) remember(m stophook.Made) error {
	if err := os.MkdirAll(filepath.Dir(f.record), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(stophook.Record{File: f.path, Made: m})
	if err != nil {
		return err
	}
	return atomicfile.Write(f.record, data)
}

// hookCommand is the command of the hook: own with the directories that it would not find
// by itself.
func (a *app) hookCommand(own string) string {
	var flags []string
	if home, err := a.home(); err != nil || a.state != filepath.Join(home, ".local", "state", "teambridge") {
		flags = append(flags, "--state-dir", a.state)
	}
	if a.claudeDir != "" {
		if dir, err := filepath.Abs(a.claudeDir); err == nil {
			flags = append(flags, "--claude-dir", dir)
		}
	}
	return stophook.Command(own, flags...)
}

// ownBinary is the path of this program, for what runs it later.
func ownBinary() (string, error) {
	binary, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if strings.Contains(filepath.ToSlash(binary), "/go-build") {
		return "", usage("install it first: go install ./cmd/teambridge", "\"go run\" removes this program when it ends")
	}
	return binary, nil
}

type hookRemoved struct {
	File    string `json:"file"`
	Removed bool   `json:"removed"`
}

func (a *app) hookUninstall(ctx context.Context, o hookOptions) (err error) {
	f, unlock, err := a.openHookFile(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	own, _ := os.Executable() // else the hook is known by its name
	data, empty := f.data, false
	if f.data != nil {
		if data, empty, err = stophook.Uninstall(f.data, own, f.made); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	answer := hookRemoved{File: f.path, Removed: !bytes.Equal(data, f.data)}
	if answer.Removed {
		if empty && f.made.File {
			data = nil
		}
		if err := f.replace(data); err != nil {
			return err
		}
		if data == nil && f.made.Directory {
			_ = os.Remove(filepath.Dir(f.path)) // fails if it is not empty
		}
	}
	if err := os.Remove(f.record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !answer.Removed && !a.json {
		a.note("there is no hook of teambridge in %s", f.path)
		return nil
	}
	return a.answer(answer, "removed  %s\n", escape(f.path, false))
}
