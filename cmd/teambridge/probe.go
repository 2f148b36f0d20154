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

// newProbe says where the probe is, for who looks for it here.
func newProbe(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "probe",
		Short: "Say where the program is that measures Claude Code",
		Long: `Say where the program is that measures Claude Code.

teambridge-probe measures whether Claude Code does what teambridge relies on. It
is a program of its own, since few need it.

Exit status: 0 it is there; 3 it is not.`,
		Example:            "  teambridge probe",
		Hidden:             true,
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs, // of the probe that it was
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

// versionNote warns, once for each version on this machine, of members whose version is newer than those that teambridge was
// measured with, and which nobody has measured here.
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
			continue // it is said again next time
		}
		told, err := os.OpenFile(filepath.Join(dir, v.String()+".told"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			continue // it was said
		}
		_ = told.Close()
		f.warn("%s; measure it with: teambridge-probe", v.NewerNote(s.Member))
	}
}
