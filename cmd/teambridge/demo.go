package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/simagent"
	"teambridge/status/api"
	"teambridge/teams"
)

func newDemo(a *app) *cobra.Command {
	keep := false
	cmd := &cobra.Command{
		Use:   "demo [--keep]",
		Short: "Show what teambridge does, on a simulated team",
		Long: `Show what teambridge does, on a simulated team in a temporary directory.

The agents treat their inboxes exactly as Claude Code 2.1.329 does, but answer
without a model. Their lead is headless, and its inbox is relayed to it. Nothing
else is touched, and no account is needed. It takes a few seconds.

With --json each step is an object on its own line with the seconds since the
start and a text; the answer is as "teambridge ask --json" prints it, and the
last object has the counts: sent, taken and answers.

With --keep, the team stays, to be tried out: with a service, its web page, a
headless agent that asks for permission, and agents that answer. The address of
the page and some commands are printed, with --json as one object. ^C ends it
and removes the directory.

Exit status: 0 every message arrived once and was answered, or ^C after --keep;
1 otherwise.`,
		Example: `  teambridge demo
  teambridge demo --keep`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if keep {
				return a.demoKeep(cmd.Context())
			}
			return a.demo(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the team, with the service and its page, until ^C")
	return cmd
}

type demonstration struct {
	app   *app
	start time.Time
	team  *teams.Team
	sim   *simagent.Team
	lead  *deafLead
	err   error // the first of the output
}

type step struct {
	Seconds float64 `json:"seconds"` // since the start
	Text    string  `json:"text"`
	*counts         // only in the last
}

type counts struct {
	Sent    int `json:"sent"`
	Taken   int `json:"taken"`
	Answers int `json:"answers"`
}

func (d *demonstration) say(format string, args ...any) {
	d.print(step{Text: fmt.Sprintf(format, args...)})
}

// print prints a step, unless printing has failed before.
func (d *demonstration) print(s step) {
	since := time.Since(d.start)
	s.Seconds = float64(since.Milliseconds()) / 1000
	if d.err == nil {
		d.err = d.app.answer(s, "%s  %s\n", d.app.paint(dim, fmt.Sprintf("%6.2f s", since.Seconds())), s.Text)
	}
}

func (a *app) demo(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	d, remove, err := a.demonstration(ctx,
		simagent.Member{Name: "worker", Handle: answer(300 * time.Millisecond)},
		simagent.Member{Name: "reviewer", Handle: answer(100 * time.Millisecond)},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := d.play(ctx, func() error { return errors.Join(d.run(ctx), d.lead.close()) }); err != nil {
		return err
	}
	return d.end() // after the agents, which have locks and temporary files at work
}

// demonstration makes a simulated team in a temporary directory, which remove removes. Its
// lead is played by another process.
func (a *app) demonstration(ctx context.Context, members ...simagent.Member) (d *demonstration, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "teambridge-demo-")
	if err != nil {
		return nil, nil, err
	}
	// An app of its own, so that no flag and no variable leads out of the directory.
	d = &demonstration{app: &app{host: a.host, out: a.out, json: a.json, claudeDir: filepath.Join(dir, "claude"), state: filepath.Join(dir, "state")}, start: time.Now()}
	d.app.lookup = func(name string) (string, bool) {
		if strings.HasPrefix(name, "TEAMBRIDGE_") || strings.HasPrefix(name, "CLAUDE_") {
			return "", false
		}
		return a.lookup(name)
	}
	remove = func() error { return errors.Join(d.app.close(), os.RemoveAll(dir)) }
	work := filepath.Join(dir, "webshop") // people see this name
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	if d.sim, err = simagent.Create(ctx, simagent.TeamOptions{
		Root: d.app.claudeDir, Version: simagent.Newest, Cwd: work, Lead: simagent.Member{Absent: true}, Members: members,
	}); err == nil {
		d.team, err = d.app.team(ctx, d.sim.Name())
	}
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return d, remove, nil
}

// play runs the agents while what runs.
func (d *demonstration) play(ctx context.Context, what func() error) error {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.sim.Run(running) }()
	err := what()
	stop()
	return errors.Join(err, <-ended)
}

func toLead() []string { return []string{"plan the release", "and then\ntell everybody"} }

// answer handles the messages of a simulated agent: it tells each sender what it did.
func answer(takes time.Duration) simagent.Handler {
	return func(_ context.Context, turn simagent.Turn) simagent.Reply {
		reply := simagent.Reply{Lasts: takes, Text: "done"}
		for _, row := range turn.Rows {
			if row.Kind() == "message" {
				reply.Messages = append(reply.Messages, simagent.Message{To: row.From, Text: "done: " + row.Text, Summary: "answer"})
			}
		}
		return reply
	}
}

func (d *demonstration) run(ctx context.Context) error {
	d.say("a team is there: %s, with team-lead, worker and reviewer (simulated)", d.team.Name())
	if err := d.headless(ctx); err != nil {
		return err
	}
	if err := d.join(ctx); err != nil {
		return err
	}
	for _, m := range []struct{ to, text string }{
		{"worker", "please review task 12"},
		{"reviewer", "is the build green?"},
		{"worker", "two lines\nand an emoji 👍"},
	} {
		if err := d.exchange(ctx, m.to, m.text); err != nil {
			return err
		}
	}
	if err := d.twice(ctx); err != nil {
		return err
	}
	for _, text := range toLead() {
		if err := d.relayed(ctx, text); err != nil {
			return err
		}
	}
	if err := d.ask(ctx); err != nil {
		return err
	}
	return d.status(ctx)
}

func (d *demonstration) ask(ctx context.Context) error {
	d.say("→ worker  ask %q, and its answer is:", "which task is next?")
	start := time.Now()
	if err := d.app.ask(ctx, "worker@"+d.team.Name(), "which task is next?", askOptions{timeout: 10 * time.Second}); err != nil {
		return err
	}
	d.say("  answered after %.0f ms", ms(start))
	return nil
}

func (d *demonstration) status(ctx context.Context) error {
	infos, err := d.app.local().Status(ctx, d.team.Name())
	if err != nil {
		return err
	}
	for _, i := range infos {
		relay := ""
		if i.Relay != nil {
			relay = ", relay " + relayText(i.Relay)
		}
		d.say("  %s is %s (%s)%s", i.Member, i.State, i.Detail, relay)
	}
	return nil
}

func (d *demonstration) join(ctx context.Context) error {
	if _, err := d.app.local().Join(ctx, d.team.Name(), api.NewJoin{As: api.Guest}); err != nil {
		return err
	}
	d.say("you joined as %s, so that agents can answer", api.Guest)
	return nil
}

func (d *demonstration) send(ctx context.Context, to, id, text string) (api.Sent, error) {
	return d.app.local().Send(ctx, d.team.Name(), to, id, api.NewMessage{Text: text})
}

// exchange sends a message and follows it to its answer.
func (d *demonstration) exchange(ctx context.Context, to, text string) error {
	agent := d.sim.Agent(to)
	before := len(agent.Log())
	sentAt := time.Now()
	s, err := d.send(ctx, to, "", text)
	if err != nil {
		return err
	}
	d.say("→ %s  %q: verified in its inbox after %.1f ms", to, text, ms(sentAt))
	taken, err := agent.Wait(ctx, before+1)
	if err != nil {
		return fmt.Errorf("the message to %s was not taken: %w", to, err)
	}
	if got := taken[before]; got.MessageID != s.ID || got.Text != text {
		return fmt.Errorf("%s took %q and not %q", to, got.Text, text)
	}
	d.say("  %s took it after %.0f ms", to, ms(sentAt))
	row, err := d.reply(ctx, "done: "+text)
	if err != nil {
		return err
	}
	d.say("← %s  %q: answered after %.0f ms", row.From, row.Text, ms(sentAt))
	return nil
}

// twice sends a message again under the same id, after the agent has removed it.
func (d *demonstration) twice(ctx context.Context) error {
	agent := d.sim.Agent("worker")
	before := len(agent.Log())
	for range 2 {
		s, err := d.send(ctx, "worker", "deploy-1", "deploy, once")
		if err != nil {
			return err
		}
		if s.Deduplicated {
			d.say("→ worker  the same again with the same id: not sent, it was sent before")
			continue
		}
		d.say("→ worker  %q with the id deploy-1", "deploy, once")
		if _, err := agent.Wait(ctx, before+1); err != nil {
			return err
		}
	}
	if _, err := d.reply(ctx, "done: deploy, once"); err != nil {
		return err
	}
	if n := len(agent.Log()) - before; n != 1 {
		return fmt.Errorf("worker took the message %d times", n)
	}
	return nil
}

// reply waits until an answer is in our inbox.
func (d *demonstration) reply(ctx context.Context, text string) (inbox.Row, error) {
	box, err := d.app.inbox(d.team, api.Guest)
	if err != nil {
		return inbox.Row{}, err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		rows, err := box.Read(ctx)
		if err != nil && !errors.Is(err, inbox.ErrMissing) {
			return inbox.Row{}, err
		}
		for _, r := range rows {
			if r.Text == text {
				return r, nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return inbox.Row{}, fmt.Errorf("no answer %q came: %w", text, ctx.Err())
		}
	}
}

// end counts the messages, and checks that no files are left over.
func (d *demonstration) end() error {
	taken := len(d.sim.Agent("worker").Log()) + len(d.sim.Agent("reviewer").Log())
	if taken != 5 {
		return fmt.Errorf("the agents took %d messages, and 5 were sent", taken)
	}
	said, err := d.said(toLead()...)
	if err != nil {
		return err
	}
	if said != len(toLead()) {
		return fmt.Errorf("the lead worked on %d messages, and %d were sent", said, len(toLead()))
	}
	var left []string
	err = filepath.WalkDir(d.team.Path(), func(path string, e fs.DirEntry, err error) error {
		expected := path == d.team.Path() || e != nil && e.IsDir() && e.Name() == "inboxes" || filepath.Ext(path) == ".json"
		if !expected {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("look for what is left in the team: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind in the team: %q", left)
	}
	n := counts{Sent: taken + said, Taken: taken + said, Answers: taken}
	d.print(step{
		Text:   fmt.Sprintf("%d messages sent, %d taken, each once, %d answers; nothing left behind", n.Sent, n.Taken, n.Answers),
		counts: &n,
	})
	return d.err
}

func ms(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
