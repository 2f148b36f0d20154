package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/fleet"
	"teambridge/relay/shell"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
	"teambridge/status/server/page"
)

// Playground is the output of [Keep] as JSON.
type Playground struct {
	Page        string            `json:"page"` // its address signs one browser in, once, within a minute
	Environment map[string]string `json:"environment"`
	Commands    []string          `json:"commands"`
}

// Keep simulates a team, with a service and a headless lead, until ctx ends.
func Keep(ctx context.Context, o Options) (err error) {
	d, err := begin(ctx, o,
		&agent{name: "worker", takes: 2 * time.Second, answer: toPerson},
		&agent{name: "reviewer", takes: time.Second, answer: toPerson},
		&agent{name: "tester", takes: 500 * time.Millisecond, answer: toPerson},
	)
	if err != nil {
		return err
	}
	d.Note("starting a simulated team in %s", d.dir)
	// The agents end after the context, once the service has ended.
	err = d.play(context.WithoutCancel(ctx), func() error { return d.serve(ctx) })
	return errors.Join(err, d.remove())
}

// serve runs the service and its headless agent until ctx ends.
func (d *demonstration) serve(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if _, _, err = (fleet.Admin{Root: d.team.Root(), Ledger: d.ledger}).Add(ctx, ledger.Relay{
		Team: d.team.Name(), Member: leadName, Command: []string{exe}, Dir: d.dir, Permissions: "ask",
	}); err != nil {
		return err
	}
	s, err := server.New(server.Options{
		Root: d.team.Root(), State: d.state, Version: d.Version, Page: page.Handler(),
		Listen: slices.Compact([]string{server.ListensAt(d.state, d.team.Root().Path()), "127.0.0.1:0"}),
		Env:    d.environment(playsScenes),
		Log:    slog.New(slog.NewTextHandler(d.Log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	select {
	case <-s.Ready():
		err = d.stay(ctx, ended)
	case err = <-ended:
		return err
	}
	stop()
	return errors.Join(err, <-ended)
}

// stay starts a conversation in the team, prints how to try it out, and waits until ctx ends.
func (d *demonstration) stay(ctx context.Context, ended chan error) error {
	c, err := client.Find(d.state, d.team.Root().Path())
	if err != nil {
		return err
	}
	defer c.Close()
	err = d.converse(ctx, c)
	if err == nil {
		err = d.invite(ctx, c)
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case err := <-ended:
			ended <- nil
			return err
		}
	}
	if ctx.Err() != nil {
		err = nil // its end was requested
		d.Note("the team ends, and its directory is removed")
	}
	// An agent that waits for an answer would have 30 s to get it.
	return errors.Join(err, denyAll(context.WithoutCancel(ctx), c))
}

// converse sends the first messages, and waits for their answers and for the lead's question.
func (d *demonstration) converse(ctx context.Context, c *client.Client) error {
	if _, err := d.local.Join(ctx, d.team.Name(), api.NewJoin{As: api.Guest}); err != nil {
		return err
	}
	asked := []struct{ to, text string }{
		{leadName, "What is left to do for 1.4?"},
		{"worker", "Please review task 12, the retry loop."},
		{"reviewer", "Is the build green?"},
		{leadName, "Then tag the release."},
	}
	for _, m := range asked {
		if _, err := c.Send(ctx, d.team.Name(), m.to, "", api.NewMessage{Text: m.text}); err != nil {
			return err
		}
	}
	return poll(ctx, func() (bool, error) {
		list, err := c.Attention(ctx, "")
		asks, answers := 0, 0
		for _, item := range list {
			if item.Question != nil {
				asks++
			}
			if item.Message != "" {
				answers++
			}
		}
		return asks == 1 && answers == 2, err
	})
}

// invite prints the address of the page, and example commands.
func (d *demonstration) invite(ctx context.Context, c *client.Client) error {
	bound, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	in, err := c.SignIn(bound, false)
	if err != nil {
		return err
	}
	p := Playground{
		Page:        in.URL,
		Environment: map[string]string{"CLAUDE_CONFIG_DIR": d.claude, "TEAMBRIDGE_STATE": d.state, "TEAMBRIDGE_TEAM": d.team.Name()},
		Commands: []string{
			"teambridge", "teambridge inbox", "teambridge status", "teambridge permit", `teambridge ask worker "what are you doing?"`,
			`teambridge send lead "what is left to do?"`, "teambridge history", "teambridge watch", "teambridge ui --print",
		},
	}
	export := ""
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "TEAMBRIDGE_STATE", "TEAMBRIDGE_TEAM"} {
		export += fmt.Sprintf("    export %s=%s\n", name, shell.Quote(p.Environment[name]))
	}
	if _, err := exec.LookPath("teambridge"); err != nil {
		if exe, err := os.Executable(); err == nil {
			export += fmt.Sprintf("    alias teambridge=%s\n", shell.Quote(exe))
		}
	}
	return d.Print(p, fmt.Sprintf(`A simulated team is there, until you press ^C: %s, with a headless lead,
worker, reviewer and tester. The lead is asking for permission.

The page (signs in one browser, once, within a minute):

    %s

In another terminal:

%s    %s
`, d.team.Name(), p.Page, export, strings.Join(p.Commands, "\n    ")))
}

// denyAll denies all open questions of agents.
func denyAll(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := c.Questions(ctx, "")
	for _, q := range list {
		_, aerr := c.Answer(ctx, q.ID, api.Permit{Digest: q.Digest, Reason: "The demonstration ends."})
		err = errors.Join(err, aerr)
	}
	return err
}

// toPerson is the answer of the playground's agents: people get Markdown, and agents nothing, since they
// would answer again.
func toPerson(r row) (text, summary string) {
	if r.From != api.Guest {
		return "", ""
	}
	return markdown(said(r.Text)), ""
}

// markdown is a text in which ' stands for a backquote, which no Go literal can hold.
func markdown(text string) string { return strings.ReplaceAll(text, "'", "`") }

// said returns the answer of the playground's agents, chosen by a word of the message.
func said(text string) string {
	switch text = strings.ToLower(text); {
	case strings.Contains(text, "review"):
		return `The loop is right, with **one** exception: the back-off has no upper limit.

'''go
delay = min(2*delay, time.Minute)
if attempt > 5 {
	return fmt.Errorf("give up after %d attempts: %w", attempt, err)
}
'''

- [x] read 'retry.go' and its tests
- [x] run 'go test -race ./retry'
- [ ] change the limit: shall I?`
	case strings.Contains(text, "build"):
		return `Yes, on all three systems:

| system | tests | time |
| --- | ---: | ---: |
| Linux | 1,204 | 41 s |
| macOS | 1,198 | 58 s |
| Windows | 1,187 | 73 s |`
	}
	return `I have **noted** it. These agents are simulated: ask for a 'review', or about the 'build', and they say more.`
}

// scenes are the turns of the playground's headless lead.
func scenes() []scene {
	read := func(path, result string) call {
		return call{tool: "Read", input: object{"file_path": path}, result: result}
	}
	return []scene{
		{
			match: "left to do",
			calls: []call{
				read("/src/CHANGELOG.md", "# 1.4"),
				{tool: "Grep", input: object{"pattern": "TODO", "path": "/src"}, result: "Found 2 files"},
				{tool: "Bash", input: object{"command": "go test ./...", "description": "Run the tests"}, result: "ok"},
			},
			say: markdown("Two things are left for **1.4**:\n\n1. a limit for the back-off in 'retry.go' (worker)\n2. the tag 'v1.4.0'\n\nThe tests pass."),
		},
		{
			match: "tag the release",
			calls: []call{{
				tool: "Bash", input: object{"command": "git tag v1.4.0 && git push origin v1.4.0", "description": "Tag the release and push the tag"},
				result: "* [new tag] v1.4.0 -> v1.4.0", rule: "git push *",
			}},
			say:    markdown("Version '1.4.0' is tagged and pushed."),
			denied: "I have not tagged the release.",
		},
		{say: markdown("These agents are simulated. Ask me what is 'left to do', or to 'tag the release'.")},
	}
}
