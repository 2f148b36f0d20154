package teams

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"teambridge/teams/atomicfile"
)

// Observation is what was found out about a version of Claude Code on this machine. "teambridge probe" makes it.
type Observation struct {
	Version Version
	At      time.Time
	// Found has what is true of the version, by the names of traits, and of other points that a probe looks at.
	Found map[string]Answer
	// Changed are the names of those that were not as expected.
	Changed []string
}

// observation is an Observation as it is written.
type observation struct {
	Version string            `json:"version"`
	At      time.Time         `json:"at"`
	Found   map[string]string `json:"found"`
	Changed []string          `json:"changed"`
}

// maxObservation bounds the file of a version, which has a line for each point.
const maxObservation = 64 << 10

// Observations is the directory for observations in a state directory.
func Observations(state string) string { return filepath.Join(state, "claude") }

func observationPath(dir string, v Version) string { return filepath.Join(dir, v.String()+".json") }

// Observed returns what is known of a version in a directory. If nothing is, the error is fs.ErrNotExist.
func Observed(dir string, v Version) (Observation, error) {
	path := observationPath(dir, v)
	file, err := os.Open(path)
	if err != nil {
		return Observation{}, err
	}
	defer file.Close()
	bad := func(format string, args ...any) (Observation, error) {
		return Observation{}, fmt.Errorf("teams: %s is not what a probe writes, and is ignored: %w; remove it, or probe again", path, fmt.Errorf(format, args...))
	}
	data, err := io.ReadAll(io.LimitReader(file, maxObservation+1))
	if err != nil {
		return bad("%w", err)
	}
	if len(data) > maxObservation {
		return bad("it is larger than %d bytes", maxObservation)
	}
	var o observation
	if err := json.Unmarshal(data, &o); err != nil {
		return bad("%w", err)
	}
	if got, err := ParseVersion(o.Version); err != nil || got != v {
		return bad("its version is %.40q", o.Version)
	}
	known := Observation{Version: v, At: o.At, Found: map[string]Answer{}, Changed: o.Changed}
	for name, is := range o.Found {
		switch is {
		case Yes.String():
			known.Found[name] = Yes
		case No.String():
			known.Found[name] = No
		default:
			return bad("%.40q is %.40q, neither yes nor no", name, is)
		}
	}
	return known, nil
}

// Save writes an observation into a directory, in the place of an earlier one of that version.
func (o Observation) Save(dir string) error {
	w := observation{Version: o.Version.String(), At: o.At.UTC(), Found: map[string]string{}, Changed: o.Changed}
	if w.Changed == nil {
		w.Changed = []string{}
	}
	for name, is := range o.Found {
		if is != Unsure {
			w.Found[name] = is.String()
		}
	}
	data, err := json.MarshalIndent(w, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(observationPath(dir, o.Version), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("teams: keep what was found out about %s: %w", o.Version, err)
	}
	forget()
	return nil
}

// What is known on this machine, for the whole process: which versions there are does not depend on who asks.
var (
	observations atomic.Pointer[string]
	remembered   sync.Map // of Version to remembrance
)

type remembrance struct {
	at    time.Time
	found map[string]Answer
}

// rereadAfter is the age at which a file is read again, which another process may have written.
const rereadAfter = 10 * time.Second

// ObserveIn says in which directory [Version.Has] finds observations. Before it is called there are none.
func ObserveIn(dir string) {
	observations.Store(&dir)
	forget()
}

func forget() { remembered.Clear() }

// observed returns what is known of a version on this machine. What cannot be read is no knowledge; [Observed] says why.
func observed(v Version) map[string]Answer {
	dir := observations.Load()
	if dir == nil || !v.Known() {
		return nil
	}
	if r, ok := remembered.Load(v); ok && time.Since(r.(remembrance).at) < rereadAfter {
		return r.(remembrance).found
	}
	o, _ := Observed(*dir, v)
	remembered.Store(v, remembrance{time.Now(), o.Found})
	return o.Found
}
