package alert

import (
	"crypto/sha256"
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

	"teambridge/status/api"
	"teambridge/teams/atomicfile"
	"teambridge/teams/lockedfile"
)

// Record is the durable record of the alerts to a destination, a file in the directory alerts of the state directory.
type Record struct {
	To      string    `json:"to"` // as [Destination.String]
	Root    string    `json:"root"`
	Team    string    `json:"team,omitempty"` // empty: all
	Last    time.Time `json:"last,omitzero"`  // the last alert that was delivered
	Problem *Problem  `json:"problem,omitempty"`

	// Told has the things that were sent, by their ids in api.Attention, with their states at that time.
	Told map[string]Told `json:"told"`

	Running bool `json:"-"` // a process sends these alerts now
}

// Problem is why alerts were not delivered.
type Problem struct {
	Since   time.Time `json:"since"`
	Why     string    `json:"why"`
	Refused bool      `json:"refused"` // the server refused; no further attempt
}

// Told is the state of a thing at a time.
type Told struct {
	Message string    `json:"message,omitempty"` // the last of unread messages
	Count   int       `json:"count,omitempty"`
	At      time.Time `json:"at"` // when it was last in the list
	refused bool      // the server refused it, and this process does not try again
}

// keepMost limits the recorded things that no longer wait. If one that was dropped comes back, it is sent again.
const keepMost = 1000

// name returns the name of a destination's record file, without its extension.
func (o *Options) name() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{o.To.Kind, o.To.File, o.To.Variable, o.Root, o.Team}, "\x00")))
	return fmt.Sprintf("%s-%x", o.To.Kind, sum[:6])
}

func lockKey(name string) string { return "alerts\n" + name }

func locks(state string) string { return filepath.Join(state, "locks") }

// Records returns the records in a state directory.
func Records(state string) (list []Record, err error) {
	names, err := fs.Glob(os.DirFS(state), "alerts/[^.]*.json")
	for _, name := range names {
		name = strings.TrimSuffix(filepath.Base(name), ".json")
		r, fault := readRecord(state, name)
		if fault == nil {
			r.Running, fault = lockedfile.Held(locks(state), lockKey(name))
		}
		if err = errors.Join(err, fault); fault == nil {
			list = append(list, r)
		}
	}
	return list, err
}

func recordPath(state, name string) string { return filepath.Join(state, "alerts", name+".json") }

func readRecord(state, name string) (r Record, err error) {
	data, err := os.ReadFile(recordPath(state, name))
	if err == nil {
		if err = json.Unmarshal(data, &r); err != nil {
			err = fmt.Errorf("%s: %w", recordPath(state, name), err)
		}
	}
	return r, err
}

// add records things that were sent or refused.
func (r *Record) add(list []api.Attention, refused bool) {
	if r.Told == nil {
		r.Told = map[string]Told{}
	}
	for _, w := range list {
		r.Told[w.ID] = Told{w.Message, w.Count, time.Now().UTC(), refused}
	}
}

// look compares the record with the current list. It removes things that there is news of, so that they are sent again.
func (r *Record) look(waiting []api.Attention) {
	for _, w := range waiting {
		if was, news := News(w, r.Told); news {
			delete(r.Told, w.ID)
		} else {
			r.add([]api.Attention{w}, was.refused) // update it: messages may have been read
		}
	}
}

// write writes the record. It drops the oldest things that no longer wait. waiting is the length of the current list.
func (r *Record) write(state, name string, waiting int) error {
	latest := slices.SortedFunc(maps.Keys(r.Told), func(a, b string) int { return r.Told[b].At.Compare(r.Told[a].At) })
	for _, id := range latest[min(len(latest), waiting+keepMost):] {
		delete(r.Told, id)
	}
	kept := *r
	kept.Told = maps.Clone(r.Told)
	maps.DeleteFunc(kept.Told, func(_ string, t Told) bool { return t.refused })
	data, err := json.MarshalIndent(kept, "", "\t")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(recordPath(state, name)), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(recordPath(state, name), append(data, '\n'))
	}
	return err
}
