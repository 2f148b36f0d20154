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

// Predecessor is an agent that may have outlived its relay. Most exit at once, since their input has ended;
// some finish their turn first.
type Predecessor struct {
	process.Predecessor
	options Options
}

// Predecessor finds the process of an agent that an earlier relay started.
func (r *Runtime) Predecessor(p agent.Process) agent.Predecessor {
	return Predecessor{process.Predecessor(p), r.options}
}

// session finds the session that the process works on; empty if unknown.
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

// Alive reports whether the process or one of its descendants runs.
func (d Predecessor) Alive() (bool, error) {
	alive, err := d.Predecessor.Alive()
	if alive || err != nil {
		return alive, err
	}
	_, mark := d.session()
	return mark != "" && len(process.With(envMark+"="+mark)) > 0, nil
}

// Wait waits until it has ended. It ends it if no message is being worked on.
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
	return endMarked(mark) // the descendants have nobody to write to
}

// End ends it and its descendants, using force after grace.
func (d Predecessor) End(ctx context.Context, grace time.Duration) error {
	_, mark := d.session()
	if err := d.Predecessor.End(ctx, grace); err != nil {
		return err
	}
	return endMarked(mark)
}
