// Package setup gives the programs of agents on a machine what they need for teambridge, and takes it away again.
//
// Claude Code gets the plugin, and the variable in its settings that turns agent teams on. Codex and Qwen Code get the tools, by their
// own commands. Of OpenCode it only says what works.
//
// Each step is looked at, and done, by itself: see [Setup.Look] and [Setup.Do]. What was done is recorded in the folder setup of
// the state directory, with a copy of the file that was changed, and only that is undone: see [Setup.Made]. A file that
// nobody has changed since gets its old bytes back. Otherwise our own entry is removed from it.
package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"teambridge/plugin"
	"teambridge/relay/stophook"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/sharedfile"
)

// Setup is a machine, for one user.
type Setup struct {
	Root    string   // Claude Code's directory, which need not exist
	Named   bool     // Root is not the one that Claude Code and Program find by themselves
	Codex   string   // Codex's directory, which need not exist
	Qwen    string   // Qwen Code's
	State   string   // ours
	Program string   // teambridge, by its absolute path
	Flags   []string // of Program, in whatever Claude directory it runs
	Path    string   // as $PATH: where programs are looked for

	// Debug gets what went wrong without consequences. It must not be nil.
	Debug func(format string, args ...any)
}

// The programs.
const (
	Claude   = "claude"
	Codex    = "codex"
	OpenCode = "opencode"
	Qwen     = "qwen"
)

// The steps.
const (
	Plugin = "plugin" // of Claude Code
	Teams  = "teams"  // turned on in Claude Code
	Tools  = "tools"  // of "teambridge mcp", in Codex and Qwen Code
	Rights = "rights" // what the person sends to Qwen Code counts as theirs
	Run    = "run"    // nothing is set up: "teambridge run" runs it
)

// State is how a step stands.
type State string

// The states.
const (
	Done     State = "done"
	Missing  State = "missing"
	Declined State = "declined" // it is missing, or still there, because the person said so
	Other    State = "other"    // somebody else has set it up in another way, or there is nothing to set up
	Failed   State = "failed"
)

// Step is something that a program needs.
type Step struct {
	Program string `json:"program"`
	Path    string `json:"path"` // of the program; "": it is not in $PATH
	Name    string `json:"step"`
	State   State  `json:"state"`
	Detail  string `json:"detail"`
	Changed bool   `json:"changed"`

	// Grants says that it gives teambridge rights of the person, who should agree to it alone.
	Grants bool `json:"-"`
	// Plan is what [Setup.Do] would do, as an order; "": nothing.
	Plan string `json:"-"`
	undo bool
}

// Programs are those that are looked for, in the order of their steps.
func Programs() []string { return []string{Claude, Codex, OpenCode, Qwen} }

// Names are what steps can be chosen by: the names of programs and of steps.
func Names() []string { return append(Programs(), Plugin, Teams, Tools, Rights) }

// chosen reports whether a step is one of those with these names; without names, all are.
func (st *Step) chosen(names []string) bool {
	return len(names) == 0 || slices.Contains(names, st.Name) || slices.Contains(names, st.Program)
}

var steps = []Step{
	{Program: Claude, Name: Plugin}, {Program: Claude, Name: Teams}, {Program: Codex, Name: Tools},
	{Program: OpenCode, Name: Run, State: Done, Detail: "nothing to set up: run an agent with teambridge run --runtime opencode"},
	{Program: Qwen, Name: Tools}, {Program: Qwen, Name: Rights, Grants: true},
}

// Look returns how the steps of the programs in $PATH stand, or those of [Names] alone. It changes nothing.
func (s *Setup) Look(ctx context.Context, names ...string) (list []*Step) {
	for _, st := range steps {
		if st.Path = s.lookPath(st.Program); st.Path != "" && st.chosen(names) {
			s.look(ctx, &st)
			list = append(list, &st)
		}
	}
	return list
}

// Made returns the steps that [Setup.Do] has done, or those of [Names] alone, to be undone in this order: the last one comes first.
func (s *Setup) Made(names ...string) (list []*Step, err error) {
	records, err := s.records()
	for _, r := range slices.Backward(records) {
		for _, st := range steps {
			if s.same(r, &st) && st.chosen(names) {
				st.Path, st.State, st.undo, st.Grants = s.lookPath(st.Program), Done, true, false
				st.Plan = map[string]string{
					Plugin: "remove the plugin",
					Teams:  "take " + teams.EnableVariable + " out of " + s.settings(),
					Tools:  "take teambridge out of the MCP servers of " + title(st.Program),
					Rights: "revoke the controller " + r.controller(),
				}[st.Name]
				st.Detail = "done by setup"
				list = append(list, &st)
			}
		}
	}
	return list, err
}

// Do does what the step plans, and says in the step what became of it.
func (s *Setup) Do(ctx context.Context, st *Step) {
	plan := st.Plan
	st.Plan = ""
	release, err := lockedfile.HoldWithin(ctx, time.Minute, filepath.Join(s.State, "locks"), "setup")
	if err == nil {
		do := map[string]func(context.Context, *Step) error{Plugin: s.installPlugin, Teams: s.enableTeams, Tools: s.addTools, Rights: s.addController}[st.Name]
		if st.undo {
			do = map[string]func(context.Context, *Step) error{Plugin: s.uninstallPlugin, Teams: s.disableTeams, Tools: s.removeTools, Rights: s.removeController}[st.Name]
		}
		err = errors.Join(do(ctx, st), release())
	}
	if err == nil {
		if st.State, st.Detail = Missing, plan; st.Path != "" { // else it cannot be asked
			s.look(ctx, st)
		}
		if st.Plan = ""; !st.undo && st.State == Missing {
			err = fmt.Errorf("it was done, but %s", st.Detail)
		}
	}
	if err != nil {
		st.State, st.Detail = Failed, err.Error()
		switch {
		case errors.Is(err, stophook.ErrChanged):
			st.Detail += "; it was left as it is: try again"
		case errors.Is(err, stophook.ErrNotRegular), errors.Is(err, stophook.ErrDangling):
			st.Detail += "; put a file in its place, and try again"
		}
	}
}

// Decline says in the step that the person does not want it.
func (st *Step) Decline() { st.State, st.Detail, st.Plan = Declined, "declined: "+st.Plan, "" }

// look fills in how a step stands.
func (s *Setup) look(ctx context.Context, st *Step) {
	look := map[string]func(context.Context, *Step) error{Plugin: s.lookPlugin, Teams: s.lookTeams, Tools: s.lookTools, Rights: s.lookController}[st.Name]
	if look == nil {
		return
	}
	if err := look(ctx, st); err != nil {
		st.State, st.Detail, st.Plan = Failed, err.Error(), ""
	}
}

// target is the directory in which a step is done.
func (s *Setup) target(st *Step) string {
	switch st.Program {
	case Codex:
		return s.Codex
	case Qwen:
		return s.Qwen
	}
	return s.Root
}

// title is the name of a program for people.
func title(program string) string {
	return map[string]string{Claude: "Claude Code", Codex: "Codex", OpenCode: "OpenCode", Qwen: "Qwen Code"}[program]
}

// lookPath finds a program; "" if it is not there.
func (s *Setup) lookPath(name string) string {
	for _, dir := range filepath.SplitList(s.Path) {
		if filepath.IsAbs(dir) {
			if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return found
			}
		}
	}
	return ""
}

func (s *Setup) needs(st *Step) error {
	if st.Path == "" {
		return fmt.Errorf("%s is not in $PATH, and is needed to undo this: install it, and try again", st.Program)
	}
	return nil
}

func (s *Setup) installer(st *Step) *plugin.Installer {
	i := &plugin.Installer{Command: []string{st.Path}, Root: s.Root, State: s.State}
	if s.Named {
		i.Env = []string{"CLAUDE_CONFIG_DIR=" + s.Root}
	}
	return i
}

func (s *Setup) lookPlugin(ctx context.Context, st *Step) error {
	is, err := s.installer(st).Status(ctx)
	if err != nil {
		return err
	}
	version, err := plugin.Version(s.Program, s.Flags)
	switch {
	case err != nil:
		return err
	case is.Elsewhere != "":
		st.State, st.Detail = Other, fmt.Sprintf("%v: %s; see it with: claude plugin marketplace list", plugin.ErrElsewhere, is.Elsewhere)
	case is.Version == version && is.Enabled:
		st.State, st.Detail = Done, "the plugin is installed, and runs "+is.Program
	case is.Version == "":
		st.State, st.Detail, st.Plan = Missing, "there is no plugin", "install the plugin: tools, hooks and commands for each session"
	case is.Version == version:
		st.State, st.Detail, st.Plan = Missing, "the plugin is not enabled", "enable the plugin"
	default:
		st.State, st.Detail, st.Plan = Missing, "the plugin is another one, which runs "+is.Program, "update the plugin, which runs "+is.Program
	}
	return nil
}

func (s *Setup) installPlugin(ctx context.Context, st *Step) error {
	i := s.installer(st)
	was, err := i.Status(ctx)
	if err != nil {
		return err
	}
	if was.Version != "" || was.Elsewhere != "" { // it was there before
		_, st.Changed, err = i.Install(ctx, s.Program, s.Flags)
		return err
	}
	r := record{Step: Plugin, Target: s.Root}
	data, err := readIfAny(s.settings())
	if err == nil {
		err = s.remember(r, settingsFile, data)
	}
	if err != nil {
		return err
	}
	if _, st.Changed, err = i.Install(ctx, s.Program, s.Flags); err == nil {
		return nil
	}
	if _, left := i.Uninstall(ctx); left != nil {
		return errors.Join(err, fmt.Errorf("remove what is installed of it: %w; try: teambridge setup --undo", left))
	}
	st.Changed = false
	return errors.Join(err, s.forget(r, settingsFile))
}

func (s *Setup) uninstallPlugin(ctx context.Context, st *Step) error {
	r, ok, err := s.find(st)
	if err != nil || !ok {
		return err
	}
	if err := s.needs(st); err != nil {
		return err
	}
	if st.Changed, err = s.installer(st).Uninstall(ctx); err != nil {
		return err
	}
	return s.forget(r, settingsFile)
}

const settingsFile = "settings.json"

func (s *Setup) settings() string { return filepath.Join(s.Root, settingsFile) }

func (s *Setup) lookTeams(_ context.Context, st *Step) error {
	data, err := readIfAny(s.settings())
	if err != nil {
		return err
	}
	value, ok := "", false
	if data != nil {
		is, err := parse(data)
		if err != nil {
			return s.invalid(err)
		}
		value, ok = is.value()
	}
	switch {
	case ok && teams.Enables(value) && s.shares(st) != nil:
		st.State, st.Detail = Missing, "agent teams are on, by a setup of "+s.shares(st).Target+", which has the same settings"
		st.Plan = "keep agent teams on when that is undone"
	case !ok:
		st.State, st.Detail = Missing, "agent teams are off"
		st.Plan = "turn agent teams on: " + teams.EnableVariable + `=1 in "env" of ` + s.settings()
	case teams.Enables(value):
		st.State, st.Detail = Done, teams.EnableVariable+" is "+value+" in "+s.settings()
	default:
		st.State, st.Detail = Other, fmt.Sprintf("agent teams are turned off: %s is %q in %s; change it there", teams.EnableVariable, value, s.settings())
	}
	return nil
}

func (s *Setup) invalid(err error) error {
	return fmt.Errorf("%s: %w; nothing was changed: repair the file by hand, and try again", s.settings(), err)
}

// sharing returns what was done for another directory whose settings are the same file as those of root, by a link; nil if nothing
// was. r is what was done for root.
func (s *Setup) sharing(root string, r record) (*record, error) {
	list, err := s.records()
	if err != nil {
		return nil, err
	}
	here, err := filepath.EvalSymlinks(filepath.Join(root, settingsFile))
	if err != nil {
		return nil, nil // there is no such file
	}
	for _, other := range list {
		if other.Step != r.Step || other.Target == root {
			continue
		}
		if there, err := filepath.EvalSymlinks(filepath.Join(other.Target, settingsFile)); err == nil && there == here {
			return &other, nil
		}
	}
	return nil, nil
}

// shares returns what a setup of another directory with the same settings has done, unless one of this directory has done it, too.
func (s *Setup) shares(st *Step) *record {
	if _, ok, err := s.find(st); ok || err != nil {
		return nil
	}
	other, _ := s.sharing(s.Root, record{Step: st.Name})
	return other
}

// join records for this directory what was done for another one, which is undone with the last of them.
func (s *Setup) join(other record) error {
	var before []byte
	if other.Existed {
		var err error
		if before, err = os.ReadFile(s.copyOf(other, settingsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	r := other
	r.Target, r.Directory = s.Root, false
	return s.remember(r, settingsFile, before)
}

func (s *Setup) enableTeams(ctx context.Context, st *Step) (err error) {
	f, err := stophook.Open(ctx, s.State, s.settings(), s.Debug)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.Data() != nil { // it may have been written since we looked
		is, err := parse(f.Data())
		if err != nil {
			return s.invalid(err)
		}
		if _, ok := is.value(); ok {
			if other := s.shares(st); other != nil {
				return s.join(*other)
			}
			return nil
		}
	}
	data, made, err := addVariable(f.Data())
	if err != nil {
		return s.invalid(err)
	}
	r := record{Step: Teams, Target: s.Root, After: sum(data), Added: made}
	if _, err := os.Stat(s.Root); errors.Is(err, fs.ErrNotExist) {
		r.Directory = true
	}
	// First, since what has no record is not undone.
	if err := s.remember(r, settingsFile, f.Data()); err != nil {
		return err
	}
	if r.Directory {
		err = os.MkdirAll(s.Root, 0o755)
	}
	if err == nil {
		err = f.Replace(data)
	}
	if err != nil {
		return errors.Join(err, s.forget(r, settingsFile))
	}
	st.Changed = true
	return nil
}

func (s *Setup) disableTeams(ctx context.Context, st *Step) (err error) {
	r, ok, err := s.find(st)
	if err != nil || !ok {
		return err
	}
	f, err := stophook.Open(ctx, s.State, s.settings(), s.Debug)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if other, err := s.sharing(s.Root, r); err != nil || other != nil { // it undoes that later
		return errors.Join(err, s.forget(r, settingsFile))
	}
	if st.Changed, err = s.restore(f, r, settingsFile); err != nil {
		return err
	}
	if !st.Changed && f.Data() != nil {
		data, err := removeVariable(f.Data(), r.Added)
		if err != nil {
			return s.invalid(err)
		}
		if st.Changed = !bytes.Equal(data, f.Data()); st.Changed {
			if err := f.Replace(data); err != nil {
				return err
			}
		}
	}
	if r.Directory {
		_ = os.Remove(s.Root) // fails if it is not empty
	}
	return s.forget(r, settingsFile)
}

// readIfAny reads a file; nil if there is none.
func readIfAny(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() { // reading a pipe would not end
		err = fmt.Errorf("%s %w", path, stophook.ErrNotRegular)
	}
	if err != nil {
		return nil, err
	}
	return sharedfile.ReadFile(path) // of an empty file it is not nil
}
