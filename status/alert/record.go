package alert

import (
	"crypto/sha256"
	"encoding/hex"
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

// Record is what is known of the alerts to a destination. It is a file in the directory alerts of the
// state directory.
type Record struct {
	To      string    `json:"to"` // as [Destination.String]
	Root    string    `json:"root"`
	Team    string    `json:"team,omitempty"` // empty: all
	Since   time.Time `json:"since,omitzero"` // the first alert; zero: none was delivered
	Last    time.Time `json:"last,omitzero"`  // the last one
	Problem *Problem  `json:"problem,omitempty"`

	// Told has what was told, by the id of the api.Attention, and what it was then.
	Told map[string]told `json:"told"`

	Running bool `json:"-"` // a process sends these alerts now
}

// Problem is why things were not delivered.
type Problem struct {
	Since   time.Time `json:"since"`
	Why     string    `json:"why"`
	Refused bool      `json:"refused"` // and are not sent again
}

type told struct {
	Message string    `json:"message,omitempty"` // the last of unread messages
	Count   int       `json:"count,omitempty"`
	At      time.Time `json:"at"` // when it waited last
	refused bool      // it was not told, and this process does not try again
}

// Limits of what is kept of things that wait no more. One that is not known any more and comes back is
// told again.
const (
	keepFor  = 30 * 24 * time.Hour
	keepMost = 1000
)

// name is that of the file with the record of a destination, without its extension.
func (o *Options) name() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{o.To.Kind, o.To.File, o.To.Variable, o.Root, o.Team}, "\x00")))
	return o.To.Kind + "-" + hex.EncodeToString(sum[:6])
}

func lockKey(name string) string { return "alerts\n" + name }

func locks(state string) string { return filepath.Join(state, "locks") }

// Records returns the records in a state directory.
func Records(state string) (list []Record, err error) {
	dir := filepath.Join(state, "alerts")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var faults []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		r, err := readRecord(filepath.Join(dir, e.Name()))
		if err == nil {
			r.Running, err = lockedfile.Held(locks(state), lockKey(name))
		}
		if faults = append(faults, err); err == nil {
			list = append(list, r)
		}
	}
	return list, errors.Join(append(faults, err)...)
}

func readRecord(path string) (r Record, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(data, &r); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	return r, err
}

// add adds things that were told, or refused.
func (r *Record) add(list []api.Attention, refused bool) {
	for _, w := range list {
		r.Told[w.ID] = told{w.Message, w.Count, time.Now().UTC(), refused}
	}
}

// look compares what was told with what waits now. That of which there is news is as if it had not been told.
func (r *Record) look(waiting []api.Attention) {
	for _, w := range waiting {
		was, known := r.Told[w.ID]
		if known && News(w, api.Attention{Message: was.Message, Count: was.Count}) {
			delete(r.Told, w.ID)
		} else if known {
			r.add([]api.Attention{w}, was.refused) // of unread messages, fewer may be left
		}
	}
}

// write writes the record, and removes what waits no more if it is too old or too much. So many things wait.
func (r *Record) write(path string, waiting int) error {
	latest := slices.SortedFunc(maps.Keys(r.Told), func(a, b string) int { return r.Told[b].At.Compare(r.Told[a].At) })
	for i, id := range latest {
		if i >= waiting+keepMost || time.Since(r.Told[id].At) > keepFor {
			delete(r.Told, id)
		}
	}
	kept := *r
	kept.Told = maps.Clone(r.Told)
	maps.DeleteFunc(kept.Told, func(_ string, t told) bool { return t.refused })
	data, err := json.MarshalIndent(kept, "", "\t")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = atomicfile.Write(path, append(data, '\n'))
	}
	return err
}
