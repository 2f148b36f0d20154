package simagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrMember says that a name is in config.json already.
var ErrMember = errors.New("there is a member of that name already")

const inProcess = "in-process"

// config is the config.json of one team. The agents of one team share it, as the real ones
// share one thread.
type config struct {
	dir string
	now func() time.Time

	// one has a token while the file is used. Waiting for a mutex would not end
	// with a context, and would stop the clock of testing/synctest while its
	// holder waits for the file's lock.
	one chan struct{}
}

func newConfig(dir string, now func() time.Time) *config {
	return &config{dir: dir, now: now, one: make(chan struct{}, 1)}
}

func (c *config) enter(ctx context.Context) error {
	select {
	case c.one <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("simagent: wait for %s: %w", c.path(), ctx.Err())
	}
}

func (c *config) leave() { <-c.one }

func (c *config) path() string { return filepath.Join(c.dir, "config.json") }

// has reports whether a member of that name is in the file.
func (c *config) has(ctx context.Context, name string) (bool, error) {
	if err := c.enter(ctx); err != nil {
		return false, err
	}
	defer c.leave()
	_, members, err := c.read()
	if err != nil {
		return false, err
	}
	return indexMember(members, name) >= 0, nil
}

// add appends an entry for name.
func (c *config) add(ctx context.Context, name string, entry json.RawMessage) error {
	return c.edit(ctx, func(members []json.RawMessage) ([]json.RawMessage, error) {
		if indexMember(members, name) >= 0 {
			return nil, fmt.Errorf("simagent: add %s to %s: %w", name, c.path(), ErrMember)
		}
		return append(members, entry), nil
	})
}

// remove removes the entry of name. It is no error if there is none: the member
// may have been removed in two ways at once.
func (c *config) remove(ctx context.Context, name string) error {
	return c.edit(ctx, func(members []json.RawMessage) ([]json.RawMessage, error) {
		i := indexMember(members, name)
		if i < 0 {
			return nil, nil
		}
		return append(members[:i:i], members[i+1:]...), nil
	})
}

// edit changes the list of members; nil from change leaves the file alone.
func (c *config) edit(ctx context.Context, change func([]json.RawMessage) ([]json.RawMessage, error)) error {
	body := func() error {
		top, members, err := c.read()
		if err != nil {
			return err
		}
		members, err = change(members)
		if err != nil || members == nil {
			return err
		}
		value, err := encode(members)
		if err != nil {
			return err
		}
		top.set("members", value)
		data, err := top.encode()
		if err != nil {
			return err
		}
		return c.write(data)
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.leave()
	return locked(ctx, c.path(), c.now, body)
}

func (c *config) read() (object, []json.RawMessage, error) {
	data, err := readFile(c.path())
	if err != nil {
		return nil, nil, fmt.Errorf("simagent: read config: %w", err)
	}
	if !json.Valid(data) {
		return nil, nil, fmt.Errorf("simagent: read config: %s: not JSON", c.path())
	}
	top, err := parseObject(data)
	if err != nil {
		return nil, nil, fmt.Errorf("simagent: read config: %s: %w", c.path(), err)
	}
	var members []json.RawMessage
	if value := top.value("members"); value != nil {
		if err := json.Unmarshal(value, &members); err != nil {
			return nil, nil, fmt.Errorf("simagent: read config: %s: members: %w", c.path(), err)
		}
	}
	return top, members, nil
}

// write writes the file in place.
func (c *config) write(data []byte) error {
	data, err := indent(data)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.path(), data, 0o600); err != nil {
		return fmt.Errorf("simagent: write config: %w", err)
	}
	return nil
}

func indexMember(members []json.RawMessage, name string) int {
	for i, raw := range members {
		if !bytes.HasPrefix(raw, []byte("{")) {
			continue
		}
		if o, err := parseObject(raw); err == nil {
			if have, ok := o.text("name"); ok && have == name {
				return i
			}
		}
	}
	return -1
}
