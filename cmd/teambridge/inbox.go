package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/plain"
	"teambridge/status/view"
)

func newInbox(a *app) *cobra.Command {
	var o inboxOptions
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Show everything that needs you, in all teams",
		Long: `Show everything that needs you, in all teams or in the one of --team.

The list has questions and plans of agents, unread messages to you, agents that
are stuck, failed or stopped, messages that may not have been delivered or are
held back, and teams that are idle or whose lead is not running. Each item says
what to do.

Your inboxes are "user" and the names under which you joined a team. Without
--mark-read or --dismiss, nothing is changed. "teambridge reply" answers a
message, "teambridge permit" and "deny" answer a question; questions are known
while a service runs. With --json the unread messages are the "messages" of an
item of kind "unread".

Exit status: 0, even if there is nothing; 3 no such team; 4 a service runs and
does not answer, so questions are unknown (the rest is shown); 6 one of your
inboxes or a team is corrupt (the others are shown).`,
		Example: `  teambridge inbox --mark-read`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.showInbox(cmd.Context(), o) },
	}
	protocolFlag(cmd, &o.protocol)
	markReadFlag(cmd, &o.mark)
	cmd.Flags().BoolVar(&o.dismiss, "dismiss", false, "hide the shown failures and idle teams until they change")
	return cmd
}

type inboxOptions struct{ protocol, mark, dismiss bool }

func (a *app) showInbox(ctx context.Context, o inboxOptions) error {
	done := a.working("looking through the teams")
	defer done()
	in, faults, err := a.ownInbox(ctx, api.InboxQuery{Protocol: o.protocol})
	if err != nil {
		return err
	}
	done()
	for _, m := range in.Messages() {
		a.learnNames(ctx, m.Team)
	}
	if a.json {
		err = a.printJSON(in.Items)
	} else {
		err = a.printWaits(in)
	}
	if err != nil {
		return err
	}
	a.hiddenNote(in.Hidden)
	if len(in.Items)+in.Hidden == 0 && errors.Join(faults...) == nil {
		a.note("nothing needs you")
	}
	if o.dismiss {
		faults = append(faults, a.dismiss(ctx, in.Items))
	}
	if o.mark {
		faults = append(faults, a.markRead(ctx, in.Messages()))
	}
	return errors.Join(faults...)
}

// ownInbox returns the items that need the person, in the named team or in all. faults are the parts that could
// not be read.
func (a *app) ownInbox(ctx context.Context, q api.InboxQuery) (in api.Inbox, faults []error, err error) {
	if q.Team, err = a.namedTeam(""); err != nil {
		return in, nil, err
	}
	if q.Team != "" {
		to, err := a.target(ctx)
		if err != nil {
			return in, nil, err
		}
		q.Team = to.Team
	}
	b := a.bridge(ctx)
	in, err = b.Inbox(ctx, q)
	if !q.Read {
		faults = append(faults, b.serviceError())
	}
	return in, append(faults, problems(in.Problems)...), err
}

func newReply(a *app) *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "reply ID|last TEXT|-",
		Short: "Answer a message to you",
		Long: `Send a text to the sender of a message in one of your inboxes.

"last" is the newest message to you, in all teams or in the one of --team. The
first 4 characters of an ID are enough if no other id begins with them. TEXT is
"-" for standard input. The reply is sent as by "teambridge send", and the
message that it answers is marked as read.

Exit status: 0 sent; 2 several messages match, or the text is invalid; 3 no such
message, or its sender is no longer in the team. Other statuses are those of
"teambridge send".`,
		Example: `  teambridge reply last "yes, please merge it"
  teambridge reply 4cfd "see the test in inbox_test.go"`,
		Args:              exactly(2),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.messageIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.reply(cmd.Context(), args[0], args[1], o) },
	}
	sendFlags(cmd, &o)
	return cmd
}

func (a *app) reply(ctx context.Context, query, text string, o sendOptions) error {
	ctx = bridge.WithPerson(ctx)
	body, err := a.text(ctx, text)
	if err != nil {
		return err
	}
	r := api.NewReply{To: query, NewQuestion: api.NewQuestion{NewMessage: o.message(body)}}
	if r.Team, err = a.namedTeam(""); err != nil {
		return err
	}
	var to api.Message
	err = a.sendTo(ctx, r.NewMessage, o, func(b api.Bridge, id string) (api.Sent, error) {
		done, err := b.Reply(ctx, id, r)
		to = done.To
		return done.Sent, err
	})
	if err != nil {
		return err
	}
	at := ""
	if sent := sentAt(to); !sent.IsZero() {
		at = " " + clock(sent)
	}
	a.note("it answers what %s wrote%s: %s", to.From, at, plain.Cut(escape(strings.Join(strings.Fields(to.Text), " "), false), 60))
	a.markSeen(ctx, to)
	return nil
}

// sentAt returns when a message was sent; zero if its timestamp is invalid.
func sentAt(m api.Message) time.Time {
	at, _ := (&inbox.Row{Timestamp: m.Timestamp}).Time()
	return at
}

// markSeen marks a message as read that the person has answered or seen as an answer. If that fails, it only warns.
func (a *app) markSeen(ctx context.Context, m api.Message) {
	if err := a.markRead(ctx, []api.Message{m}); err != nil {
		a.warn("the message %s stays unread: %s", m.ID, view.Describe(err))
	}
}
