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

// replace replaces the content old of a file, or removes the file if data is nil, unless another program has
// changed it in between. The path must not be that of a link.
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

// same reports whether two files have the same bytes. nil means no file.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// invalid is the error about a settings file that is not as expected.
func invalid(path string, err error) error {
	return fmt.Errorf("%s: %w; nothing was changed: repair the file by hand, and try again", path, err)
}

// addition changes the content of a settings file, given the record of an earlier call, and returns the new
// record.
type addition func(data []byte, was []rawjson.Made) ([]byte, []rawjson.Made, error)

// add has a step add something to a settings file. ours says that it was there before in another form, without a record: then
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
	before, err := s.records()
	if err != nil {
		return err
	}
	r, done := before.find(st) // with the file to which a link has led before
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
		return nil // it was there before
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
		err = s.write(all) // first, since what has no record is not undone
	}
	if err == nil {
		err = replace(file, old, data)
	}
	if err != nil {
		return errors.Join(err, s.write(before))
	}
	st.Changed = changed // else it is for this directory, too, and stays when theirs is undone
	return nil
}

// orEmpty is the content of a settings file, or of an empty one if there is none.
func orEmpty(data []byte) []byte {
	if data == nil {
		return []byte("{}\n")
	}
	return data
}

// removal removes a step's additions from a file with content old, and returns the rest.
type removal func(file string, old []byte, r record) ([]byte, error)

// edit is the removal that changes the content of a settings file, given what was made in it.
func edit(change func(data []byte, made []rawjson.Made) ([]byte, error)) removal {
	return func(file string, old []byte, r record) ([]byte, error) {
		data, err := change(old, r.Made)
		if err != nil {
			return nil, invalid(file, err)
		}
		return data, replace(file, old, data)
	}
}

// take undoes what a step has done to files, and to the one to which path leads now, and removes its record. Only a file that does not
// get its old bytes back is given to remove; without that, it stays as it is.
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
		if old == nil || len(all.sharing(file, r)) > 0 { // they undo it later
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

// ran records a step, and has do change the files at paths by a program, which runs command later. Claude Code writes them in its own form.
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
	if err := s.write(all); err != nil { // first, since what has no record is not undone
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
