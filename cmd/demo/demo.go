// Package demo shows what teambridge does, on a simulated team and a simulated session in a temporary directory.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/plain"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Options configure the demonstration's output.
type Options struct {
	Print   func(v any, text string) error   // prints v as JSON, or else the text
	Dim     func(string) string              // makes a text less conspicuous
	Note    func(format string, args ...any) // prints a note for the person
	Warn    func(error)
	Log     io.Writer // receives the warnings of the service
	Version api.Version
}

type demonstration struct {
	Options
	start  time.Time
	dir    string // has all files
	claude string // the Claude directory
	state  string
	team   *teams.Team
	local  *bridge.Local
	ledger *ledger.Ledger
	locker *lockedfile.Locker
	opened []func() error
	agents []*agent
	told   int   // how many messages the plain session got
	err    error // the first error of the output
}

type step struct {
	Seconds float64 `json:"seconds"` // since the start
	Text    string  `json:"text"`
	*counts         // only in the last step
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
		d.err = d.Print(s, fmt.Sprintf("%s  %s\n", d.Dim(fmt.Sprintf("%6.2f s", since.Seconds())), s.Text))
	}
}

// Run shows in a few seconds that each message arrives once and is answered. It leaves no files.
func Run(ctx context.Context, o Options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	d, err := begin(ctx, o,
		&agent{name: "worker", takes: 300 * time.Millisecond, answer: confirm, said: "done"},
		&agent{name: "reviewer", takes: 100 * time.Millisecond, answer: confirm, said: "done"},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	if err := d.play(ctx, func() error { return d.run(ctx) }); err != nil {
		return err
	}
	return d.end() // after the agents have stopped, since they use locks and temporary files
}

// begin makes a simulated team in a temporary directory. Another process plays its lead.
func begin(ctx context.Context, o Options, agents ...*agent) (_ *demonstration, err error) {
	d := &demonstration{Options: o, start: time.Now(), agents: agents}
	if d.dir, err = os.MkdirTemp("", "teambridge-demo-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.remove())
		}
	}()
	d.claude, d.state = filepath.Join(d.dir, "claude"), filepath.Join(d.dir, "state")
	work := filepath.Join(d.dir, "webshop") // the name is visible
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, err
	}
	name, err := createTeam(d.claude, work, agents)
	if err != nil {
		return nil, err
	}
	root, err := teams.Open(d.claude)
	if err != nil {
		return nil, err
	}
	d.opened = append(d.opened, root.Close)
	if d.team, err = root.Team(name); err != nil {
		return nil, err
	}
	d.opened = append(d.opened, d.team.Close)
	if d.ledger, err = ledger.Open(ctx, filepath.Join(d.state, "ledger.db")); err != nil {
		return nil, err
	}
	d.opened = append(d.opened, d.ledger.Close)
	d.locker = lockedfile.New(lockedfile.Options{Dir: filepath.Join(d.state, "locks")})
	d.local = bridge.New(bridge.Options{
		Root:   func() (*teams.Root, error) { return root, nil },
		Ledger: func(context.Context) (*ledger.Ledger, error) { return d.ledger, nil },
		Journal: func(ctx context.Context) (*journal.Journal, error) {
			j, err := journal.Open(ctx, filepath.Join(d.state, "journal.db"))
			if err == nil {
				d.opened = append(d.opened, j.Close)
			}
			return j, err
		},
		State: d.state, Locker: d.locker, Dir: work, Warn: d.Warn, Debug: func(string, ...any) {},
		LookupEnv: func(string) (string, bool) { return "", false }, // so nothing outside the directory is used
	})
	return d, nil
}

// remove closes everything that is open, and removes the directory.
func (d *demonstration) remove() (err error) {
	for _, c := range slices.Backward(d.opened) {
		err = errors.Join(err, c())
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

// play runs the agents until what returns.
func (d *demonstration) play(ctx context.Context, what func() error) error {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error)
	for _, a := range d.agents {
		go func() { ended <- a.run(running) }()
	}
	err := what()
	stop()
	for range d.agents {
		err = errors.Join(err, <-ended)
	}
	return err
}

// agent returns the agent with a name.
func (d *demonstration) agent(name string) *agent {
	return d.agents[slices.IndexFunc(d.agents, func(a *agent) bool { return a.name == name })]
}

func toLead() []string { return []string{"plan the release", "and then\ntell everybody"} }

// confirm returns the answer that a message was done.
func confirm(r row) (text, summary string) { return "done: " + r.Text, "answer" }

func (d *demonstration) run(ctx context.Context) (err error) {
	d.say("a team is there: %s, with team-lead, worker and reviewer (simulated)", d.team.Name())
	recorded, end, err := d.headless(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
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
		if err := d.relayed(ctx, recorded, text); err != nil {
			return err
		}
	}
	if err := d.ask(ctx); err != nil {
		return err
	}
	if err := d.session(ctx); err != nil {
		return err
	}
	return d.status(ctx)
}

func (d *demonstration) ask(ctx context.Context) error {
	const text = "which task is next?"
	d.say("→ worker  ask %q, and its answer is:", text)
	start := time.Now()
	q := api.NewQuestion{NewMessage: api.NewMessage{Text: text}, Timeout: "10s"}
	answer, err := d.local.Ask(bridge.WithPerson(ctx), d.team.Name(), "worker", "", q)
	if err == nil {
		err = d.Print(answer, plain.Escape(answer.Text, true)+"\n")
	}
	if err != nil {
		return err
	}
	d.say("  answered after %.0f ms", ms(start))
	return nil
}

func (d *demonstration) status(ctx context.Context) error {
	infos, err := d.local.Status(ctx, d.team.Name())
	if err != nil {
		return err
	}
	for _, i := range infos {
		relay := ""
		if i.Relay != nil {
			relay = ", relay " + view.RelayText(i.Relay)
		}
		d.say("  %s is %s (%s)%s", i.Member, i.State, i.Detail, relay)
	}
	return nil
}

func (d *demonstration) join(ctx context.Context) error {
	if _, err := d.local.Join(ctx, d.team.Name(), api.NewJoin{As: api.Guest}); err != nil {
		return err
	}
	d.say("you joined as %s, so that agents can answer", api.Guest)
	return nil
}

func (d *demonstration) send(ctx context.Context, to, id, text string) (api.Sent, error) {
	return d.local.Send(ctx, d.team.Name(), to, id, api.NewMessage{Text: text})
}

// exchange sends a message and follows it to its answer.
func (d *demonstration) exchange(ctx context.Context, to, text string) error {
	agent := d.agent(to)
	before := len(agent.took())
	sentAt := time.Now()
	s, err := d.send(ctx, to, "", text)
	if err != nil {
		return err
	}
	d.say("→ %s  %q: sent after %.1f ms", to, text, ms(sentAt))
	taken, err := agent.wait(ctx, before+1)
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
	agent := d.agent("worker")
	before := len(agent.took())
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
		if _, err := agent.wait(ctx, before+1); err != nil {
			return err
		}
	}
	if _, err := d.reply(ctx, "done: deploy, once"); err != nil {
		return err
	}
	if n := len(agent.took()) - before; n != 1 {
		return fmt.Errorf("worker took the message %d times", n)
	}
	return nil
}

// reply waits until an answer is in our inbox.
func (d *demonstration) reply(ctx context.Context, text string) (row inbox.Row, err error) {
	box, err := inbox.Open(d.team, api.Guest, d.locker)
	if err != nil {
		return row, err
	}
	err = poll(ctx, func() (bool, error) {
		rows, err := box.Read(ctx)
		if errors.Is(err, inbox.ErrMissing) {
			err = nil
		}
		i := slices.IndexFunc(rows, func(r inbox.Row) bool { return r.Text == text })
		if i >= 0 {
			row = rows[i]
		}
		return i >= 0, err
	})
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer %q came: %w", text, ctx.Err())
	}
	return row, err
}

// poll waits until done reports true.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end counts the messages, and checks that no files are left over.
func (d *demonstration) end() error {
	taken := len(d.agent("worker").took()) + len(d.agent("reviewer").took())
	if taken != 5 {
		return fmt.Errorf("the agents took %d messages, and 5 were sent", taken)
	}
	said, err := d.said(toLead()...)
	if err != nil || said != len(toLead()) {
		return errors.Join(err, fmt.Errorf("the lead worked on %d messages, and %d were sent", said, len(toLead())))
	}
	var left []string
	err = filepath.WalkDir(d.team.Path(), func(path string, e fs.DirEntry, err error) error {
		expected := path == d.team.Path() || e != nil && e.IsDir() && e.Name() == "inboxes" || filepath.Ext(path) == ".json"
		if !expected {
			left = append(left, path)
		}
		return err
	})
	if err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("left behind in the team: %q", left))
	}
	n := counts{Sent: taken + said + d.told, Taken: taken + said + d.told, Answers: taken}
	d.print(step{
		Text:   fmt.Sprintf("%d messages sent, %d taken, each once, %d answers; nothing left behind", n.Sent, n.Taken, n.Answers),
		counts: &n,
	})
	return d.err
}

func ms(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
