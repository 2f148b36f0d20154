package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/inbox/ledger"
	"teambridge/relay/profile"
	"teambridge/relay/runtimes"
	"teambridge/status/api"
	"teambridge/status/view"
)

func newProfile(a *app) *cobra.Command {
	return group("profile", "Agent profiles: list, show",
		`Profiles that agents can be given: a prompt, tools and a model.

A profile is a file of Claude Code's subagents, such as
.claude/agents/reviewer.md. "teambridge run", "relay add" and "query" take its
name with --profile.`,
		newProfileList(a), newProfileShow(a))
}

func newProfileList(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the profiles, and files that cannot be used",
		Long: `List the profiles that an agent in this directory can be given.

Profiles are the files of Claude Code's subagents: those in .claude/agents of
the directory and of those above it, up to the top of the repository, and then
those in "agents" of the Claude directory. Of two with one name the nearer one
is used. A file that cannot be used is listed with the reason.

Exit status: 0, even if there are none.`,
		Example: `  teambridge profile list`,
		RunE:    func(*cobra.Command, []string) error { return listProfiles(a, dir) },
	}
	dirFlag(cmd, &dir)
	return cmd
}

func newProfileShow(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a profile",
		Long: `Show a profile: its file, tools, model and prompt.

The name is the one in the file, which need not be that of the file.

Exit status: 0; 2 the file cannot be used; 3 no such profile.`,
		Example:           `  teambridge profile show reviewer`,
		Args:              exactly(1),
		ValidArgsFunction: completer{a}.completeFirst(func(context.Context) []string { return profileNames(a, dir) }),
		RunE:              func(_ *cobra.Command, args []string) error { return showProfile(a, dir, args[0]) },
	}
	dirFlag(cmd, &dir)
	return cmd
}

// profilesFor returns the profiles for a directory, and the directories that it searched.
func profilesFor(a *app, dir string) ([]profile.Entry, []string, error) {
	root, err := a.root()
	if err != nil {
		return nil, nil, err
	}
	dirs, err := profile.Dirs(dir, root.Path())
	if err != nil {
		return nil, nil, err
	}
	return profile.List(dirs), dirs, nil
}

func profileNames(a *app, dir string) (names []string) {
	all, _, err := profilesFor(a, dir)
	if err != nil {
		return nil
	}
	for _, e := range all {
		if e.Err == nil && e.HiddenBy == "" {
			names = append(names, e.Name)
		}
	}
	return names
}

func profileInfo(p *profile.Profile) api.Profile {
	return api.Profile{
		Name: p.Name, Description: p.Description, Tools: p.Tools, DisallowedTools: p.Disallowed, Model: p.Model, Path: p.Path,
	}
}

func listProfiles(a *app, dir string) error {
	all, dirs, err := profilesFor(a, dir)
	if err != nil {
		return err
	}
	infos := []api.Profile{}
	for _, e := range all {
		info := profileInfo(e.Profile)
		info.HiddenBy = e.HiddenBy
		if e.Err != nil {
			info.Problem = view.Describe(e.Err)
		}
		infos = append(infos, info)
	}
	none := "there is no profile in " + strings.Join(dirs, ", ")
	return printList(&a.console, infos, none, []string{"PROFILE", "MODEL", "TOOLS", "FILE", "DESCRIPTION"}, func(i api.Profile) []string {
		text := i.Description
		switch {
		case i.Problem != "":
			text = "not used: " + i.Problem
		case i.HiddenBy != "":
			text = "not used: " + i.HiddenBy + " goes before it"
		}
		return []string{dash(i.Name), dash(i.Model), profileTools(i), i.Path, text}
	})
}

func profileTools(i api.Profile) string {
	text := strings.Join(i.Tools, ", ")
	switch {
	case i.Tools == nil && i.Problem != "":
		return "-"
	case i.Tools == nil:
		text = "all"
	case len(i.Tools) == 0:
		text = "none"
	}
	if len(i.DisallowedTools) > 0 {
		text += ", not " + strings.Join(i.DisallowedTools, ", ")
	}
	return text
}

func showProfile(a *app, dir, name string) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	p, err := profile.Ref{Name: name, Dir: dir, Root: root.Path()}.Load()
	if err != nil {
		return err
	}
	info := profileInfo(p)
	if a.json {
		info.Prompt = &p.Prompt
		return a.printJSON(info)
	}
	var b strings.Builder
	for _, line := range [][2]string{
		{"Name", p.Name}, {"File", p.Path}, {"Description", p.Description}, {"Model", dash(p.Model)}, {"Tools", profileTools(info)},
	} {
		b.WriteString(line[0] + ": " + escape(line[1], false) + "\n")
	}
	return a.printf("%s\n%s\n", b.String(), escape(p.Prompt, true))
}

// profileNote notes that an agent of Claude Code could not write to its team.
func profileNote(a *app, r ledger.Relay) {
	if r.Profile == "" || r.Runtime == runtimes.OpenCode { // the relay writes for OpenCode
		return
	}
	p, err := profile.Ref{Name: r.Profile, Dir: r.Dir, Root: r.Root}.Load()
	if err == nil && !p.Has("SendMessage") {
		a.note("profile %s does not have the tool SendMessage, so the agent cannot write to its team", escape(p.Name, false))
	}
}
