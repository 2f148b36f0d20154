package setup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
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
	Directory bool   `json:"directory,omitempty"` // that of the file was made for it
}

func (s *Setup) doneFile() string { return stophook.DoneFile(s.State) }

func (s *Setup) dir() string { return filepath.Dir(s.doneFile()) }

// copyOf is where the copy is of a file as it was.
func (s *Setup) copyOf(file string) string {
	return filepath.Join(s.dir(), sum([]byte(file))[:16]+"-"+filepath.Base(file))
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
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

// find returns the record of a step, and a new one if it was not done.
func (all *records) find(st *Step) (r record, done bool) {
	r = record{Step: st.Name, Target: st.Target, Files: map[string]string{}}
	files := r.Files
	if i := slices.IndexFunc(all.Steps, r.of); i >= 0 {
		r, done = all.Steps[i], true
	}
	maps.Copy(files, r.Files)
	r.Files = files
	return r, done
}

// of reports whether two records belong to the same step.
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

// begin adds the record of a step, and keeps a copy of each of its files that has none yet.
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
		_, gone := os.Stat(filepath.Dir(file))
		all.Files[file] = kept{Existed: data != nil, Sum: sum(data), Directory: errors.Is(gone, fs.ErrNotExist)}
	}
	all.Steps = append(slices.DeleteFunc(all.Steps, r.of), r)
	return nil
}

// left says in the records how a step has left a file, which was old before.
func (all *records) left(file string, old, data []byte) {
	if kept, ok := all.Files[file]; ok {
		if kept.Sum == sum(old) {
			kept.Sum = sum(data)
		} else {
			kept.Sum = ""
		}
		all.Files[file] = kept
	}
}

// write writes the records, without files that no step uses any more. Of those there are no copies then.
func (s *Setup) write(all *records) error {
	maps.DeleteFunc(all.Files, func(file string, k kept) bool {
		unused := !slices.ContainsFunc(all.Steps, func(r record) bool { return r.Files[file] != "" })
		if unused && k.Directory {
			_ = os.Remove(filepath.Dir(file)) // fails if it is not empty
		}
		return unused
	})
	names := map[string]bool{}
	for file := range all.Files {
		names[filepath.Base(s.copyOf(file))] = true
	}
	if len(all.Steps) > 0 {
		names[filepath.Base(s.doneFile())] = true
		data, err := json.MarshalIndent(all, "", "  ")
		if err == nil {
			err = atomicfile.Write(s.doneFile(), append(data, '\n'))
		}
		if err != nil {
			return err
		}
	}
	there, err := os.ReadDir(s.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range there {
		if !names[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir(), e.Name())))
		}
	}
	_ = os.Remove(s.dir()) // fails if it is not empty
	return err
}

// restored returns what a file is to be, given its content: what it was before all of our steps, if no other step than that of r uses
// it, and the content is as the last step has left it, or says the same as before in the form in which a program writes it, or has
// nothing in it in a file that was made. There is no file if that is nil. Otherwise it returns the content.
func (s *Setup) restored(all *records, r record, file string, now []byte) ([]byte, error) {
	kept, known := all.Files[file]
	if !known || now == nil || len(all.users(file, r)) > 0 {
		return now, nil
	}
	var before []byte
	if kept.Existed {
		var err error
		if before, err = os.ReadFile(s.copyOf(file)); errors.Is(err, fs.ErrNotExist) {
			return now, nil // somebody has removed the copy
		} else if err != nil {
			return nil, err
		}
	}
	if kept.Sum == sum(now) || kept.Rewritten && alike(before, now) || !kept.Existed && string(bytes.Join(bytes.Fields(now), nil)) == "{}" {
		return before, nil
	}
	return now, nil
}

// mark is what a text in UTF-8 can begin with.
var mark = []byte("\xef\xbb\xbf")

// alike reports whether two objects say the same, but for empty objects and a version that the first one does not have.
func alike(before, now []byte) bool {
	before, now = bytes.TrimPrefix(before, mark), bytes.TrimPrefix(now, mark)
	var a, b map[string]any
	if len(before) > 0 && json.Unmarshal(before, &a) != nil || json.Unmarshal(now, &b) != nil {
		return false
	}
	for key, v := range b {
		object, ok := v.(map[string]any)
		if _, had := a[key]; !had && (ok && len(object) == 0 || key == "version") {
			delete(b, key)
		}
	}
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}
