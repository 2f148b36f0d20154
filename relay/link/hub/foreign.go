package hub

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"teambridge/relay/link/nats"
	"teambridge/relay/link/nats/admin"
)

// Accounts returns what the accounts of a NATS server of somebody else need, so that it can be the
// hub of the machines in dir. The key of its administrator is made in dir, if there is none.
func Accounts(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	key, err := nats.NewKey()
	if err != nil {
		return "", err
	}
	if err := nats.WriteKey(adminPath(dir), key); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if key, err = nats.ReadKey(adminPath(dir)); err != nil {
		return "", err
	}
	listed, err := List(dir)
	if err != nil {
		return "", err
	}
	users := users(admitted(listed, time.Now()))
	return nats.Accounts("      {nkey: "+key.Card("").Key+"}\n", users), nil
}

// Prepare makes the stream and the queues of the machines in dir at a NATS server that has the
// [Accounts], and removes queues of others. The address of the server, and how it is trusted, are
// those of o. It returns the machines. After the first time the server has to be reloaded once more:
// what MACHINES asks of JetStream through HUB is answered by nobody if both accounts came with a
// reload (nats-server 2.15.2), until the next one.
func Prepare(ctx context.Context, dir string, o nats.Options) (names []string, err error) {
	if o.Key, err = nats.ReadKey(adminPath(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("the server cannot know an administrator yet: first include in its configuration what teambridge-hub setup prints without --server")
	} else if err != nil {
		return nil, err
	}
	listed, err := List(dir)
	if err != nil {
		return nil, err
	}
	queues, err := admin.Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	defer queues.Close()
	if err := queues.Stream(ctx, 1<<30); err != nil {
		return nil, err
	}
	live := admitted(listed, time.Now())
	if _, err := makeQueues(ctx, queues, live, func(string) bool { return false }); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(live)), nil
}

func adminPath(dir string) string { return filepath.Join(dir, "admin.key") }
