// Package doctor finds what keeps messages from arriving, and gives advice for each problem:
//
//	report, err := doctor.Checkup{Root: root, State: stateDir, …}.Run(ctx, "", false)
//
// A checkup without fix changes nothing. With fix, it removes files that no process uses, such as a file in the place
// of a lock and temporary files of killed processes, and makes the state directory private. It leaves files that may be
// in use, and never changes an inbox.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Checkup configures a checkup. All fields but Dir and Wait are needed.
type Checkup struct {
	Root   *teams.Root
	NoRoot *teams.NoRootError // why there is no Claude directory; it is reported, and Root is then the expected directory, or nil
	State  string             // the state directory; "": none, which is reported
	Locker *lockedfile.Locker // of the inboxes

	// LookupEnv looks up a variable of the environment in which agents are started.
	LookupEnv func(string) (string, bool)
	Dir       string        // the project whose settings are also examined; "": none
	Wait      time.Duration // how long the service may take to answer; 0: 1 s
	Version   api.Version   // of this program

	// Ledger and Journal return the databases. An error is reported as a finding.
	// Ledger returns nil if there is none yet; Journal is called only if its file exists.
	Ledger  func(context.Context) (*ledger.Ledger, error)
	Journal func(context.Context) (*journal.Journal, error)
}

// Run examines one team or, if team is "", everything. With fix, it also fixes what it can. Problems are in the
// report. The error is the error of ctx, or means that the teams cannot be listed or that the team does not exist.
func (c Checkup) Run(ctx context.Context, team string, fix bool) (api.Report, error) {
	x := &examination{Checkup: c}
	if c.NoRoot != nil {
		x.noRoot()
	}
	if c.Root != nil {
		if err := x.examine(ctx, team); err != nil {
			return api.Report{}, err
		}
	}
	r := api.Report{Findings: make([]api.Finding, 0, len(x.findings)), Teams: x.teams, Inboxes: x.inboxes}
	for _, f := range x.findings {
		if fix && f.remedy != nil {
			err := f.remedy()
			if f.Fixed = err == nil; err != nil {
				f.Advice = fmt.Sprintf("it could not be fixed: %v", err)
			}
		}
		r.Findings = append(r.Findings, f.Finding)
	}
	return r, nil
}

// examination is one run of a checkup.
type examination struct {
	Checkup
	findings []*finding
	teams    int // number examined
	inboxes  int // number examined
}

type finding struct {
	api.Finding
	remedy func() error // fixes it; nil: it cannot be fixed
}

func (x *examination) examine(ctx context.Context, only string) error {
	all, err := x.Root.Teams()
	if err != nil {
		return err
	}
	if only != "" {
		t, err := x.Root.Team(only)
		if err != nil {
			return err
		}
		t.Close()
		all = slices.DeleteFunc(all, func(l teams.Listing) bool { return l.Name != only })
	} else if err := x.environment(ctx, all); err != nil {
		return err
	}
	x.teams = len(all)
	for _, l := range all {
		if err := x.team(ctx, l); err != nil {
			return err
		}
	}
	if only == "" {
		if err := x.leftTeams(); err != nil {
			return err
		}
		if err := x.panes(ctx); err != nil {
			return err
		}
		if err := x.sessions(ctx); err != nil {
			return err
		}
		if err := x.links(ctx); err != nil {
			return err
		}
	}
	if only == "" {
		x.alerts()
	}
	x.state(ctx)
	return nil
}

// noRoot reports that the Claude directory is missing or cannot be read.
func (x *examination) noRoot() {
	message, advice := "the Claude directory cannot be used: "+x.NoRoot.Err.Error(), "name another with --claude-dir or $CLAUDE_CONFIG_DIR"
	switch {
	case errors.Is(x.NoRoot, fs.ErrNotExist):
		message, advice = "there is no Claude directory: Claude Code has not run here yet", "run claude once; if it has another directory, name that with --claude-dir or $CLAUDE_CONFIG_DIR"
	case errors.Is(x.NoRoot, fs.ErrPermission):
		advice = "run teambridge as the user who runs Claude Code, or make the directory readable for this user"
	}
	x.add(api.LevelProblem, "no_claude_directory", "", x.NoRoot.Dir, message, advice)
}

// add adds a finding. team and path may be empty.
func (x *examination) add(level, code, team, path, message, advice string) *finding {
	f := &finding{Finding: api.Finding{Level: level, Code: code, Team: team, Path: path, Message: message, Advice: advice}}
	x.findings = append(x.findings, f)
	return f
}
