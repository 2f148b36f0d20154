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

// Accounts returns the accounts section for another NATS server that is to be the hub of the machines in dir.
// It makes the administrator's key in dir if there is none.
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

// Prepare makes the stream and the queues of the machines in dir at a NATS server that has the [Accounts],
// removes all other queues, and returns the machines. o has the server's address and how to trust it. After
// the first call the server must be reloaded once more: if one reload adds both accounts, requests of
// MACHINES to JetStream through HUB stay unanswered until the next reload (nats-server 2.15.2).
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
