package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"

	"teambridge/teams/atomicfile"
	"teambridge/teams/rawjson"
	"teambridge/teams/sharedfile"
)

// The errors about files that are not changed.
var (
	errDangling   = errors.New("is a symbolic link that leads nowhere")
	errNotRegular = errors.New("is not a regular file")
	errChanged    = errors.New("another program has just changed")
)

// resolve returns the path of the file that is at path, perhaps by a link, and refuses what is there but is not a regular file.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(path); lerr == nil {
			return "", fmt.Errorf("%s %w", path, errDangling)
		}
		// The directory may be reached by a link.
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			return filepath.Join(dir, filepath.Base(path)), nil
		}
		return path, nil
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err == nil && !info.Mode().IsRegular() { // reading a pipe would not end
		err = fmt.Errorf("%s %w", path, errNotRegular)
	}
	return real, err
}

// readIfAny reads a file; nil if there is none.
func readIfAny(path string) ([]byte, error) {
	real, err := resolve(path)
	if err != nil {
		return nil, err
	}
	data, err := sharedfile.ReadFile(real) // of an empty file it is not nil
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// replace writes a file of which old was read, or removes it if data is nil, unless another program has changed it since. The
// path is not that of a link.
func replace(path string, old, data []byte) error {
	now, err := readIfAny(path)
	switch {
	case err != nil:
		return err
	case !same(now, old):
		return fmt.Errorf("%w %s", errChanged, path)
	case same(data, old):
		return nil
	case data == nil:
		return os.Remove(path)
	}
	return atomicfile.Write(path, data)
}

// same reports whether two files have the same bytes. nil is no file.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// invalid is the error about a settings file that is not as expected.
func invalid(path string, err error) error {
	return fmt.Errorf("%s: %w; nothing was changed: repair the file by hand, and try again", path, err)
}

// addition changes the content of a settings file, given what an earlier call has made in it, and returns what is made in it now.
type addition func(data []byte, was []rawjson.Made) ([]byte, []rawjson.Made, error)

// add has a step add something to a settings file. ours says that it was there before in another form, of which there is no record: then
// it is changed, and remains without one.
func (s *Setup) add(st *Step, path string, ours bool, change addition) error {
	file, err := resolve(path)
	if err != nil {
		return err
	}
	old, err := readIfAny(file)
	if err != nil {
		return err
	}
	all, err := s.records()
	if err != nil {
		return err
	}
	text := old
	if text == nil {
		text = []byte("{}\n")
	}
	r := record{Step: st.Name, Target: st.Target, Files: map[string]string{}}
	others := all.sharing(file, r)
	recorded := true
	if found := all.find(st); found != nil {
		r = *found // with the file to which a link has led before
	} else if recorded = len(others) > 0; recorded {
		r.Made = others[0].Made
	}
	data, made, err := change(text, r.Made)
	if err != nil {
		return invalid(path, err)
	}
	unchanged := bytes.Equal(data, text) && old != nil
	switch {
	case unchanged && !recorded, unchanged && all.find(st) != nil:
		return nil // it was there before
	case ours && !recorded:
		st.Changed = true
		return replace(file, old, data)
	}
	kept, known := all.Files[file]
	before := all.clone()
	r.Files, r.Made = maps.Clone(r.Files), made
	r.Files[file] = path
	if err := s.begin(all, r); err != nil { // first, since what has no record is not undone
		return err
	}
	after := all.Files[file]
	if after.Sum = ""; !known || kept.Sum == sum(old) {
		after.Sum = sum(data)
	}
	dir := filepath.Dir(file)
	_, gone := os.Stat(dir)
	after.Directory = after.Directory || errors.Is(gone, fs.ErrNotExist)
	all.Files[file] = after
	if err = s.write(all); err == nil && gone != nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err == nil {
		err = replace(file, old, data)
	}
	if err != nil {
		if !known {
			err = errors.Join(err, s.discard(file))
		}
		return errors.Join(err, s.write(before))
	}
	st.Changed = !unchanged // else it is for this directory, too, and stays when theirs is undone
	return nil
}

// take undoes [Setup.add], by a change that is given what was made, if there is a record of it.
func (s *Setup) take(st *Step, path string, change func(data []byte, made []rawjson.Made) ([]byte, error)) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	r := record{Step: st.Name, Target: st.Target}
	if found := all.find(st); found != nil {
		r = *found
	}
	paths := []string{path} // where the link leads now, and what was changed
	for file := range r.Files {
		if now, err := resolve(path); err != nil || now != file {
			paths = append(paths, file)
		}
	}
	for _, path := range paths {
		file, err := resolve(path)
		if err != nil {
			return err
		}
		old, err := readIfAny(file)
		if err != nil {
			return err
		}
		if len(all.sharing(file, r)) > 0 {
			continue // they undo it later
		}
		data, restored, err := s.before(all, r, file, old)
		if err != nil {
			return err
		}
		if !restored && old != nil {
			if data, err = change(old, r.Made); err != nil {
				return invalid(path, err)
			}
			if data, err = s.settled(all, r, file, data); err != nil {
				return err
			}
		}
		if old != nil && !same(data, old) {
			if err := replace(file, old, data); err != nil {
				return err
			}
			st.Changed = true
		}
		if kept, ok := all.Files[file]; ok {
			if kept.Sum == sum(old) {
				kept.Sum = sum(data)
			} else {
				kept.Sum = ""
			}
			all.Files[file] = kept
		}
	}
	return s.end(all, r)
}

// before returns what a file was before all of our steps, if no other step than that of r uses it, and nobody has changed it since.
func (s *Setup) before(all *records, r record, file string, now []byte) (data []byte, ok bool, err error) {
	kept, known := all.Files[file]
	if !known || now == nil || kept.Sum != sum(now) || len(all.users(file, r)) > 0 {
		return nil, false, nil
	}
	return s.original(file, kept)
}

// original returns what the file was before. There is no answer if somebody has removed the copy.
func (s *Setup) original(file string, kept kept) (data []byte, ok bool, err error) {
	if !kept.Existed {
		return nil, true, nil
	}
	data, err = os.ReadFile(s.copyOf(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return data, err == nil, err
}

// settled returns what a file is to be that others have changed since, given its content without our entries: what it was before, if it says
// the same, but in the form in which a program writes it; nil if it was none and nothing is left in it.
func (s *Setup) settled(all *records, r record, file string, now []byte) ([]byte, error) {
	kept, known := all.Files[file]
	if !known || now == nil || len(all.users(file, r)) > 0 {
		return now, nil
	}
	before, ok, err := s.original(file, kept)
	if err != nil || !ok {
		return now, err
	}
	if kept.Rewritten && alike(before, now) || !kept.Existed && string(bytes.Join(bytes.Fields(now), nil)) == "{}" {
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

// begun records a step before it has a program change files. rewritten says that this writes all of them in its own form.
func (s *Setup) begun(st *Step, command []string, rewritten bool, paths ...string) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	r := record{Step: st.Name, Target: st.Target, Command: command, Files: map[string]string{}}
	for _, path := range paths {
		file, err := resolve(path)
		if err != nil {
			return err
		}
		r.Files[file] = path
	}
	if err := s.begin(all, r); err != nil || !rewritten {
		return err
	}
	for file := range r.Files {
		kept := all.Files[file]
		kept.Rewritten, kept.Sum = true, ""
		all.Files[file] = kept
	}
	return s.write(all)
}

// ended forgets a step that a program has undone, and gives files that no other step uses what they had before.
func (s *Setup) ended(st *Step) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	r := all.find(st)
	if r == nil {
		return nil
	}
	for file := range r.Files {
		now, err := readIfAny(file)
		if err == nil && now != nil {
			var data []byte
			if data, err = s.settled(all, *r, file, now); err == nil {
				err = replace(file, now, data)
			}
		}
		if err != nil {
			return err
		}
	}
	return s.end(all, *r)
}

// left records how a program has left the files of a step.
func (s *Setup) left(st *Step) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	for file := range all.find(st).Files {
		now, err := readIfAny(file)
		if err != nil {
			return err
		}
		kept := all.Files[file]
		kept.Sum = sum(now)
		all.Files[file] = kept
	}
	return s.write(all)
}

// restored gives the files of a step what they had before if nobody has changed them since, and reports whether it is so.
func (s *Setup) restored(all *records, r record) (changed bool, err error) {
	for file, path := range r.Files {
		if now, err := resolve(path); err != nil || now != file {
			continue
		}
		now, err := readIfAny(file)
		if err != nil {
			return changed, err
		}
		data, ok, err := s.before(all, r, file, now)
		if err == nil && ok && !same(data, now) {
			changed, err = true, replace(file, now, data)
		}
		if err != nil {
			return false, err
		}
	}
	return changed, nil
}
