package main

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/teams"
)

func newStatus(a *app) *cobra.Command {
	var watch bool
	var output string
	cmd := &cobra.Command{
		Use:   "status [MEMBER]",
		Short: "Show what each agent is doing, and when it was last heard",
		Long: `Show what each agent is doing, since when, and when it was last heard.

  working          it is at work
  waiting for you  a person has to answer a question of it
  idle             it waits for messages
  blocked          it cannot go on; the reason is shown
  ended            it has shut down, or nothing runs it
  unknown          it was at work, but nothing was heard for 5 minutes

Panes ("teambridge pane add") are shown after the team, and alone with --team
tmux.

-o wide shows how that is known. BY is a message or a turn of the agent, its
process, its relay, its pane, an open question, or the team's config.json. STATE
is judged by messages and turns alone: ACTIVE (the last one is less than 5
minutes old), IDLE, or TERMINATED (shut down). RELAY is for headless agents:
queue, dead letters (failed messages), and the last acknowledgment. Newer agents
remove the messages they read, so much is only known while "teambridge watch" or
the service is recording. With --watch a line is printed for each change until
the team ends.

Exit status: 0; 2 bad flags; 3 no such team or member; 4 a service runs and does
not answer, so questions of its agents are not known; 130 interrupted.`,
		Example: `  teambridge status worker --watch
  teambridge status -o wide`,
		Args:              between(0, 1),
		ValidArgsFunction: a.completeMembers(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.status(cmd.Context(), args, watch, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "format of the table: wide also shows how the status is known")
	must(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputWide}, cobra.ShellCompDirectiveNoFileComp)))
	cmd.Flags().BoolVar(&watch, "watch", false, "keep running, and print each change")
	return cmd
}

// outputWide is the value of --output that shows the evidence.
const outputWide = "wide"

func (a *app) status(ctx context.Context, args []string, watch bool, output string) (err error) {
	if output != "" && output != outputWide {
		return usage("", "--output must be %s", outputWide)
	}
	wide := output == outputWide
	to, err := a.target(ctx, args...)
	if err != nil {
		return err
	}
	if to.Way() == api.WayPane {
		return a.statusOfPanes(ctx, args, watch, wide)
	}
	t := to.Team
	now := statuses{app: a, root: t.Root(), team: t.Name()}
	defer func() { err = errors.Join(err, now.close()) }()
	infos, err := now.of(ctx, t, args)
	if err != nil {
		return err
	}
	if err := a.printStatus(infos, watch, wide); err != nil || !watch {
		return errors.Join(err, unheard(now.silent()))
	}
	ctx, stop := a.whileRead(ctx)
	defer stop()
	return a.followStatus(ctx, &now, t, args, infos, wide)
}

// statuses reads what agents do: from the service, if one answers, since it records already
// and knows more; else from a recorder of its own.
type statuses struct {
	app  *app
	root *teams.Root
	team string    // that is recorded; "" for all
	rec  *recorder // made when needed
}

// of returns the status of all members of a team, or of the one that args has.
func (s *statuses) of(ctx context.Context, t *teams.Team, args []string) (all []api.Status, err error) {
	served := false
	if s.rec == nil {
		served, err = s.app.askService(ctx, t.Root(), func(ctx context.Context, c *client.Client) (err error) {
			all, err = c.Status(ctx, t.Name())
			return err
		})
		if isGone(err) {
			return nil, err
		}
		if err != nil {
			s.app.debug("going on without the service: %v", err)
		}
	}
	if !served {
		if err := s.record(ctx); err != nil {
			return nil, err
		}
		if all, err = s.rec.statuses(ctx, t); err != nil {
			return nil, err
		}
	}
	return s.app.statusInfos(ctx, t, args, all)
}

// record starts the recorder, if it does not run.
func (s *statuses) record(ctx context.Context) (err error) {
	if s.rec == nil && ctx.Err() == nil {
		s.rec, err = s.app.startRecorder(ctx, s.team)
	}
	return cmp.Or(err, context.Cause(ctx))
}

// silent is why the service could not be asked what only it knows.
func (s *statuses) silent() error {
	if s.rec == nil {
		return nil
	}
	return s.rec.silent
}

func (s *statuses) close() error {
	if s.rec == nil {
		return nil
	}
	return s.rec.Close()
}

// statusInfos returns all statuses, or that of the member that args has.
func (a *app) statusInfos(ctx context.Context, t *teams.Team, args []string, all []api.Status) ([]api.Status, error) {
	if len(args) > 0 {
		name, err := a.statusName(ctx, t, args[0], all)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(s api.Status) bool { return s.Member != name })
		if len(all) == 0 {
			return nil, notFound("list the members with: teambridge members", "%s is not an agent of %s", name, t.Name())
		}
	}
	return all, nil
}

// statusName returns the name of a member, even of one that has left.
func (a *app) statusName(ctx context.Context, t *teams.Team, arg string, all []api.Status) (string, error) {
	name, _ := teams.Split(arg)
	if slices.ContainsFunc(all, func(s api.Status) bool { return s.Member == name }) {
		return name, nil
	}
	return t.Resolve(ctx, name)
}

// printStatus prints statuses; the head of the table is left out if they belong to a stream.
func (a *app) printStatus(infos []api.Status, stream, wide bool) error {
	if a.json && !stream {
		return a.printJSON(infos)
	}
	rows := [][]string{{"MEMBER", "STATUS", "SINCE", "HEARD", "UNREAD", "PERMISSIONS", "STATE", "DETAIL", "RELAY", "BY"}}
	for _, i := range infos {
		if a.json {
			if err := a.printJSON(i); err != nil {
				return err
			}
			continue
		}
		word := i.Word
		if i.Why != "" {
			word += " (" + i.Why + ")"
		}
		rows = append(rows, []string{i.Member, word, clock(i.WordSince), ago(time.Since(i.Heard)), strconv.Itoa(i.Unread),
			permissionMode(i.Relay), i.State, i.Detail, relayText(i.Relay), basisText(i)})
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
		rows = rows[1:]
	}
	return a.table(rows)
}

// basisText says what the word of a status rests on.
func basisText(s api.Status) string {
	switch s.Basis {
	case api.BasisMessage:
		return s.Evidence.Kind + " " + shortID(s.Evidence.ID)
	case api.BasisProcess:
		return "process " + strconv.Itoa(s.PID)
	}
	return s.Basis
}

// ago shows how long ago something was.
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
func (a *app) followStatus(ctx context.Context, s *statuses, t *teams.Team, args []string, before []api.Status, wide bool) error {
	show := func(now []api.Status) error {
		changed := changedStatuses(before, now)
		before = now
		return a.printStatus(changed, true, wide)
	}
	if s.rec == nil {
		if err := a.followServed(ctx, t, args, show); err != nil {
			return err
		}
	}
	for {
		now, err := s.of(ctx, t, args)
		if isGone(cmp.Or(t.Exists(), err)) {
			a.endedNote(t.Name())
			return nil
		}
		if err != nil {
			return err
		}
		a.without(s.silent())
		if err := show(now); err != nil {
			return err
		}
		if err := s.record(ctx); err != nil {
			return err
		}
		if _, err := s.rec.Changes(ctx, time.Second); err != nil { // a status can change by time alone
			return err
		}
	}
}

// followServed shows the statuses that the service sends, until it ends or the team does.
func (a *app) followServed(ctx context.Context, t *teams.Team, args []string, show func([]api.Status) error) error {
	c := a.service(t.Root())
	if c == nil {
		return nil
	}
	defer c.Close()
	a.debug("following the service")
	for e, err := range c.Stream(ctx, t.Name(), client.Now) {
		if err != nil {
			a.debug("the service sends no more events: %v", err)
			return context.Cause(ctx)
		}
		if errors.Is(t.Exists(), teams.ErrTeamGone) {
			return nil
		}
		if e.Snapshot == nil {
			continue
		}
		now, err := a.statusInfos(ctx, t, args, e.Snapshot.Status)
		if err != nil {
			return err
		}
		if err := show(now); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// changedStatuses returns those of now that say something else than before.
func changedStatuses(before, now []api.Status) []api.Status {
	return slices.DeleteFunc(slices.Clone(now), func(i api.Status) bool {
		return slices.ContainsFunc(before, func(b api.Status) bool {
			b.Unread, b.Evidence, i.Evidence = i.Unread, api.Evidence{}, api.Evidence{}
			b.Relay, i.Relay = b.Relay.Lasting(), i.Relay.Lasting()
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
