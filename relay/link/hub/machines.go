package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/relay/link/nats"
	"teambridge/relay/link/nats/admin"
	"teambridge/teams/atomicfile"
	"teambridge/teams/flock"
)

// A Machine is a machine that may use the hub.
type Machine struct {
	Card    nats.Card `json:"card"`
	Added   time.Time `json:"added"`
	Expires time.Time `json:"expires,omitzero"` // when it is removed; zero: never
}

var (
	// ErrOther means that the named machine has other keys.
	ErrOther = errors.New("a machine of that name has other keys")
	// ErrNone means that the hub knows no machine of that name.
	ErrNone = errors.New("the hub knows no machine of that name")
)

// AddOptions are the options of [Add].
type AddOptions struct {
	Expires time.Time // zero: never
	Replace bool      // replace a machine of that name that has other keys; its waiting frames are lost
}

// Add lets a machine use the hub in dir, whether the hub runs or not; a running hub notices within a second.
// If the machine may use the hub already, only its expiry changes. The error is [ErrOther] if another machine
// has its name.
func Add(ctx context.Context, dir string, card nats.Card, o AddOptions) error {
	if _, err := nats.ParseCard(card.String()); err != nil {
		return err
	}
	return edit(ctx, dir, func(all []Machine) ([]Machine, error) {
		for _, m := range all {
			if m.Card.Name != card.Name && (m.Card.Key == card.Key || m.Card.Box == card.Box) {
				return nil, fmt.Errorf("%s has the keys of %s: each machine needs its own identity", card.Name, m.Card.Name)
			}
		}
		i := slices.IndexFunc(all, func(m Machine) bool { return m.Card.Name == card.Name })
		if i < 0 {
			return append(all, Machine{card, time.Now().UTC(), o.Expires}), nil
		}
		if all[i].Card != card {
			if !o.Replace {
				return nil, fmt.Errorf("%s: %w", card.Name, ErrOther)
			}
			all[i] = Machine{Card: card, Added: time.Now().UTC()}
		}
		all[i].Expires = o.Expires
		return all, nil
	})
}

// Remove stops a machine from using the hub in dir. Its queue is lost. The error is [ErrNone] if the hub does
// not know the machine.
func Remove(ctx context.Context, dir, name string) error {
	return edit(ctx, dir, func(all []Machine) ([]Machine, error) {
		i := slices.IndexFunc(all, func(m Machine) bool { return m.Card.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s: %w", name, ErrNone)
		}
		return slices.Delete(all, i, i+1), nil
	})
}

func machinesPath(dir string) string { return filepath.Join(dir, "machines.json") }

// List returns the machines that may use the hub in dir, oldest first.
func List(dir string) ([]Machine, error) {
	path := machinesPath(dir)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list the machines of the hub: %w", err)
	}
	var file machinesFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("%s is corrupt: %w; correct it, or delete it and add the machines again", path, err)
	}
	names := make(map[string]bool, len(file.Machines))
	for _, m := range file.Machines {
		if names[m.Card.Name] {
			return nil, fmt.Errorf("%s is corrupt: %s is in it twice; correct it", path, m.Card.Name)
		}
		names[m.Card.Name] = true
	}
	return file.Machines, nil
}

// admitted returns the machines that have not expired, by name.
func admitted(listed []Machine, now time.Time) map[string]Machine {
	live := make(map[string]Machine, len(listed))
	for _, m := range listed {
		if m.Expires.IsZero() || m.Expires.After(now) {
			live[m.Card.Name] = m
		}
	}
	return live
}

// users returns machines in the form of users of a server's configuration.
func users(live map[string]Machine) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(live)) {
		b.WriteString(nats.User(live[name].Card))
	}
	return b.String()
}

// makeQueues makes the queues of the machines in live. It removes all other queues, and those of replaced
// machines.
func makeQueues(ctx context.Context, queues *admin.Admin, live map[string]Machine, replaced func(string) bool) (removed []string, err error) {
	there, err := queues.Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range there {
		if _, ok := live[name]; !ok || replaced(name) {
			if err := queues.Remove(ctx, name); err != nil {
				return removed, err
			}
			removed = append(removed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		if err := queues.Add(ctx, name); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

type machinesFile struct {
	Machines []Machine `json:"machines"`
}

// edit changes machines.json.
func edit(ctx context.Context, dir string, change func([]Machine) ([]Machine, error)) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	unlock, err := flock.Lock(ctx, filepath.Join(dir, "machines.lock"))
	if err != nil {
		return fmt.Errorf("change the machines of the hub: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	all, err := List(dir)
	if err != nil {
		return err
	}
	if all, err = change(all); err != nil {
		return err
	}
	data, err := json.MarshalIndent(machinesFile{all}, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(machinesPath(dir), append(data, '\n')); err != nil {
		return fmt.Errorf("change the machines of the hub: %w", err)
	}
	return nil
}
