// Package admin makes the stream of a hub and the queues of its machines. It is apart from
// package nats since a client needs none of it, and package jetstream takes its time when a
// program starts.
package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"teambridge/relay/link/nats"
)

const (
	// MaxWaiting is how many frames of one machine wait for another.
	MaxWaiting = 1000
	// MaxAge is how long a frame waits.
	MaxAge = 7 * 24 * time.Hour

	ackWait   = 5 * time.Second
	pinnedTTL = 10 * time.Second
	dedupe    = 2 * time.Minute

	// slow is how long a change may take on a machine whose disk or processor is busy.
	slow = 20 * time.Second
)

// An Admin makes the stream of a hub and the queues of its machines.
type Admin struct {
	nc *natsgo.Conn
	js jetstream.JetStream
}

// Dial connects to a server, with the address and the administrator's key in o. The server has
// to be of version 2.14 or later.
func Dial(ctx context.Context, o nats.Options) (*Admin, error) {
	address, opts, err := o.Address(ctx)
	if err != nil {
		return nil, err
	}
	a, err := dial(address, append(opts, natsgo.Nkey(o.Key.Card("").Key, o.Key.Sign))...)
	if errors.Is(err, natsgo.ErrAuthorization) || errors.Is(err, natsgo.ErrNkeysNotSupported) {
		return nil, fmt.Errorf("the server does not know the administrator: include in its configuration what teambridge-hub setup prints without --server, and reload it (%w)", err)
	} else if err != nil {
		return nil, err
	}
	var major, minor int
	version := a.nc.ConnectedServerVersion()
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major < 2 || major == 2 && minor < 14 {
		a.Close()
		return nil, fmt.Errorf("the server is of version %q: a hub needs 2.14 or later", version)
	}
	return a, nil
}

// Of connects to a server in this process, as the user who has the key.
func Of(s natsgo.InProcessConnProvider, key *nats.Key) (*Admin, error) {
	return dial("", natsgo.InProcessServer(s), natsgo.Nkey(key.Card("").Key, key.Sign), natsgo.MaxReconnects(-1), natsgo.Timeout(slow))
}

func dial(address string, opts ...natsgo.Option) (*Admin, error) {
	nc, err := natsgo.Connect(address, append(opts, natsgo.Name("teambridge-hub"))...)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(5*time.Second))
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &Admin{nc, js}, nil
}

// Close ends the connection.
func (a *Admin) Close() { a.nc.Close() }

// Stream makes the nats.Stream, or changes it to what it should be. It holds maxBytes at most.
func (a *Admin) Stream(ctx context.Context, maxBytes int64) error {
	ctx, cancel := context.WithTimeout(ctx, slow)
	defer cancel()
	_, err := a.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: nats.Stream, Subjects: []string{"tb.m.*.*"}, Storage: jetstream.FileStorage,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
		MaxMsgsPerSubject: MaxWaiting, DiscardNewPerSubject: true, MaxBytes: maxBytes,
		MaxAge: MaxAge, Duplicates: dedupe,
	})
	if err != nil {
		return fmt.Errorf("make stream %s: %w", nats.Stream, err)
	}
	return nil
}

// Add makes the queue of a machine, unless it has one.
func (a *Admin) Add(ctx context.Context, name string) error {
	if err := nats.CheckName(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, slow)
	defer cancel()
	_, err := a.js.CreateOrUpdateConsumer(ctx, nats.Stream, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: "tb.m." + name + ".*", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 1,
		PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{nats.Group}, PinnedTTL: pinnedTTL,
	})
	if err != nil {
		return fmt.Errorf("make the queue of %s: %w", name, err)
	}
	return nil
}

// Remove removes the queue of a machine, with what waits in it.
func (a *Admin) Remove(ctx context.Context, name string) error {
	if err := nats.CheckName(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, slow)
	defer cancel()
	if err := a.js.DeleteConsumer(ctx, nats.Stream, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("remove the queue of %s: %w", name, err)
	}
	s, err := a.js.Stream(ctx, nats.Stream)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject("tb.m."+name+".*"))
	}
	if err != nil {
		return fmt.Errorf("empty the queue of %s: %w", name, err)
	}
	return nil
}

// Queues returns the machines that have a queue.
func (a *Admin) Queues(ctx context.Context) ([]string, error) {
	s, err := a.js.Stream(ctx, nats.Stream)
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	var names []string
	l := s.ConsumerNames(ctx)
	for n := range l.Name() {
		names = append(names, n)
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	return names, nil
}

// A Queue is what waits for a machine.
type Queue struct {
	Frames uint64
	Most   uint64    // frames of the machine that has sent most of them; MaxWaiting is the limit
	Oldest time.Time // zero if it is empty
}

// Waiting returns what waits for each machine, and how many bytes all of it takes. JetStream counts
// no bytes for each machine: they would have to be read.
func (a *Admin) Waiting(ctx context.Context) (map[string]Queue, uint64, error) {
	s, err := a.js.Stream(ctx, nats.Stream)
	if err != nil {
		return nil, 0, fmt.Errorf("look at stream %s: %w", nats.Stream, err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter("tb.m.>"))
	if err != nil {
		return nil, 0, fmt.Errorf("look at stream %s: %w", nats.Stream, err)
	}
	all := map[string]Queue{}
	for subject, n := range info.State.Subjects {
		if parts := strings.Split(subject, "."); len(parts) == 4 && nats.CheckName(parts[2]) == nil {
			q := all[parts[2]]
			q.Frames, q.Most = q.Frames+n, max(q.Most, n)
			all[parts[2]] = q
		}
	}
	for name, q := range all {
		first, err := s.GetMsg(ctx, 0, jetstream.WithGetMsgSubject("tb.m."+name+".*"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // it has just been taken
		} else if err != nil {
			return nil, 0, fmt.Errorf("look at the queue of %s: %w", name, err)
		}
		q.Oldest = first.Time
		all[name] = q
	}
	return all, info.State.Bytes, nil
}

// Probe has something stored, and takes it away again. The error is nil as well if the stream
// refuses because it is full: it answers.
func (a *Admin) Probe(ctx context.Context) error {
	const subject = "tb.m._.probe" // no name of a machine
	ack, err := a.js.Publish(ctx, subject, nil)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == errStoreFailed && strings.HasPrefix(api.Description, "maximum ") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("store a probe: %w", err)
	}
	s, err := a.js.Stream(ctx, nats.Stream)
	if err == nil {
		err = s.DeleteMsg(ctx, ack.Sequence)
	}
	if err != nil {
		return fmt.Errorf("remove a probe: %w", err)
	}
	return nil
}

// errStoreFailed is the code of an error whose text comes from the store.
const errStoreFailed jetstream.ErrorCode = 10077
