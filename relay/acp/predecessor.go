package acp

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/process"
)

// Predecessor is an agent that may have outlived its relay. Most agents exit at once, because their input has
// ended; some finish their turn first.
type Predecessor struct {
	process.Predecessor
	options Options
}

// Predecessor returns the process of an agent that an earlier relay started.
func (r *Runtime) Predecessor(p agent.Process) agent.Predecessor {
	return Predecessor{process.Predecessor(p), r.options}
}

// session returns the session that the process works on, and the process's mark; "" if unknown.
func (d Predecessor) session() (session, mark string) {
	files, _ := filepath.Glob(filepath.Join(d.options.State, "acp", "*", "process")) // the pattern is valid
	for _, file := range files {
		var r running
		data, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(data, &r) == nil && r.Predecessor == d.Predecessor {
			return filepath.Base(filepath.Dir(file)), r.Mark
		}
	}
	return "", ""
}

// Alive reports whether the process or one of its descendants is running.
func (d Predecessor) Alive() (bool, error) {
	alive, err := d.Predecessor.Alive()
	if alive || err != nil {
		return alive, err
	}
	_, mark := d.session()
	return mark != "" && len(process.FindByEnv(mark)) > 0, nil
}

// Wait waits until the agent has ended. If the agent has no message to work on, Wait ends it.
func (d Predecessor) Wait(ctx context.Context) error {
	session, mark := d.session()
	works := true
	if rec, err := readRecord(d.options.recordFile(session), nil); session != "" && err == nil {
		works = len(rec.open()) > 0
	}
	alive, err := d.Predecessor.Alive()
	if err != nil {
		return err
	}
	if works && alive {
		err = d.Predecessor.Wait(ctx)
	} else {
		err = d.Predecessor.End(ctx, 0)
	}
	if err != nil {
		return err
	}
	return endMarked(mark) // the descendants have lost their reader
}

// End ends the agent and its descendants, by force after grace.
func (d Predecessor) End(ctx context.Context, grace time.Duration) error {
	_, mark := d.session()
	if err := d.Predecessor.End(ctx, grace); err != nil {
		return err
	}
	return endMarked(mark)
}
