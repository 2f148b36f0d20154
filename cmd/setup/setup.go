// Package setup equips the programs of agents on a machine for teambridge, and undoes that.
//
// Claude Code gets the plugin, or only the hooks, and the variable in its settings that turns agent teams on.
// Codex and Qwen Code get the tools, by their own commands. OpenCode needs nothing.
//
// Each step can be examined and done separately: see [Setup.Look] and [Setup.Do]. The folder setup of the state
// directory records the steps that were done, with a copy of each file from before its first change. Only these
// steps are undone: see [Setup.Made]. A file that was not changed since gets its old bytes back, in whatever
// order the steps are undone. From other files, our entry is removed.
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

// Setup configures the setup of one user on one machine.
type Setup struct {
	Root    string   // Claude Code's directory; it may be missing
	Named   bool     // Root is not the default of Claude Code and Program
	Codex   string   // Codex's directory; it may be missing
	Qwen    string   // Qwen Code's
	State   string   // our state directory
	Program string   // absolute path of teambridge
	Flags   []string // flags of Program for every Claude directory
	Path    string   // in the form of $PATH: the directories of programs
	File    string   // absolute path of the settings file for the hooks; "": the file for all projects
	Unasked bool     // the waiting hook is for sessions with a socket, too
	System  System   // runs the service; nil: none
}

// The programs.
const (
	Claude   = "claude"
	Codex    = "codex"
	OpenCode = "opencode"
	Qwen     = "qwen"

	Teambridge = "teambridge" // its service is a step
)

// The steps.
const (
	Plugin  = "plugin"      // in Claude Code
	Teams   = "teams"       // in Claude Code
	Hooks   = stophook.Step // in a settings file of Claude Code, without the plugin, which also has them
	Asks    = "questions"   // sessions' questions at terminals can be answered elsewhere
	Respawn = "respawn"     // a message restarts a session that was stopped in the background
	Tools   = "tools"       // of "teambridge mcp", in Codex and Qwen Code
	Rights  = "rights"      // the person's messages to Qwen Code have the person's authority
	Serve   = "service"     // the system runs it from login on
	Run     = "run"         // "teambridge run" needs no setup
)

// State is the state of a step.
type State string

// The states.
const (
	Done     State = "done"
	Missing  State = "missing"
	Declined State = "declined" // missing, or still there, since the person declined the step
	Other    State = "other"    // set up in another way by another program, or nothing to set up
	Failed   State = "failed"
)

// Step is one change that a program needs.
type Step struct {
	Program string `json:"program"`
	Path    string `json:"path"` // of the program; "": not in $PATH
	Name    string `json:"step"`
	State   State  `json:"state"`
	Detail  string `json:"detail"`
	Changed bool   `json:"changed"`

	// Target is the place of the change: the program's directory, or a settings file for hooks that are not for
	// all projects.
	Target string `json:"-"`

	// Grants means that the step gives teambridge rights of the person, who must agree to it separately.
	Grants bool `json:"-"`
	// Plan describes what [Setup.Do] would do, as an order; "": nothing.
	Plan string `json:"-"`

	kind *kind
	undo bool
}

// action examines, does and undoes a step.
type action interface {
	look(context.Context, *Step) error
	do(context.Context, *Step) error
	undo(context.Context, *Step) error
}

// lasting is an action whose effect can be recognized without a record.
type lasting interface {
	there(context.Context, *Step) bool
}

// kind is a row of the table of steps.
type kind struct {
	program, name string
	named         bool // done only on request, and needs no program
	grants        bool
	action        func(*Setup) action
	undoes        string // the plan for undoing it; FILE stands for its settings file, and ID for the controller
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

// Programs returns the programs that Look looks for, in the order of their steps.
func Programs() []string { return []string{Claude, Codex, OpenCode, Qwen} }

// Names returns the names that select steps: names of programs and of steps.
func Names() []string {
	return append(Programs(), Plugin, Teams, Hooks, Asks, Respawn, Tools, Rights, Serve)
}

// chosen reports whether names select a step. Without names, all steps are selected that are not on request only.
func (k *kind) chosen(names []string) bool {
	return slices.Contains(names, k.name) || !k.named && (len(names) == 0 || slices.Contains(names, k.program))
}

// step returns the step of a kind.
func (s *Setup) step(k *kind) *Step {
	st := &Step{Program: k.program, Name: k.name, Target: s.Root, Grants: k.grants, kind: k}
	st.Path, _ = shell.LookPath(s.Path, k.program) // "": not found
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

// Look returns the states of the steps of the programs in $PATH, or of the steps that names select (see
// [Names]). It changes nothing.
func (s *Setup) Look(ctx context.Context, names ...string) (list []*Step) {
	for i := range kinds {
		if st := s.step(&kinds[i]); st.kind.chosen(names) && (st.Path != "" || st.kind.named) {
			s.look(ctx, st)
			list = append(list, st)
		}
	}
	return list
}

// Made returns the steps that [Setup.Do] has done, or only those that names select, in the order for undoing: the
// last one comes first. For selected steps, it also returns those without a record whose effect can be recognized.
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
				st.Target = r.Target // the settings file of a project
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

// Do does what the step plans, and sets the step's new state.
func (s *Setup) Do(ctx context.Context, st *Step) {
	release, err := lockedfile.HoldWithin(ctx, time.Minute, filepath.Join(s.State, "locks"), "setup")
	if err == nil {
		err = errors.Join(s.do(ctx, st), release())
	}
	if st.Plan = ""; err != nil {
		st.fail(err)
	}
}

// do does a step, or undoes it. If a step fails, it undoes what was recorded, unless the step was done before.
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
		if st.State, st.Detail = Missing, st.Plan; st.Path != "" || st.kind.named { // otherwise there is no program to ask
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

// fail sets the step's state after a failure.
func (st *Step) fail(err error) {
	st.State, st.Detail, st.Plan = Failed, err.Error(), ""
	switch {
	case errors.Is(err, errChanged):
		st.Detail += "; it was left as it is: try again"
	case errors.Is(err, errNotRegular), errors.Is(err, errDangling):
		st.Detail += "; put a file in its place, and try again"
	}
}

// Decline sets the step's state after the person declined it.
func (st *Step) Decline() { st.State, st.Detail, st.Plan = Declined, "declined: "+st.Plan, "" }

// look examines the state of a step.
func (s *Setup) look(ctx context.Context, st *Step) {
	if err := st.kind.action(s).look(ctx, st); err != nil {
		st.fail(err)
	}
}

// runStep has no effect: "teambridge run" needs no setup.
type runStep struct{}

func (runStep) look(_ context.Context, st *Step) error {
	st.State, st.Detail = Done, "nothing to set up: run an agent with teambridge run --runtime opencode"
	return nil
}

func (runStep) do(context.Context, *Step) error   { return nil }
func (runStep) undo(context.Context, *Step) error { return nil }
