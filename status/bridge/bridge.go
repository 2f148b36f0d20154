// Package bridge does what people and programs ask for, once for all ways of asking: the
// command line and the service call it, and differ in how they are asked and how they answer.
//
//	to, err := local.Target(ctx, api.Scope{Dir: cwd}, "worker")
//	sent, err := local.Send(ctx, to.Team, to.Member(), "", api.NewMessage{Text: "hello"})
//
// Only target.go decides which team is meant, and whether a name means a member or a pane.
// way.go has what the ways to reach somebody have in common, and each of them is a file: row.go
// with prompt.go, pane.go, machine.go and person.go. control.go, with what uses it, is what controls agents.
//
// A Local embeds what other packages know, none of which imports this one: local opens the files of this machine, history
// has what was seen and recorded, and links the other machines. A service gives it a [Carrying], and history a
// [history.Recording]; without them, it serves a command.
package bridge

import (
	"context"
	"sync"

	"teambridge/status/history"
	"teambridge/status/links"
	"teambridge/status/local"
)

// Options says on which files a [Local] works.
type Options = local.Options

// Local does operations on the files of this machine. It may be used by several goroutines.
type Local struct {
	*local.Files
	*history.Archive
	*history.Transcripts
	*history.TaskLists
	*links.Machines
	*Targets
	*Control

	carrying *Carrying
	fates    rows // what carrying knows, or what a command has put into inboxes

	mu     sync.Mutex
	typing map[string]bool // deliveries that a command types into panes itself
	warned bool            // that the journal cannot be used
}

// New returns a Local. It opens nothing.
func New(opts Options) *Local {
	return open(opts, nil, alone(), &ownRows{sent: map[string]following{}})
}

// ForService returns the Local of a service, which records and carries all the time.
func ForService(opts Options, rec *history.Recording, carrying *Carrying) *Local {
	return open(opts, rec, carrying, carrying)
}

func open(opts Options, rec *history.Recording, carrying *Carrying, fates rows) *Local {
	l := &Local{Files: local.Open(opts), carrying: carrying, fates: fates, typing: map[string]bool{}}
	l.Archive = history.Open(l.Files, history.Options{
		Recording: rec, WithoutLedger: l.withoutLedger,
		HasInboxes: func(ctx context.Context, team, member string) (bool, error) { return l.hasInboxes(ctx, team, member) },
	})
	l.Transcripts, l.TaskLists = &history.Transcripts{Archive: l.Archive}, &history.TaskLists{Archive: l.Archive}
	l.Machines = links.New(l.Files)
	l.Targets = &Targets{l.Files, l.Archive, l.Machines}
	l.Control = &Control{l.Targets, carrying}
	return l
}

type personKey struct{}

// WithPerson says that a person asks for what is done with ctx.
func WithPerson(ctx context.Context) context.Context {
	return context.WithValue(ctx, personKey{}, true)
}

// Person reports whether a person asks, and not a program: prompts are for persons alone.
// Nobody is one by default.
func Person(ctx context.Context) bool {
	person, _ := ctx.Value(personKey{}).(bool)
	return person
}
