package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"teambridge/relay/stophook"
	"teambridge/teams/atomicfile"
)

// record is what we keep of a step that we have done, to undo it.
type record struct {
	Step      string   `json:"step"`
	Target    string   `json:"target"`              // the directory of the program
	Existed   bool     `json:"existed,omitempty"`   // the file that it changed, of which there is a copy
	After     string   `json:"after,omitempty"`     // the sum of the file with the change
	Added     added    `json:"added"`               // to Claude Code's settings
	Directory bool     `json:"directory,omitempty"` // it was made for the file
	Command   []string `json:"command,omitempty"`   // that the program runs
}

func (s *Setup) dir() string { return filepath.Join(s.State, "setup") }

func (s *Setup) recordsFile() string { return filepath.Join(s.dir(), "done.json") }

// copyOf is where the copy of the file is that a step has changed.
func (s *Setup) copyOf(r record, file string) string {
	return filepath.Join(s.dir(), sum([]byte(r.Target))[:16]+"-"+r.Step+"-"+file)
}

// records returns what was done, the first one first.
func (s *Setup) records() (list []record, err error) {
	data, err := os.ReadFile(s.recordsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.recordsFile(), err)
	}
	return list, nil
}

// find returns the record of a step, if it was done.
func (s *Setup) find(st *Step) (r record, ok bool, err error) {
	list, err := s.records()
	i := slices.IndexFunc(list, func(r record) bool { return s.same(r, st) })
	if i < 0 {
		return r, false, err
	}
	return list[i], true, nil
}

func (s *Setup) same(r record, st *Step) bool { return r.Step == st.Name && r.Target == s.target(st) }

func (r record) replaces(o record) bool { return r.Step == o.Step && r.Target == o.Target }

// remember keeps a record, and a copy of the file as it was.
func (s *Setup) remember(r record, file string, data []byte) error {
	list, err := s.records()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir(), 0o700); err != nil {
		return err
	}
	if r.Existed = data != nil; r.Existed {
		if err := atomicfile.Write(s.copyOf(r, file), data); err != nil {
			return err
		}
	}
	return s.write(append(slices.DeleteFunc(list, r.replaces), r))
}

// forget removes the record of a step and the copy.
func (s *Setup) forget(r record, file string) error {
	list, err := s.records()
	if err != nil {
		return err
	}
	if err := s.write(slices.DeleteFunc(list, r.replaces)); err != nil {
		return err
	}
	if err := os.Remove(s.copyOf(r, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(s.dir()) // fails if it is not empty
	return nil
}

func (s *Setup) write(list []record) error {
	if len(list) == 0 {
		if err := os.Remove(s.recordsFile()); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.recordsFile(), append(data, '\n'))
}

// restore writes the copy in place of the file if that is as we have left it, and reports whether it is so.
func (s *Setup) restore(f *stophook.File, r record, file string) (bool, error) {
	if f.Data() == nil || sum(f.Data()) != r.After {
		return false, nil
	}
	var before []byte
	if r.Existed {
		var err error
		if before, err = os.ReadFile(s.copyOf(r, file)); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return true, f.Replace(before)
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}
