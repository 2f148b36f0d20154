package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"teambridge/status/api"
)

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version.

Exit status: 0.`,
		Example: `  teambridge version --json`,
		RunE:    func(*cobra.Command, []string) error { return a.version() },
	}
}

// build is the version of this program.
func build() api.Version {
	v := api.Version{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			v.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}

func (a *app) version() error {
	v := build()
	if a.json {
		return a.printJSON(v)
	}
	commit := ""
	if v.Commit != "" {
		commit = " " + v.Commit
	}
	return a.printf("teambridge %s%s %s %s/%s\n", v.Version, commit, v.Go, v.OS, v.Arch)
}
