package main

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/doctor"
	"teambridge/teams"
)

// probeProgram measures Claude Code; see cmd/teambridge-probe.
const probeProgram = "teambridge-probe"

// newProbe returns the command that says where the probe is. The probe was a command of this program once.
func newProbe(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "probe",
		Short: "Show where teambridge-probe is, which measures Claude Code",
		Long: `Show where the program teambridge-probe is, which measures Claude Code.

teambridge-probe measures whether Claude Code behaves as teambridge expects. It
is a separate program, since few people need it.

Exit status: 0 it was found; 3 it was not.`,
		Example:            "  teambridge probe",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs, // for earlier command lines of the probe
		RunE: func(*cobra.Command, []string) error {
			where, err := exec.LookPath(probeProgram)
			if err != nil {
				if here, herr := os.Executable(); herr == nil {
					where, err = exec.LookPath(filepath.Join(filepath.Dir(here), probeProgram))
				}
			}
			if err != nil {
				return notFound("it is built with: go install ./cmd/"+probeProgram, "%s measures Claude Code, and is not installed", probeProgram)
			}
			return a.printf("%s measures Claude Code: %[1]s --help\n", where)
		},
	}
}

// versionNote warns of members whose Claude Code is newer than the versions that teambridge was measured with, and
// was not measured on this machine. It warns once per version.
func (f *files) versionNote(sent ...api.Sent) {
	for _, s := range sent {
		v, err := teams.ParseVersion(s.Unlisted)
		if err != nil || v.Outdated() || f.state == "" {
			continue
		}
		dir := doctor.Measured(f.state)
		if _, err := os.Stat(filepath.Join(dir, v.String()+".json")); err == nil {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			continue // the next send tries again
		}
		told, err := os.OpenFile(filepath.Join(dir, v.String()+".told"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			continue // it has warned before
		}
		_ = told.Close()
		f.warn("%s; measure it with: teambridge-probe", v.NewerNote(s.Member))
	}
}
