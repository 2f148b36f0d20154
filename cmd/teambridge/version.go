package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return a.version() },
	}
}

// versionInfo is what version says. The names are those of --json.
type versionInfo struct {
	Version string `json:"version"` // of the module; "(devel)" for a build from a checkout
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (a *app) version() error {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
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
	if a.json {
		return a.printJSON(v)
	}
	commit := ""
	if v.Commit != "" {
		commit = " " + v.Commit
	}
	return a.printf("teambridge %s%s %s %s/%s\n", v.Version, commit, v.Go, v.OS, v.Arch)
}
