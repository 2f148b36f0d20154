// Package setup gives the programs of agents on a machine what they need for teambridge, and takes it away again.
//
// Claude Code gets the plugin, and the variable in its settings that turns agent teams on, or the hooks alone. Codex and Qwen Code get
// the tools, by their own commands. Of OpenCode it only says what works.
//
// Each step is looked at, and done, by itself: see [Setup.Look] and [Setup.Do]. What was done is recorded in the folder setup of
// the state directory, with a copy of each file as it was before the first step that changes it, and only that is undone: see
// [Setup.Made]. A file that nobody has changed since gets its old bytes back, whatever the order in which steps
// are undone. Otherwise our own entry is removed from it.
package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/relay/shell"
	"teambridge/relay/stophook"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
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
	File    string   // the settings file for the hooks, by its absolute path; "": that of all projects
	Unasked bool     // the waiting hook is for sessions with a socket, too
	System  System   // that runs the service; nil: there is none
}

// The programs.
const (
	Claude   = "claude"
	Codex    = "codex"
	OpenCode = "opencode"
	Qwen     = "qwen"

	Teambridge = "teambridge" // whose service is a step
)

// The steps.
const (
	Plugin  = "plugin"      // of Claude Code
	Teams   = "teams"       // turned on in Claude Code
	Hooks   = stophook.Step // in a settings file of Claude Code: the plugin has them, too
	Asks    = "questions"   // what sessions ask at their terminals can be answered from elsewhere
	Respawn = "respawn"     // a message starts a session again that was stopped in the background
	Tools   = "tools"       // of "teambridge mcp", in Codex and Qwen Code
	Rights  = "rights"      // what the person sends to Qwen Code counts as theirs
	Serve   = "service"     // the system runs it from login on
	Run     = "run"         // nothing is set up: "teambridge run" runs it
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

	// Target is where it is done: the directory of the program, or the settings file of hooks that are not those of all projects.
	Target string `json:"-"`

	// Grants says that it gives teambridge rights of the person, who should agree to it alone.
	Grants bool `json:"-"`
	// Plan is what [Setup.Do] would do, as an order; "": nothing.
	Plan string `json:"-"`

	kind *kind
	undo bool
}

// action finds out how a step stands, and does and undoes it.
type action interface {
	look(context.Context, *Step) error
	do(context.Context, *Step) error
	undo(context.Context, *Step) error
}

// lasting is an action whose effect can be told from that of others without a record of it.
type lasting interface {
	there(context.Context, *Step) bool
}

// kind is a row of the table of steps.
type kind struct {
	program, name string
	named         bool // it is done only if it is named, and needs no program
	grants        bool
	action        func(*Setup) action
	undoes        string // the plan to undo it: FILE is its settings file, and ID the controller
}

var kinds = []kind{
	{program: Claude, name: Plugin, action: func(s *Setup) action { return pluginStep{s} },
		undoes: "remove the plugin"},
	{program: Claude, name: Teams, action: func(s *Setup) action { return teamsStep{s} },
		undoes: "take " + teams.EnableVariable + " out of FILE"},
	{program: Claude, name: Hooks, named: true, action: func(s *Setup) action { return hooksStep{s} },
		undoes: "take the hooks out of FILE"},
	{program: Claude, name: Asks, named: true, action: func(s *Setup) action { return switchStep{s} },
		undoes: "no longer let what sessions ask be answered from elsewhere"},
	{program: Claude, name: Respawn, named: true, action: func(s *Setup) action { return switchStep{s} },
		undoes: "no longer let messages start sessions again"},
	{program: Teambridge, name: Serve, named: true, action: func(s *Setup) action { return serviceStep{s} },
		undoes: "stop the service, and no longer start it at login"},
	{program: Codex, name: Tools, action: func(s *Setup) action { return toolsStep{s} },
		undoes: "take teambridge out of the MCP servers of Codex"},
	{program: OpenCode, name: Run, action: func(*Setup) action { return runStep{} }},
	{program: Qwen, name: Tools, action: func(s *Setup) action { return toolsStep{s} },
		undoes: "take teambridge out of the MCP servers of Qwen Code"},
	{program: Qwen, name: Rights, grants: true, action: func(s *Setup) action { return controllerStep{s} },
		undoes: "revoke the controller ID"},
}

// Programs are those that are looked for, in the order of their steps.
func Programs() []string { return []string{Claude, Codex, OpenCode, Qwen} }

// Names are what steps can be chosen by: the names of programs and of steps.
func Names() []string {
	return append(Programs(), Plugin, Teams, Hooks, Asks, Respawn, Tools, Rights, Serve)
}

// chosen reports whether a step is one of those with these names; without names, all are that are not done by their name alone.
func (k *kind) chosen(names []string) bool {
	return slices.Contains(names, k.name) || !k.named && (len(names) == 0 || slices.Contains(names, k.program))
}

// step returns the step of a kind.
func (s *Setup) step(k *kind) *Step {
	st := &Step{Program: k.program, Name: k.name, Target: s.Root, Grants: k.grants, kind: k}
	st.Path, _ = shell.LookPath(s.Path, k.program) // "" if it is not there
	switch {
	case k.program == Codex:
		st.Target = s.Codex
	case k.program == Qwen:
		st.Target = s.Qwen
	case k.name == Hooks && s.File != "":
		st.Target = s.File
	}
	return st
}

// Look returns how the steps of the programs in $PATH stand, or those of [Names] alone. It changes nothing.
func (s *Setup) Look(ctx context.Context, names ...string) (list []*Step) {
	for i := range kinds {
		if st := s.step(&kinds[i]); st.kind.chosen(names) && (st.Path != "" || st.kind.named) {
			s.look(ctx, st)
			list = append(list, st)
		}
	}
	return list
}

// Made returns the steps that [Setup.Do] has done, or those of [Names] alone, to be undone in this order: the last one comes first.
// Of steps that are named, it also returns those without a record, if their effect can be told from that of others.
func (s *Setup) Made(ctx context.Context, names ...string) (list []*Step, err error) {
	all, err := s.records()
	if err != nil {
		return nil, err
	}
	undo := func(st *Step, r record) {
		st.State, st.Detail = Done, "done by setup"
		st.Plan = strings.NewReplacer("FILE", s.file(st), "ID", r.controller()).Replace(st.kind.undoes)
		st.undo, st.Grants = true, false
		list = append(list, st)
	}
	for _, r := range slices.Backward(all.Steps) {
		for i := range kinds {
			st := s.step(&kinds[i])
			if len(names) == 0 && r.Step == Hooks && slices.Contains(slices.Collect(maps.Values(r.Files)), r.Target) {
				st.Target = r.Target // those of a project
			}
			if r.Step == st.Name && r.Target == st.Target && (len(names) == 0 || st.kind.chosen(names)) {
				undo(st, r)
			}
		}
	}
	for i := range kinds {
		st := s.step(&kinds[i])
		r, done := all.find(st)
		if done || !slices.Contains(names, st.Name) {
			continue
		}
		if a, lasts := st.kind.action(s).(lasting); lasts && a.there(ctx, st) {
			undo(st, r)
		}
	}
	return list, nil
}

// Do does what the step plans, and says in the step what became of it.
func (s *Setup) Do(ctx context.Context, st *Step) {
	release, err := lockedfile.HoldWithin(ctx, time.Minute, filepath.Join(s.State, "locks"), "setup")
	if err == nil {
		err = errors.Join(s.do(ctx, st), release())
	}
	if st.Plan = ""; err != nil {
		st.fail(err)
	}
}

// do does a step, or undoes it. What is recorded of one that fails is undone, unless it was done before.
func (s *Setup) do(ctx context.Context, st *Step) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	action := st.kind.action(s)
	do := action.do
	if st.undo {
		do = action.undo
	}
	if err = do(ctx, st); err == nil {
		if st.State, st.Detail = Missing, st.Plan; st.Path != "" || st.kind.named { // else it cannot be asked
			s.look(ctx, st)
		}
		if st.undo || st.State != Missing {
			return nil
		}
		err = fmt.Errorf("it was done, but %s", st.Detail)
	}
	if _, done := all.find(st); st.undo || done {
		return err
	}
	if all, left := s.records(); left != nil {
		return errors.Join(err, left)
	} else if _, recorded := all.find(st); !recorded {
		return err
	}
	if left := action.undo(ctx, st); left != nil {
		return errors.Join(err, fmt.Errorf("undo what was done of it: %w; try: teambridge setup --undo", left))
	}
	st.Changed = false
	return err
}

// fail says in the step that it has failed.
func (st *Step) fail(err error) {
	st.State, st.Detail, st.Plan = Failed, err.Error(), ""
	switch {
	case errors.Is(err, errChanged):
		st.Detail += "; it was left as it is: try again"
	case errors.Is(err, errNotRegular), errors.Is(err, errDangling):
		st.Detail += "; put a file in its place, and try again"
	}
}

// Decline says in the step that the person does not want it.
func (st *Step) Decline() { st.State, st.Detail, st.Plan = Declined, "declined: "+st.Plan, "" }

// look fills in how a step stands.
func (s *Setup) look(ctx context.Context, st *Step) {
	if err := st.kind.action(s).look(ctx, st); err != nil {
		st.fail(err)
	}
}

// runStep is nothing: "teambridge run" runs the program.
type runStep struct{}

func (runStep) look(_ context.Context, st *Step) error {
	st.State, st.Detail = Done, "nothing to set up: run an agent with teambridge run --runtime opencode"
	return nil
}

func (runStep) do(context.Context, *Step) error   { return nil }
func (runStep) undo(context.Context, *Step) error { return nil }
