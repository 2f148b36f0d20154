package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream = "TB"
	group  = "one" // the only group of a consumer that is pinned to one client

	// MaxPayload is the size of the largest message that a hub takes.
	MaxPayload = 1 << 20
	// MaxWaiting is how many frames of one machine wait for another.
	MaxWaiting = 1000
	// MaxAge is how long a frame waits.
	MaxAge = 7 * 24 * time.Hour

	ackWait   = 5 * time.Second
	pinnedTTL = 10 * time.Second
	dedupe    = 2 * time.Minute
)

// Permissions returns the subjects that a machine may publish to and subscribe to: it writes in
// its own name, and reads, acknowledges, resets and takes over its own queue.
func Permissions(name string) (publish, subscribe []string) {
	publish = []string{"tb.m.*." + name, "tb.p.*." + name, "$JS.ACK." + stream + "." + name + ".>"}
	for _, what := range consumerAPI {
		publish = append(publish, asks(what, name))
	}
	return publish, []string{inbox(name) + ".>", "tb.p." + name + ".*"}
}

// consumerAPI is what a machine asks about its queue.
var consumerAPI = []string{"INFO", "NEXT", "RESET", "UNPIN"}

// asks returns the subject under which a machine asks that. It is none of JetStream's: under
// those the server answered most of the time that JetStream is not enabled for the account of
// the machines (nats-server 2.15.2).
func asks(what, name string) string { return "tb.q." + what + "." + name }

// Accounts returns the accounts of a server in its own configuration language: HUB, which has
// the stream, with the users admin, and MACHINES with the users machines.
//
// Permissions alone are not enough. A server answers wherever the reply subject says, with the
// rights of the account, and a pull without a message is answered with an empty body. So in one
// account a machine that asks for its next message with the reply subject
// $JS.API.STREAM.DELETE.TB deletes the stream, with all queues. What machines may reach is
// therefore a service of another account, and no answer gets there.
func Accounts(admin, machines string) string {
	exports, imports := "", ""
	service := func(here, there, more string) {
		exports += fmt.Sprintf("      {service: %q%s}\n", there, more)
		imports += fmt.Sprintf("      {service: {account: HUB, subject: %q}, to: %q}\n", there, here)
	}
	for _, same := range []string{"tb.m.*.*", "$JS.ACK." + stream + ".*.>"} {
		service(same, same, "")
	}
	for _, what := range consumerAPI {
		there, more := what, ""
		if what == "NEXT" {
			there, more = "MSG.NEXT", ", response: stream"
		}
		service(asks(what, "*"), "$JS.API.CONSUMER."+there+"."+stream+".*", more)
	}
	return fmt.Sprintf(`accounts: {
  HUB: {
    jetstream: enabled
    exports: [
%s    ]
    users: [
%s    ]
  }
  MACHINES: {
    imports: [
%s    ]
    users: [
%s    ]
  }
}
`, exports, admin, imports, machines)
}

// User returns a machine as one of the users of [Accounts].
func User(c Card) string {
	publish, subscribe := Permissions(c.Name)
	return fmt.Sprintf("      {nkey: %s, permissions: {publish: {allow: [%s]}, subscribe: {allow: [%s]}}}\n", c.Key, quoted(publish), quoted(subscribe))
}

func quoted(subjects []string) string { return `"` + strings.Join(subjects, `", "`) + `"` }

func inbox(name string) string { return "_INBOX_" + name }

// An Admin makes the stream of a hub and the queues of its machines.
type Admin struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// DialAdmin connects to a server as a user who may do everything: one whose credentials are in
// a file, as NATS makes them, or the one that the address has.
func DialAdmin(address, credentials string) (*Admin, error) {
	var opts []nats.Option
	if credentials != "" {
		opts = append(opts, nats.UserCredentials(credentials))
	}
	return dialAdmin(address, opts...)
}

// AdminOf connects to a server in this process, as the user who has the key.
func AdminOf(s nats.InProcessConnProvider, key *Key) (*Admin, error) {
	return dialAdmin("", nats.InProcessServer(s), nats.Nkey(key.userPub, key.user.Sign), nats.MaxReconnects(-1))
}

func dialAdmin(address string, opts ...nats.Option) (*Admin, error) {
	nc, err := nats.Connect(address, append(opts, nats.Name("teambridge-hub"))...)
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

// Stream makes the stream, or changes it to what it should be. It holds maxBytes at most.
func (a *Admin) Stream(ctx context.Context, maxBytes int64) error {
	_, err := a.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: stream, Subjects: []string{"tb.m.*.*"}, Storage: jetstream.FileStorage,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
		MaxMsgsPerSubject: MaxWaiting, DiscardNewPerSubject: true, MaxBytes: maxBytes,
		MaxAge: MaxAge, Duplicates: dedupe,
	})
	if err != nil {
		return fmt.Errorf("make stream %s: %w", stream, err)
	}
	return nil
}

// Add makes the queue of a machine, unless it has one.
func (a *Admin) Add(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	_, err := a.js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: "tb.m." + name + ".*", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 1,
		PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{group}, PinnedTTL: pinnedTTL,
	})
	if err != nil {
		return fmt.Errorf("make the queue of %s: %w", name, err)
	}
	return nil
}

// Remove removes the queue of a machine, with what waits in it.
func (a *Admin) Remove(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := a.js.DeleteConsumer(ctx, stream, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("remove the queue of %s: %w", name, err)
	}
	s, err := a.js.Stream(ctx, stream)
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
	s, err := a.js.Stream(ctx, stream)
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
	Oldest time.Time // zero if it is empty
}

// Waiting returns what waits for each machine, and how many bytes all of it takes.
func (a *Admin) Waiting(ctx context.Context) (map[string]Queue, uint64, error) {
	s, err := a.js.Stream(ctx, stream)
	if err != nil {
		return nil, 0, fmt.Errorf("look at stream %s: %w", stream, err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter("tb.m.>"))
	if err != nil {
		return nil, 0, fmt.Errorf("look at stream %s: %w", stream, err)
	}
	all := map[string]Queue{}
	for subject, n := range info.State.Subjects {
		if parts := strings.Split(subject, "."); len(parts) == 4 && CheckName(parts[2]) == nil {
			q := all[parts[2]]
			q.Frames += n
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
	s, err := a.js.Stream(ctx, stream)
	if err == nil {
		err = s.DeleteMsg(ctx, ack.Sequence)
	}
	if err != nil {
		return fmt.Errorf("remove a probe: %w", err)
	}
	return nil
}

// errStoreFailed is the code of an error whose text is that of the store.
const errStoreFailed jetstream.ErrorCode = 10077
