// Package bridge carries out the operations of people and programs. The command line and the service both use
// it; they differ only in how requests and answers are encoded.
//
//	to, err := local.Target(ctx, api.Scope{Dir: cwd}, "worker")
//	sent, err := local.Send(ctx, to.Team, to.Member(), "", api.NewMessage{Text: "hello"})
//
// File target.go alone decides which team is meant, and whether a name is a member or a pane. way.go defines
// the ways of messages, and each way has a file: row.go with prompt.go, pane.go, machine.go and person.go.
// control.go defines Control, which controls agents; relays.go, permit.go and others have its operations.
//
// A Local embeds types of other packages, none of which imports this one: local opens the files of this
// machine, history reads the records, and links knows the other machines. In a service, it gets a [Carrying],
// and the history a [history.Recording]. Without them, it serves a command.
package bridge

import (
	"context"
	"strings"
	"sync"

	"teambridge/status/history"
	"teambridge/status/links"
	"teambridge/status/local"
)

// Options are the files and settings of a [Local].
type Options = local.Options

// Local carries out operations on the files of this machine. It is safe for concurrent use.
type Local struct {
	*local.Files
	*history.Archive
	*history.Transcripts
	*history.TaskLists
	*links.Machines
	*Targets
	*Control

	carrying *Carrying
	fates    rows // carrying, or the rows of this command

	mu     sync.Mutex
	typing map[string]bool // deliveries that this command types into panes itself
	warned bool            // that the journal cannot be used
}

// New returns a Local for a command. It opens nothing.
func New(opts Options) *Local {
	return open(opts, nil, forCommand(), &ownRows{sent: map[string]following{}})
}

// ForService returns the Local of a service, which records and delivers all the time.
func ForService(opts Options, rec *history.Recording, carrying *Carrying) *Local {
	return open(opts, rec, carrying, carrying)
}

func open(opts Options, rec *history.Recording, carrying *Carrying, fates rows) *Local {
	l := &Local{Files: local.Open(opts), carrying: carrying, fates: fates, typing: map[string]bool{}}
	l.Archive = history.Open(l.Files, history.Options{
		Recording: rec, WithoutLedger: l.withoutLedger,
		Complete: func(ctx context.Context, name string) (string, error) {
			if l.addresses(ctx)[name] != nil {
				return name, nil
			}
			whole, err := l.completed(ctx, []string{name})
			return strings.Join(whole, ""), err
		},
		HasInboxes: func(ctx context.Context, team, member string) (bool, error) { return l.hasInboxes(ctx, team, member) },
	})
	l.Transcripts, l.TaskLists = &history.Transcripts{Archive: l.Archive}, &history.TaskLists{Archive: l.Archive}
	l.Machines = links.New(l.Files)
	l.Targets = &Targets{l.Files, l.Archive, l.Machines}
	l.Control = &Control{l.Targets, carrying}
	return l
}

type personKey struct{}

// WithPerson marks the requests with ctx as a person's.
func WithPerson(ctx context.Context) context.Context {
	return context.WithValue(ctx, personKey{}, true)
}

// Person reports whether a person makes the request, and not a program: prompts are only for persons. Without
// WithPerson, it is false.
func Person(ctx context.Context) bool {
	person, _ := ctx.Value(personKey{}).(bool)
	return person
}
