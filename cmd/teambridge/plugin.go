package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"teambridge/plugin"
)

func newPlugin(a *app) *cobra.Command {
	return group("plugin", "A plugin for Claude Code: install, uninstall, status",
		`Give all sessions of Claude Code the tools, hooks and commands of teambridge.`,
		newPluginInstall(a), newPluginUninstall(a), newPluginStatus(a))
}

func newPluginInstall(a *app) *cobra.Command {
	claude := ""
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the plugin for all your sessions",
		Long: `Install the plugin of teambridge for all your sessions of Claude Code.

With it, each session has the tools of "teambridge mcp", both hooks of
"teambridge hook install --wake", the commands /teambridge:send,
/teambridge:inbox and /teambridge:status, and a page for the model that tells it
when to write to whom.

It is written to the state directory, runs this program by its absolute path,
and is installed by "claude plugin". Installing again changes what is different.
Sessions that run already get it when they are started again.

If this program is removed, the hooks do nothing, and Claude Code shows that the
server teambridge failed.

Exit status: 0; 1 Claude Code failed, and said why; 2 Claude Code was not found;
5 it has a plugin called teambridge from elsewhere.`,
		Example: `  teambridge plugin install`,
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return installPlugin(cmd.Context(), a, claude)
		},
	}
	claudeFlag(cmd, &claude)
	return cmd
}

func newPluginUninstall(a *app) *cobra.Command {
	claude := ""
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the plugin",
		Long: `Remove what "teambridge plugin install" has installed.

Nothing of it is left, and settings in which nothing else has changed since are
as they were, byte for byte.

Exit status: 0, even if it was not installed; others are as for "teambridge
plugin install".`,
		Example: `  teambridge plugin uninstall`,
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := a.installer(claude)
			if err != nil {
				return err
			}
			removed, err := i.Uninstall(cmd.Context())
			if err != nil {
				return pluginFault(err)
			}
			if !removed && !a.json {
				a.note("the plugin is not installed")
				return nil
			}
			return a.answer(struct {
				Removed bool `json:"removed"`
			}{removed}, "removed\n")
		},
	}
	claudeFlag(cmd, &claude)
	return cmd
}

func newPluginStatus(a *app) *cobra.Command {
	claude := ""
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether the plugin is installed",
		Long: `Show whether Claude Code has the plugin of teambridge, and which program that
runs.

Exit status: 0 it is installed and enabled; 1 Claude Code failed; 2 Claude Code
was not found; 3 it is not installed, or not enabled.`,
		Example: `  teambridge plugin status`,
		Args:    none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i, err := a.installer(claude)
			if err != nil {
				return err
			}
			s, err := i.Status(cmd.Context())
			if err != nil {
				return err
			}
			if s.Version == "" || !s.Enabled {
				what := "the plugin is not installed"
				if s.Version != "" {
					what = "the plugin is installed, but not enabled"
				}
				return notFound("install it with: teambridge plugin install", "%s", what)
			}
			return a.answer(pluginInstalled{Version: s.Version, Program: s.Program, From: s.Elsewhere}, "installed  %s  runs %s\n", escape(s.Version, false), escape(s.Program, false))
		},
	}
	claudeFlag(cmd, &claude)
	return cmd
}

func claudeFlag(cmd *cobra.Command, claude *string) {
	cmd.Flags().StringVar(claude, "claude", "claude", "the program of Claude Code")
}

// installer is what installs the plugin with a program of Claude Code.
func (a *app) installer(claude string) (*plugin.Installer, error) {
	path, err := exec.LookPath(claude)
	if err != nil {
		return nil, usage("install Claude Code, or say where it is with --claude", "%v", err)
	}
	root, err := a.root()
	if err != nil {
		return nil, err
	}
	i := &plugin.Installer{Command: []string{path}, Root: root.Path(), State: a.state}
	if a.claudeDir != "" {
		i.Env = []string{"CLAUDE_CONFIG_DIR=" + root.Path()}
	}
	return i, nil
}

func pluginFault(err error) error {
	if errors.Is(err, plugin.ErrElsewhere) {
		return refuse("see it with: claude plugin marketplace list", "%v", err)
	}
	return err
}

type pluginInstalled struct {
	Version string `json:"version"`
	Program string `json:"program"`
	Changed bool   `json:"changed,omitempty"`
	From    string `json:"from,omitempty"` // where the marketplace is, if it is not ours
}

func installPlugin(ctx context.Context, a *app, claude string) error {
	own, err := ownBinary()
	if err != nil {
		return err
	}
	i, err := a.installer(claude)
	if err != nil {
		return err
	}
	if i.State, err = filepath.Abs(a.state); err != nil {
		return err
	}
	done := a.working("installing the plugin")
	now, changed, err := i.Install(ctx, own, a.ownFlags())
	done()
	if err != nil {
		return pluginFault(err)
	}
	if err := a.answer(pluginInstalled{Version: now.Version, Program: now.Program, Changed: changed}, "%s  %s\n", orUnchanged("installed", changed), escape(now.Version, false)); err != nil {
		return err
	}
	if changed {
		a.note("sessions get it when they start: restart those that run already")
	}
	return nil
}
