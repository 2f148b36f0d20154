package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"teambridge/teams/atomicfile"
	"teambridge/teams/rawjson"
	"teambridge/teams/sharedfile"
)

// Errors about files that are left unchanged.
var (
	errDangling   = errors.New("is a symbolic link that leads nowhere")
	errNotRegular = errors.New("is not a regular file")
	errChanged    = errors.New("another program has just changed")
)

// resolve returns the real path of the file at path, which may be a link, and refuses anything that is not a
// regular file.
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
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	info, err := os.Stat(real)
	if err == nil && !info.Mode().IsRegular() { // reading a pipe would not end
		err = fmt.Errorf("%s %w", path, errNotRegular)
	}
	return real, err
}

// readIfAny reads a file, or returns nil if there is none.
func readIfAny(path string) ([]byte, error) {
	real, err := resolve(path)
	if err != nil {
		return nil, err
	}
	data, err := sharedfile.ReadFile(real) // not nil for an empty file
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// replace replaces the content old of a file by data, or removes the file if data is nil. It fails if another
// program has changed the file in between. The path must not be a link.
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
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return atomicfile.Write(path, data)
}

// same reports whether two contents are equal. nil means no file.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// invalid is the error for a settings file with unexpected content.
func invalid(path string, err error) error {
	return fmt.Errorf("%s: %w; nothing was changed: repair the file by hand, and try again", path, err)
}

// addition changes the content of a settings file. was is the record of an earlier call, and the second result
// is the new record.
type addition func(data []byte, was []rawjson.Made) ([]byte, []rawjson.Made, error)

// add makes an addition to a settings file. With ours, an earlier form of the addition is there without a
// record. It is then changed, and remains without one.
func (s *Setup) add(st *Step, path string, ours bool, change addition) error {
	file, err := resolve(path)
	if err != nil {
		return err
	}
	old, err := readIfAny(file)
	if err != nil {
		return err
	}
	before, err := s.records()
	if err != nil {
		return err
	}
	r, done := before.find(st) // recorded for the file that the link led to before
	others := before.sharing(file, r)
	if !done && len(others) > 0 {
		r.Made = others[0].Made
	}
	recorded := done || len(others) > 0
	text := orEmpty(old)
	data, made, err := change(text, r.Made)
	if err != nil {
		return invalid(path, err)
	}
	changed := !bytes.Equal(data, text)
	switch {
	case !changed && (done || !recorded):
		return nil // the addition was there before
	case ours && !recorded:
		st.Changed = true
		return replace(file, old, data)
	}
	all, err := s.records()
	if err != nil {
		return err
	}
	r.Made, r.Files[file] = made, path
	if err = s.begin(all, r); err == nil {
		all.left(file, old, data)
		err = s.write(all) // the record comes first, since only recorded steps are undone
	}
	if err == nil {
		err = replace(file, old, data)
	}
	if err != nil {
		return errors.Join(err, s.write(before))
	}
	st.Changed = changed // otherwise it also serves this directory, and stays when the other directory's step is undone
	return nil
}

// orEmpty returns the content of a settings file, or of an empty one if there is none.
func orEmpty(data []byte) []byte {
	if data == nil {
		return []byte("{}\n")
	}
	return data
}

// removal removes a step's additions from a file with content old, and returns the rest.
type removal func(file string, old []byte, r record) ([]byte, error)

// edit returns the removal that changes the content of a settings file. made is the record of the addition.
func edit(change func(data []byte, made []rawjson.Made) ([]byte, error)) removal {
	return func(file string, old []byte, r record) ([]byte, error) {
		data, err := change(old, r.Made)
		if err != nil {
			return nil, invalid(file, err)
		}
		return data, replace(file, old, data)
	}
}

// take undoes a step's changes of files, including the file that path leads to now, and removes its record. remove is
// called only for files that do not get their old bytes back. If remove is nil, such a file stays as it is.
func (s *Setup) take(st *Step, path string, remove removal) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	r, _ := all.find(st)
	files := map[string]bool{}
	for _, path := range slices.AppendSeq([]string{path}, maps.Keys(r.Files)) {
		if path != "" {
			file, err := resolve(path)
			if err != nil {
				return err
			}
			files[file] = true
		}
	}
	for file := range files {
		old, err := readIfAny(file)
		if err != nil {
			return err
		}
		if old == nil || len(all.sharing(file, r)) > 0 { // undoing the other records will restore it
			continue
		}
		now := old
		data, err := s.restored(all, r, file, old)
		if err == nil && same(data, old) && remove != nil {
			if now, err = remove(file, old, r); err == nil {
				data, err = s.restored(all, r, file, now)
			}
		}
		if err == nil {
			err = replace(file, now, data)
		}
		if err != nil {
			return err
		}
		all.left(file, old, data)
		st.Changed = st.Changed || !same(data, old)
	}
	all.Steps = slices.DeleteFunc(all.Steps, r.of)
	return s.write(all)
}

// ran records a step and calls do, which changes the files at paths by running a program. The program will run
// command later. Claude Code writes files in its own form.
func (s *Setup) ran(st *Step, command []string, do func() error, paths ...string) error {
	all, err := s.records()
	if err != nil {
		return err
	}
	r, _ := all.find(st)
	r.Command = command
	for _, path := range paths {
		file, err := resolve(path)
		if err != nil {
			return err
		}
		r.Files[file] = path
	}
	if err := s.begin(all, r); err != nil {
		return err
	}
	before := map[string][]byte{}
	for file := range r.Files {
		if before[file], err = readIfAny(file); err != nil {
			return err
		}
		if st.Program == Claude {
			kept := all.Files[file]
			kept.Rewritten, kept.Sum = true, ""
			all.Files[file] = kept
		}
	}
	if err := s.write(all); err != nil { // the record comes first, since only recorded steps are undone
		return err
	}
	if err := do(); err != nil {
		return err
	}
	for file, old := range before {
		now, err := readIfAny(file)
		if err != nil {
			return err
		}
		all.left(file, old, now)
	}
	return s.write(all)
}
