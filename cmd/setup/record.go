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

// records are the steps that setup has done and the files that it has changed, for undoing them.
type records struct {
	Steps []record        `json:"steps"`           // in the order of execution
	Files map[string]kept `json:"files,omitempty"` // by real path
}

// record is a completed step.
type record struct {
	Step    string            `json:"step"`
	Target  string            `json:"target"`            // see [Step]
	Files   map[string]string `json:"files,omitempty"`   // changed files, each with the path by which it was found, perhaps a link
	Made    []rawjson.Made    `json:"made,omitempty"`    // structure added to the file besides the entry itself
	Command []string          `json:"command,omitempty"` // the command that the program runs
}

// kept is the state of a file that steps have changed. A copy of its original content is kept.
type kept struct {
	Existed   bool   `json:"existed,omitempty"`
	Sum       string `json:"sum,omitempty"`       // of the content after the last step; "": another program may have changed the file before
	Rewritten bool   `json:"rewritten,omitempty"` // a program has written it in its own form
	Directory bool   `json:"directory,omitempty"` // the file's directory was created for it
}

func (s *Setup) doneFile() string { return stophook.DoneFile(s.State) }

func (s *Setup) dir() string { return filepath.Dir(s.doneFile()) }

// copyOf returns the path of the copy of a file's original content.
func (s *Setup) copyOf(file string) string {
	return filepath.Join(s.dir(), sum([]byte(file))[:16]+"-"+filepath.Base(file))
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// records reads the records.
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

// find returns the record of a step, or a new one.
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

// users returns the records of steps other than r's that use a file: the recorded paths lead to it now.
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

// sharing returns the records in users of the same step: two directories can share a settings file by a link.
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

// left records the content of a file after a step. old is the content before the step.
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

// write writes the records, without the files that no step uses any more. It removes the copies of these files.
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

// restored returns the content for a file when r is undone, or nil for no file. now is the present content. It
// is the original content if no step other than r's uses the file, and now either is the content after the last
// step, equals the original in the form in which a program writes it, or is empty in a file that setup created.
// Otherwise it is now.
func (s *Setup) restored(all *records, r record, file string, now []byte) ([]byte, error) {
	kept, known := all.Files[file]
	if !known || now == nil || len(all.users(file, r)) > 0 {
		return now, nil
	}
	var before []byte
	if kept.Existed {
		var err error
		if before, err = os.ReadFile(s.copyOf(file)); errors.Is(err, fs.ErrNotExist) {
			return now, nil // the copy is gone
		} else if err != nil {
			return nil, err
		}
	}
	if kept.Sum == sum(now) || kept.Rewritten && alike(before, now) || !kept.Existed && string(bytes.Join(bytes.Fields(now), nil)) == "{}" {
		return before, nil
	}
	return now, nil
}

// mark is an optional prefix of UTF-8 texts.
var mark = []byte("\xef\xbb\xbf")

// alike reports whether two objects are equal, apart from empty objects, and a version that only the second one has.
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
