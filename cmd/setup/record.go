package setup

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

	"teambridge/relay/stophook"
	"teambridge/teams/atomicfile"
	"teambridge/teams/rawjson"
)

// records are what setup has done, and the files that it has changed, to undo it.
type records struct {
	Steps []record        `json:"steps"`           // in the order in which they were done
	Files map[string]kept `json:"files,omitempty"` // by their paths, which are not those of links
}

// record is a step that was done.
type record struct {
	Step    string            `json:"step"`
	Target  string            `json:"target"`            // see [Step]
	Files   map[string]string `json:"files,omitempty"`   // that it has changed, and the path of each by which it was found, perhaps a link
	Made    []rawjson.Made    `json:"made,omitempty"`    // in the file, besides what it has added
	Command []string          `json:"command,omitempty"` // that the program runs
}

// kept is what is known of a file that steps have changed. There is a copy of it as it was before all of them.
type kept struct {
	Existed   bool   `json:"existed,omitempty"`
	Sum       string `json:"sum,omitempty"`       // of the file as the last step has left it; "": somebody else may have changed it before
	Rewritten bool   `json:"rewritten,omitempty"` // a program has written it in its own form
	Directory bool   `json:"directory,omitempty"` // that was made for it
}

func (s *Setup) dir() string { return filepath.Dir(s.doneFile()) }

func (s *Setup) doneFile() string { return stophook.DoneFile(s.State) }

// copyOf is where the copy is of a file as it was.
func (s *Setup) copyOf(file string) string {
	return filepath.Join(s.dir(), sum([]byte(file))[:16]+"-"+filepath.Base(file))
}

// records returns what was done.
func (s *Setup) records() (*records, error) {
	all := &records{Files: map[string]kept{}}
	data, err := os.ReadFile(s.doneFile())
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(data, all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.doneFile(), err)
	}
	return all, nil
}

func (all *records) clone() *records {
	return &records{slices.Clone(all.Steps), maps.Clone(all.Files)}
}

// find returns the record of a step; nil if it was not done.
func (all *records) find(st *Step) *record {
	for i, r := range all.Steps {
		if r.of(record{Step: st.Name, Target: st.Target}) {
			return &all.Steps[i]
		}
	}
	return nil
}

// projectOf returns the settings file that hooks were added to, if it is not that of all projects.
func (r record) projectOf() (path string, ok bool) {
	for _, path := range r.Files {
		if path == r.Target {
			return path, true
		}
	}
	return "", false
}

// of reports whether two records are those of one step.
func (r record) of(o record) bool { return r.Step == o.Step && r.Target == o.Target }

// users returns the records of other steps than that of r that use a file, which the paths by which they found it lead to.
func (all *records) users(file string, r record) (users []record) {
	for _, o := range all.Steps {
		if path, ok := o.Files[file]; ok && !o.of(r) {
			if now, err := resolve(path); err == nil && now == file {
				users = append(users, o)
			}
		}
	}
	return users
}

// sharing returns those of users that have done the same step: two directories can have the same settings, by a link.
func (all *records) sharing(file string, r record) []record {
	return slices.DeleteFunc(all.users(file, r), func(o record) bool { return o.Step != r.Step })
}

// begin keeps the record of a step, and a copy of each of its files of which there is none yet.
func (s *Setup) begin(all *records, r record) error {
	if err := os.MkdirAll(s.dir(), 0o700); err != nil {
		return err
	}
	for file := range r.Files {
		if _, ok := all.Files[file]; ok {
			continue
		}
		data, err := readIfAny(file)
		if err == nil && data != nil {
			err = atomicfile.Write(s.copyOf(file), data)
		}
		if err != nil {
			return err
		}
		all.Files[file] = kept{Existed: data != nil, Sum: sum(data)}
	}
	all.Steps = append(slices.DeleteFunc(all.Steps, r.of), r)
	return s.write(all)
}

// end removes the record of a step, and the copies of files that no other one uses.
func (s *Setup) end(all *records, r record) error {
	all.Steps = slices.DeleteFunc(all.Steps, r.of)
	var unused []string
	for file := range all.Files {
		if !slices.ContainsFunc(all.Steps, func(o record) bool { return o.Files[file] != "" }) {
			unused = append(unused, file)
		}
	}
	for _, file := range unused {
		if all.Files[file].Directory {
			_ = os.Remove(filepath.Dir(file)) // fails if it is not empty
		}
		delete(all.Files, file)
	}
	if err := s.write(all); err != nil {
		return err
	}
	for _, file := range unused {
		if err := s.discard(file); err != nil {
			return err
		}
	}
	_ = os.Remove(s.dir()) // fails if it is not empty
	return nil
}

// discard removes the copy of a file, if there is one.
func (s *Setup) discard(file string) error {
	if err := os.Remove(s.copyOf(file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *Setup) write(all *records) error {
	if len(all.Steps) == 0 {
		err := os.Remove(s.doneFile())
		_ = os.Remove(s.dir()) // fails if it is not empty
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.doneFile(), append(data, '\n'))
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}
