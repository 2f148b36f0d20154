package main

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/view"
)

func newStatus(a *app) *cobra.Command {
	var watch bool
	var output string
	cmd := &cobra.Command{
		Use:   "status [MEMBER]",
		Short: "Show what each agent is doing, and when it was last heard",
		Long: `Show what each agent is doing, since when, and when it was last heard.

  working          it is at work
  waiting for you  a person has to answer its question
  idle             it waits for messages
  blocked          it cannot continue; the reason is shown
  ended            it has shut down, or no process runs it
  unknown          it was at work, but nothing was heard for 5 minutes

An agent is also stuck if it works without any news for 5 minutes, or if it and
another agent only answer each other (16 times within 10 minutes, or 100 times
within 24 hours).

Panes ("teambridge pane add") and sessions in no team are shown after the team;
--team tmux and --team sessions show only these.

-o wide also shows the evidence. BY is a message or a turn of the agent, its
process, its relay, its pane, an open question, or the team's config.json. STATE
is judged by messages and turns alone: ACTIVE (the last one is less than 5
minutes old), IDLE, or TERMINATED (shut down). RELAY is for headless agents:
messages under way or failed, and the last answer. REACH is how a message
reaches the agent; what that way promises is below the table. Newer agents
remove the messages they read, so many details are known only while "teambridge
watch" or the service is recording. With --watch, a line is printed for each
change until the team ends.

Exit status: 0; 2 bad flags; 3 no such team or member; 4 a service runs and does
not answer, so questions of its agents are unknown; 130 interrupted.`,
		Example: `  teambridge status worker --watch
  teambridge status -o wide`,
		Args:              between(0, 1),
		ValidArgsFunction: completer{a}.completeMembers(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.status(cmd.Context(), args, watch, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "format of the table: wide also shows the evidence for the status")
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputWide}, cobra.ShellCompDirectiveNoFileComp)))
	watchFlag(cmd, &watch)
	return cmd
}

// outputWide is the value of --output.
const outputWide = "wide"

func (a *app) status(ctx context.Context, args []string, watch bool, output string) error {
	if output != "" && output != outputWide {
		return usage("", "--output must be %s", outputWide)
	}
	wide := output == outputWide
	to, err := a.targetToRead(ctx, args...)
	if err != nil {
		return err
	}
	now, err := a.bridge(ctx).Status(ctx, to.Team, to.Members...)
	if err != nil {
		return err
	}
	if err := a.printStatus(now, watch, wide); err != nil || !watch {
		return errors.Join(err, a.serviceError(ctx, to.Team))
	}
	a.warnServiceError(ctx, to.Team)
	ctx, stop := a.whileRead(ctx)
	defer stop()
	return a.followStatus(ctx, to, now, wide)
}

// printStatus prints statuses as a table. In a stream, it leaves out the head of the table.
func (c *console) printStatus(infos []api.Status, stream, wide bool) error {
	if c.json && !stream {
		return c.printJSON(infos)
	}
	rows := [][]string{{"MEMBER", "STATUS", "SINCE", "HEARD", "UNREAD", "PERMISSIONS", "STATE", "DETAIL", "RELAY", "BY", "REACH"}}
	var promised promises
	for _, i := range infos {
		if c.json {
			if err := c.printJSON(i); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{i.Member, statusText(i), clock(i.WordSince), heardAgo(i.Heard), strconv.Itoa(i.Unread),
			permissionMode(i.Relay), i.State, i.Detail, relayText(i.Relay), basisText(i), dash(i.Way)})
		promised.add(i.Overview, i.Program+" session")
		if i.PassedOver > 0 {
			c.warn("the inbox of %s has entries that no agent is given, since they are no messages (%d); which: teambridge doctor", i.Member, i.PassedOver)
		}
	}
	for n, r := range rows {
		switch {
		case !wide:
			r = r[:6]
		case !slices.ContainsFunc(infos, func(i api.Status) bool { return i.Relay != nil }):
			r = slices.Delete(r, 8, 9)
		}
		if !slices.ContainsFunc(infos, func(i api.Status) bool { return permissionMode(i.Relay) != "-" }) {
			r = slices.Delete(r, 5, 6)
		}
		rows[n] = r
	}
	if stream {
		return c.table(rows[1:])
	}
	if err := c.table(rows); err != nil || !wide {
		return err
	}
	return c.table(promised.rows())
}

// statusText returns what an agent is doing and, if it is stuck or waits, why.
func statusText(s api.Status) string {
	switch {
	case s.SectionKind == api.WaitsSilent, s.SectionKind == api.WaitsLoop:
		return s.Word + ", stuck (" + s.SectionWhy + ")"
	case s.Why != "":
		return s.Word + " (" + view.WaitsFor(s) + ")"
	}
	return s.Word
}

// basisText returns the basis of a status.
func basisText(s api.Status) string {
	switch s.Basis {
	case api.BasisMessage:
		return s.Evidence.Kind + " " + shortID(s.Evidence.ID)
	case api.BasisProcess:
		return "process " + strconv.Itoa(s.PID)
	}
	return s.Basis
}

// heardAgo formats when an agent was last heard, or "-".
func heardAgo(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return ago(time.Since(at))
}

// ago formats a duration before now.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min ago"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h ago"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days ago"
}

// followStatus prints what changes, until the team ends.
func (a *app) followStatus(ctx context.Context, to api.Target, before []api.Status, wide bool) error {
	for e, err := range a.events(ctx, to.Team) {
		switch {
		case err != nil:
			return err
		case e.Snapshot == nil:
			continue
		case len(e.Snapshot.Teams) == 0:
			a.endedNote(to.Team)
			return nil
		}
		now := e.Snapshot.Status
		if len(to.Members) > 0 { // the members that were shown
			now = slices.DeleteFunc(now, func(s api.Status) bool {
				return !slices.ContainsFunc(before, func(b api.Status) bool { return b.Member == s.Member })
			})
		}
		if err := a.printStatus(changedStatuses(before, now), true, wide); err != nil {
			return err
		}
		before = now
	}
	return nil
}

// changedStatuses returns the statuses of now that differ from before in more than times and evidence.
func changedStatuses(before, now []api.Status) []api.Status {
	return slices.DeleteFunc(slices.Clone(now), func(i api.Status) bool {
		return slices.ContainsFunc(before, func(b api.Status) bool {
			b.Unread, b.Evidence, i.Evidence = i.Unread, api.Evidence{}, api.Evidence{}
			b.Relay, i.Relay = b.Relay.Lasting(), i.Relay.Lasting()
			b.Overview, i.Overview = lasting(b.Overview), lasting(i.Overview)
			b.Heard, b.Basis, b.PID = i.Heard, i.Basis, i.PID
			if b.Word == i.Word {
				b.WordSince = i.WordSince
			}
			// Being active for longer is no change.
			if b.State == api.StateActive && i.State == api.StateActive {
				b.Since = i.Since
			}
			return reflect.DeepEqual(b, i)
		})
	})
}

// lasting returns the part of an overview whose change is printed: being stuck.
func lasting(o api.Overview) api.Overview {
	if o.Section != api.SectionStuck {
		return api.Overview{}
	}
	return api.Overview{Section: o.Section, SectionKind: o.SectionKind}
}
