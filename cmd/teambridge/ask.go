package main

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/view"
	"teambridge/teams"
)

type askOptions struct {
	sendOptions
	timeout time.Duration
}

func newAsk(a *app) *cobra.Command {
	o := askOptions{timeout: 5 * time.Minute}
	cmd := &cobra.Command{
		Use:   "ask MEMBER[@TEAM] TEXT|-",
		Short: "Send a message and print the answer",
		Long: `Send a message to an agent, wait for its answer, and print the answer.

The answer is the agent's first message to you after it took your message, or
the result of its turn, which newer agents report when the turn ends. Agents
take messages between two turns, so earlier texts belong to another task. A
result that may be from an earlier turn counts if nothing follows it for 10 s;
"certain" is then false. A message to you counts as read once it is printed.

For an agent in a pane, the answer is the last text of the turn with your
message, from its transcript or its Stop hook. --via is the same as in
"teambridge send".

Unless you have joined the team, you join it as "operator" first, because agents
can only write to members. "teambridge leave" undoes it.

Exit status: 0 an answer; 3 no such team or member, or the team has ended; 4 no
answer within --timeout; 5 its Claude Code is too old, or you are the member; 8
the agent's turn with the message ended without an answer, failed or was
interrupted. With 4 and 8 the message stays sent. Other statuses are those of
"teambridge send".`,
		Example: `  teambridge ask worker "is the build green?"
  teambridge ask worker - --timeout 20m < question.txt`,
		Args:              exactly(2),
		ValidArgsFunction: completer{a}.completeMembers(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.ask(cmd.Context(), args[0], args[1], o) },
	}
	sendFlags(cmd, &o.sendOptions)
	o.paneOptions.flags(cmd, false)
	viaFlag(cmd, &o.via)
	timeoutFlag(cmd, &o.timeout, o.timeout, "how long to wait for the answer")
	return cmd
}

func (a *app) ask(ctx context.Context, address, text string, o askOptions) error {
	body, err := a.text(ctx, text)
	if err != nil {
		return err
	}
	if err := oneWay(o.via); err != nil {
		return err
	}
	q := api.NewQuestion{NewMessage: o.message(body)}
	if q.Scope = new(a.scope()); o.via != "" {
		q.Tmux, _ = a.socket("") // from the environment, without an error
	}
	if q.Dir, err = a.personDir(); err != nil {
		return err
	}
	if o.timeout > 0 {
		q.Timeout = o.timeout.String()
	}
	ctx = bridge.WithPerson(ctx)
	done, id := a.working("waiting for an answer from %s", address), uuid.NewString()
	noted := a.noteHeld(ctx, id)
	answer, err := once(ctx, a, a.bridge(ctx), id, true, func(b api.Bridge, id string) (api.Answered, error) {
		answer, err := b.Ask(ctx, api.AnyTeam, address, id, q)
		answer.Sent.ID = cmp.Or(answer.Sent.ID, id) // the id is set even if the service has not answered
		return answer, a.unsure(err, id)
	})
	noted()
	done()
	a.chosen = cmp.Or(answer.Sent.Team, a.chosen)
	if err == nil && answer.Joined != "" {
		a.note("joined %s as %s, so that agents can answer; \"teambridge leave\" undoes it", answer.Sent.Team, answer.Joined)
	}
	if answer.Sent.Reach == string(teams.NoTeammate) {
		a.reachNote(answer.Sent)
	}
	if err != nil {
		return a.stillSent(ctx, answer.Sent, err)
	}
	if err := a.printAnswer(answer); err != nil {
		return err
	}
	if answer.Via == api.ViaMessage { // a result is in the lead's inbox
		a.markSeen(ctx, answer.Reply)
	}
	return nil
}

func (c *console) printAnswer(answer api.Answered) error {
	if c.json {
		answer.Joined = ""
		return c.printJSON(answer)
	}
	if !answer.Certain {
		c.note("this answer may belong to another task of %s", answer.Sent.Member)
	}
	return c.printf("%s\n", escape(answer.Text, true))
}

// stillSent adds to an error of waiting that the question stays sent, and its id.
func (a *app) stillSent(ctx context.Context, sent api.Sent, err error) error {
	if ctx.Err() == nil || sent.ID == "" || sent.State == api.Failed || sent.State == api.NotSent || view.Explain(err).Code != api.CodeInterrupted {
		return err
	}
	stays := "the message " + sent.ID + " stays sent"
	if sent.State == "" { // the service has not confirmed it
		stays = "if the message " + sent.ID + " was sent, it stays sent"
	}
	return api.Decide(api.CodeInterrupted, stays+"; the answer will be in: teambridge history", "%w", err)
}
