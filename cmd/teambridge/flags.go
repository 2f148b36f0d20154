package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Flags that several commands share are defined here, so that each has one name, one type and one completion.

// timeoutFlag adds --timeout, which limits how long a command waits.
func timeoutFlag(cmd *cobra.Command, d *time.Duration, value time.Duration, usage string) {
	durationFlag(cmd, d, "timeout", value, usage+"; 0 is forever")
}

// sinceFlag adds --since. shown names what the command shows, and others are further forms of the value.
func sinceFlag(cmd *cobra.Command, since *string, shown string, others ...string) {
	from := append([]string{"only " + shown + " since a duration ago (1h, 2d)", "a time"}, others...)
	cmd.Flags().StringVar(since, "since", "", strings.Join(from, ", or "))
}

// messagesSinceFlag adds a --since that also accepts the id of a message.
func messagesSinceFlag(cmd *cobra.Command, since *string) {
	sinceFlag(cmd, since, "messages", "the message with this id")
}

// fromFlag adds the --from of commands that show messages.
func fromFlag(cmd *cobra.Command, a *app, from *string) {
	cmd.Flags().StringVar(from, "from", "", "only messages of this sender")
	must(cmd.RegisterFlagCompletionFunc("from", completer{a}.completeMembers(-1)))
}

func limitFlag(cmd *cobra.Command, limit *int, value int) {
	cmd.Flags().IntVar(limit, "limit", value, "show the last N messages; 0 is all")
}

// protocolFlag adds the --protocol of commands that show messages.
func protocolFlag(cmd *cobra.Command, protocol *bool) {
	cmd.Flags().BoolVar(protocol, "protocol", false, "include confirmations that nobody needs to read")
}

func markReadFlag(cmd *cobra.Command, mark *bool) {
	cmd.Flags().BoolVar(mark, "mark-read", false, "mark the messages that are shown as read")
}

func allFlag(cmd *cobra.Command, all *bool, usage string) {
	cmd.Flags().BoolVar(all, "all", false, usage)
}

// watchFlag adds --watch, for commands that print a state again when it changes.
func watchFlag(cmd *cobra.Command, watch *bool) {
	cmd.Flags().BoolVar(watch, "watch", false, "keep running, and print each change")
}

// followFlag adds --follow, for commands that print a growing text.
func followFlag(cmd *cobra.Command, follow *bool) {
	cmd.Flags().BoolVarP(follow, "follow", "f", false, "keep running, and print what is added")
}

func asFlag(cmd *cobra.Command, as *string, value, usage string) {
	cmd.Flags().StringVar(as, "as", value, usage)
}

// dirFlag adds the --dir of an agent.
func dirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", ".", "the agent's working directory")
	must(cmd.MarkFlagDirname("dir"))
}

func modeFlag(cmd *cobra.Command, mode *string, usage string) {
	cmd.Flags().StringVar(mode, "mode", "", usage+`, as JSON such as {"model": "opus"}`)
	must(cmd.RegisterFlagCompletionFunc("mode", cobra.NoFileCompletions))
}

func runtimeFlag(cmd *cobra.Command, runtime *string, value string, kinds ...string) {
	cmd.Flags().StringVar(runtime, "runtime", value, "what the agent is: "+strings.Join(kinds, " or "))
	complete(cmd, "runtime", kinds...)
}

func profileFlag(cmd *cobra.Command, profile *string) {
	cmd.Flags().StringVar(profile, "profile", "", "give the agent the prompt, the tools and the model of this profile")
}

func sessionFlag(cmd *cobra.Command, session *string, usage string) {
	cmd.Flags().StringVar(session, "session", "", usage)
}

func policyFlag(cmd *cobra.Command, policy *string) {
	cmd.Flags().StringVar(policy, "policy", "", "when to type the message into a pane: "+strings.Join(policies, ", ")+" (default "+policies[0]+")")
	complete(cmd, "policy", policies...)
}

func replaceFlag(cmd *cobra.Command, replace *bool, usage string) {
	cmd.Flags().BoolVar(replace, "replace", false, usage)
}

func forceFlag(cmd *cobra.Command, force *bool, usage string) {
	cmd.Flags().BoolVar(force, "force", false, usage)
}

func dryRunFlag(cmd *cobra.Command, dryRun *bool, usage string) {
	cmd.Flags().BoolVarP(dryRun, "dry-run", "n", false, usage)
}

func unaskedFlag(cmd *cobra.Command, unasked *bool, usage string) {
	cmd.Flags().BoolVar(unasked, "unasked", false, usage)
}
